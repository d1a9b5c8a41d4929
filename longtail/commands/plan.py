"""What `longtail plan` does: says what a run of the study would still compute, and computes nothing."""

from __future__ import annotations

import logging
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dagster_project.operations import in_one_line
from dagster_project.stages import Stage, plan
from longtail.commands.display import StageTimes
from longtail.commands.run import report_missing
from longtail.errors import LakeError
from longtail.generation.engine.estimate import Estimate, estimate
from longtail.generation.engine.session import ModelSession
from longtail.generation.engine.task import Scope
from longtail.generation.tasks.registry import TASKS
from longtail.preflight import misses
from longtail.progress import duration
from longtail.storage.home import study_file
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.study.study import Study

_LOG = logging.getLogger("longtail")


@dataclass(frozen=True)
class Planned:
    """A stage: what it has still to do, in words, and its seconds and dollars; None where they are not known."""

    title: str
    state: str
    seconds: float | None = 0.0
    usd: float | None = 0.0

    def __str__(self) -> str:
        time = "" if self.seconds == 0 else "?" if self.seconds is None else duration(self.seconds)
        money = f"  ${self.usd:,.2f}" if self.usd else ""
        return f"  {self.title:<46.46} {time:>7}  {self.state}{money}"


@in_one_line
def main() -> int:
    """Print the plan; return the exit code. A failure is one line on standard error."""
    warnings.filterwarnings("ignore")
    study = load_study(study_file())
    if missing := misses(study):
        return report_missing(study, missing)
    print(f"Longtail: study {study.name} ({study.path.name}), state in {study.home.root}")
    print(
        "What a run would do, a stage in each line, with the time that it may take. Nothing is computed now."
    )
    stages = []
    for planned in plan_of(study):
        stages.append(planned)
        print(planned, flush=True)
    print("\n".join(_sums(study, stages)))
    return 0


def plan_of(study: Study) -> Iterator[Planned]:
    """Every stage of the study in order. Errors: `LongtailError` where a model's files cannot be read."""
    from dagster_project.definitions import defs

    times, lake = StageTimes(study.home.stage_times), Lake(study.home.lake)
    with ModelSession(_LOG) as session:
        for stage in plan(study, defs().resolve_asset_graph()):
            table = stage.keys[0].split("/")[-1]
            if stage.model is None or table not in TASKS:
                last = times.of(stage)
                state = "to do" if last is None else "ran before; skipped if nothing it reads has changed"
                yield Planned(stage.title, state, last)
                continue
            try:
                yield _generation_line(stage, [*_estimates(study, lake, stage, session)])
            except LakeError:
                yield Planned(
                    stage.title, "to do; counted once the stages before it have run", times.of(stage)
                )


def _estimates(study: Study, lake: Lake, stage: Stage, session: ModelSession) -> Iterator[Estimate]:
    """What the partitions of a generated table have still to do; nothing for current ones."""
    task, model = TASKS[stage.keys[0].split("/")[-1]], study.model(str(stage.model))
    by_method = stage.first != stage.model
    for method in study.methods if by_method else (None,):
        if found := estimate(task, Scope(study, lake, model, method), session):
            yield found


def _generation_line(stage: Stage, estimates: Iterable[Estimate]) -> Planned:
    """The line of a generated table, whose partitions have these estimates."""
    found = list(estimates)
    if not found:
        return Planned(stage.title, "finished")
    missing, results = sum(one.n_missing for one in found), sum(one.n_results for one in found)
    if not missing:
        return Planned(stage.title, f"rows made again from {results:,} results in the row cache")
    prompt, new = sum(one.prompt_tokens for one in found), sum(one.new_tokens for one in found)
    return Planned(
        stage.title,
        f"{missing:,} of {results:,} results; about {prompt:,} prompt tokens and {new:,} new ones",
        _sum(one.seconds for one in found),
        _sum(one.usd for one in found),
    )


def _sums(study: Study, stages: Iterable[Planned]) -> Iterator[str]:
    seconds = [one.seconds for one in stages]
    known = sum(one or 0.0 for one in seconds)
    least = "at least " if None in seconds else ""
    yield f"Together {least}{duration(known)} if every stage runs again; finished ones are skipped."
    if usd := sum(one.usd or 0.0 for one in stages):
        yield f"Dollars: about {usd:,.2f}; a service's key max_cost_usd limits what a partition may cost."
    for model in study.models:
        if model.generates and model.n_parameters and not model.service:
            width = 4 if model.dtype == "float32" else 2
            yield f"Weights of {model.name} in memory: {model.n_parameters * width / 1e9:,.2f} GB ({model.dtype})."
    folder = next(path for path in (study.home.root, *study.home.root.parents) if path.exists())
    yield f"Disk: {shutil.disk_usage(folder).free / 1e9:,.0f} GB are free in {folder}."


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum; None where a value is not known."""
    found = list(values)
    return None if None in found else sum(one or 0.0 for one in found)


if __name__ == "__main__":
    sys.exit(main())
