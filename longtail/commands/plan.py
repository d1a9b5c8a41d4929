"""What `longtail plan` does: says what a run of the study would still compute, and computes nothing."""

from __future__ import annotations

import functools
import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dagster_project.operations import in_one_line
from dagster_project.stages import Stage, plan
from longtail.commands.display import StageTimes
from longtail.commands.run import report_missing
from longtail.errors import LakeError
from longtail.generation.engine.session import ModelSession
from longtail.generation.engine.task import Scope
from longtail.generation.estimate import estimate, estimate_latencies
from longtail.generation.tasks.registry import TASKS
from longtail.imports.datasets import import_questions
from longtail.preflight import misses
from longtail.progress import duration
from longtail.questions.build import Choice, make_questions
from longtail.retrieval.splitting import passages_of
from longtail.storage.home import study_file
from longtail.storage.lake import Lake
from longtail.study.backends import IMPORTED
from longtail.study.file import load_study
from longtail.study.study import Study
from longtail.tables import TABLES

_LOG = logging.getLogger("longtail")
_SILENT = logging.getLogger("longtail.plan.silent")
_SILENT.setLevel(logging.CRITICAL)
_USUAL_PASSAGE = "passage " * 75
"""As long as a passage of 100 words."""
_USUAL_S = {"report": 60.0, "other": 3.0}
"""Seconds of a stage that has never run in this home: those of a small study on two slow cores."""


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
    with ModelSession(_LOG) as session, tempfile.TemporaryDirectory() as folder:
        assumed = functools.cache(lambda: assume_inputs(study, Lake(Path(folder))))
        for stage in plan(study, defs().resolve_asset_graph()):
            table, last = stage.keys[0].split("/")[-1], times.of(stage)
            try:
                if stage.model is None or (last is not None and table not in TASKS):
                    yield _line_of_other_stage(stage, last)
                    continue
                try:
                    yield _line_of_model(study, lake, stage, session, last)
                except LakeError:
                    yield _line_of_model(study, assumed(), stage, session, last)
            except LakeError:
                yield Planned(stage.title, "to do; counted once the stages before it have run", last)


def assume_inputs(study: Study, lake: Lake) -> Lake:
    """`lake` with the questions of the study's files, as if every retriever had found the passage beside each of them, or
    a text of usual length; of a long text, its longest passage. A study that asks about a source's facts has no questions
    yet.
    """
    if study.datasets_of_source:
        return lake
    files = [(one, import_questions(study, one, lake, _SILENT)) for one in study.datasets_of_files]
    beside = {
        entity: max(passages_of(text), key=len, default=text)
        for _, content in files
        for entity, (_, text) in content.passages.items()
    }
    no_facts, no_entities = (TABLES[name].schema.empty_table() for name in ("triples", "entities"))
    computed = make_questions(no_facts, no_entities, (), files, Choice.of(study), _SILENT)
    lake.write("questions", computed.rows, fingerprint="")
    questions = lake.read("questions").to_pylist()
    passages = [
        {"passage_id": f"{row['dataset']} {row['question_id']}", "entity_id": row["subject_id"], "title": "",
         "position": 0, "text": f"{row['question_id']} {beside.get(row['subject_id'], _USUAL_PASSAGE)}",
         "source": IMPORTED}
        for row in questions
    ]  # fmt: skip
    found = [
        {"dataset": row["dataset"], "question_id": row["question_id"], "paraphrase_id": 0, "rank": 1 + rank, "score": 0.0,
         "passage_id": passage["passage_id"], "has_answer": False, "has_answer_popqa": False}
        for row, passage in zip(questions, passages, strict=True)
        for rank in range(max(1, *(model.passages for model in study.models)))
    ]  # fmt: skip
    for table in ("passages", "cited_passages"):
        lake.write(table, passages, fingerprint="")
    for retriever in study.retrieval_methods:
        rows = [{**row, "retriever": retriever} for row in found]
        lake.write("retrieved_passages", rows, fingerprint="", partition=retriever)
    return lake


def _line_of_other_stage(stage: Stage, last: float | None) -> Planned:
    """The line of a stage that reads other tables than prompts."""
    if last is not None:
        return Planned(stage.title, "ran before; skipped if nothing it reads has changed", last)
    return Planned(
        stage.title, "to do; more for a large study", _USUAL_S["report" if stage.is_output else "other"]
    )


def _line_of_model(
    study: Study, lake: Lake, stage: Stage, session: ModelSession, last: float | None
) -> Planned:
    """The line of a stage of one model. Errors: `LakeError` where an input is not made yet."""
    table = stage.keys[0].split("/")[-1]
    if table in TASKS:
        return _generation_line(study, lake, stage, session)
    if table == "single_latencies":
        return Planned(stage.title, "to do", estimate_latencies(study, lake, study.model(str(stage.model))))
    return _line_of_other_stage(stage, last)


def _generation_line(study: Study, lake: Lake, stage: Stage, session: ModelSession) -> Planned:
    """The line of a generated table of one model; of its partitions, current ones have no estimate."""
    task, model = TASKS[stage.keys[0].split("/")[-1]], study.model(str(stage.model))
    methods = study.methods if stage.first != stage.model else (None,)
    of_each = (estimate(task, Scope(study, lake, model, method), session) for method in methods)
    found = [one for one in of_each if one]
    if not found:
        return Planned(stage.title, "finished")
    missing, results = sum(one.n_missing for one in found), sum(one.n_results for one in found)
    if not missing:
        return Planned(stage.title, f"rows made again from {results:,} results in the row cache")
    prompt, new = sum(one.prompt_tokens for one in found), sum(one.new_tokens for one in found)
    seconds, dollars = [one.seconds for one in found], [one.usd for one in found]
    return Planned(
        stage.title,
        f"{missing:,} of {results:,} results; about {prompt:,} prompt tokens and {new:,} new ones",
        None if None in seconds else sum(one or 0.0 for one in seconds),
        None if None in dollars else sum(one or 0.0 for one in dollars),
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
