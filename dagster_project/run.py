"""What `make run` does: materialise the chosen study stage by stage through Dagster, and print the results.

Every stage is a run in the UI's history. A stage whose partitions are all current computes nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_project.core.disk import advised, is_disk_full
from dagster_project.core.errors import single_line
from dagster_project.core.files import atomic_file
from dagster_project.core.home import longtail_home, study_file
from dagster_project.core.ownership import forget_run, only_one
from dagster_project.core.preflight import misses
from dagster_project.core.study.file import load_study
from dagster_project.core.study.study import Study
from dagster_project.core.warehouse.build import warehouse_inputs
from dagster_project.core.warehouse.headline import headline, render_headline
from dagster_project.core.warehouse.publication import find_damage
from dagster_project.operations import error_line, is_for_the_user, keep_downloads_in, open_instance
from dagster_project.stages import Stage, plan
from dagster_project.terminal import Calm, Condensed

_RANGE_START = "dagster/asset_partition_range_start"
_RANGE_END = "dagster/asset_partition_range_end"
_SHOWN_CHECKS = 3
_LOGGERS = ("longtail", "dagster_project")  # dagster.yaml shows the same ones in the UI
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def main() -> int:
    """Run the study; return the exit code. A failure is one line on standard error."""
    warnings.filterwarnings("ignore")
    began = time.monotonic()
    try:
        study = load_study(study_file())
        keep_downloads_in(study.home)
        if missing := misses(study):
            return _told(study, missing)
        _listen()
        print(f"Longtail: study {study.name} ({study.path.name}), state in {study.home.root}", flush=True)
        busy = f"another `make run` works on study {study.name}; wait for it, or stop it"
        with only_one(study.home.locks / "run.lock", busy):
            n_failed = materialise(study)
            if n_failed:
                return 1
            print(f"\n{render_headline(headline(study.home.published_warehouse))}")
            print(_where_next(study, time.monotonic() - began))
        return 0
    except KeyboardInterrupt:
        print("stopped; finished rows are kept, `make run` continues from here", file=sys.stderr)
        return 130
    except Exception as error:
        if not is_for_the_user(error):
            raise
        print(f"error: {error_line(error)}", file=sys.stderr)
        return 1


def _told(study: Study, missing: list[str]) -> int:
    """Show what is missing, a line each; return the exit code."""
    if len(missing) == 1:
        print(f"error: {missing[0]}", file=sys.stderr)
    else:
        lines = "".join(f"\n  {line}" for line in missing)
        print(
            f"error: {study.path}: {len(missing)} things are missing; nothing was computed:{lines}",
            file=sys.stderr,
        )
    return 1


def materialise(study: Study) -> int:
    """Materialise every stage of the study; return 0, or 1 after printing which step failed."""
    with open_instance(study) as instance:
        _say("loading definitions")
        from dagster_project.definitions import defs

        definitions = defs()
        stages = plan(study, definitions.resolve_asset_graph())
        inputs = ""
        for number, stage in enumerate(stages, 1):
            started = time.monotonic()
            _say(f"[{number}/{len(stages)}] {stage.title}")
            if stage.is_output:
                inputs = warehouse_inputs(study)  # before the build, which does not see later changes
                if _is_published(study, inputs):
                    continue
                _published_inputs(study).unlink(
                    missing_ok=True
                )  # from here on, the published files are replaced
            failure = run_stage(definitions, instance, study, stage)
            if failure:
                print(f"error: {stage.title}: {failure}", file=sys.stderr)
                return 1
            _say(f"[{number}/{len(stages)}] {stage.title}: done in {time.monotonic() - started:.1f} s")
    with atomic_file(_published_inputs(study)) as temporary:
        temporary.write_text(inputs, encoding="ascii")
    return 0


def _published_inputs(study: Study) -> Path:
    return study.home.published / "inputs"


def _is_published(study: Study, inputs: str) -> bool:
    """Whether a lake with these `inputs` is published already, and all published files still exist undamaged."""
    published = _published_inputs(study)
    home = study.home
    made = (home.published_warehouse, home.published_report, home.published_docs, home.published_export)
    if not all(path.exists() for path in (published, *made)) or published.read_bytes() != inputs.encode():
        return False
    damage = find_damage(home.published_warehouse)
    if damage:
        _say(f"      the published warehouse is damaged and will be built again: {single_line(damage)}")
        return False
    _say("      the published warehouse already holds exactly this lake: nothing to build")
    return True


def run_stage(
    definitions: dg.Definitions, instance: dg.DagsterInstance, study: Study, stage: Stage
) -> str | None:
    """Run one stage in this process; return None, or the line that says what failed."""
    job = definitions.resolve_implicit_global_asset_job_def()
    tags = {_RANGE_START: stage.first, _RANGE_END: stage.last} if stage.first and stage.last else {}
    with contextlib.redirect_stdout(Condensed(sys.stdout)), contextlib.redirect_stderr(Calm(sys.stderr)):
        outcome = job.execute_in_process(
            instance=instance,
            asset_selection=[dg.AssetKey.from_user_string(key) for key in stage.keys],
            tags={**tags, "longtail/stage": stage.title},
            run_config=_QUIET,
            raise_on_error=False,
        )
    forget_run(study.home.locks, outcome.run_id)
    return None if outcome.success else _why(outcome.all_events)


def _why(events: Sequence[Any]) -> str:
    """What failed, in one line. A full disk comes first, as it may cause everything else. Failed checks come next: a
    blocking check also fails a step, with Dagster's message.
    """
    for said in map(_said, events):
        if is_disk_full(said):
            return advised(said)
    evaluated = [e.event_specific_data for e in events if e.event_type_value == "ASSET_CHECK_EVALUATION"]
    failed = [c for c in evaluated if not c.passed and c.severity == dg.AssetCheckSeverity.ERROR]
    if failed:
        more = f" (and {len(failed) - _SHOWN_CHECKS} more)" if len(failed) > _SHOWN_CHECKS else ""
        return single_line(f"failed {'; '.join(_check(check) for check in failed[:_SHOWN_CHECKS])}{more}")
    for event in events:
        if event.is_step_failure and (said := _said(event)):
            return said
    return "the run failed; its page in `make ui` says why"


def _said(event: Any) -> str:
    """The reason of a failed step or run in one line: our own message, or the message of the root error."""
    failed = event.event_specific_data if event.is_step_failure or event.is_run_failure else None
    if failed is None:
        return ""
    own = getattr(failed, "user_failure_data", None)
    if own and own.description:
        return single_line(str(own.description))
    error = failed.error
    while error and error.cause:
        error = error.cause
    trace = "(the run's page in `make ui` has the trace)"
    return single_line(f"{event.step_key or 'run'}: {error.message} {trace}") if error else ""


def _check(check: dg.AssetCheckEvaluation) -> str:
    named = f"check {check.check_name} of {check.asset_key.to_user_string()}"
    return f"{named}: {check.description}" if check.description else named


def _listen() -> None:
    """Also show in the terminal what the stages and their modules log (waits, retries, halved batches)."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("      %(message)s"))
    for name in _LOGGERS:
        log = logging.getLogger(name)
        log.setLevel(logging.INFO)
        log.addHandler(handler)


def _say(text: str) -> None:
    print(text, flush=True)


def _where_next(study: Study, seconds: float) -> str:
    near = os.path.relpath(study.path)
    file = str(study.path) if near.startswith("..") else near
    chosen = "" if study.home.root == longtail_home() else f" STUDY={file}"
    return (
        f"Done in {seconds:.0f} s. Where to look next:\n"
        f"  make sql{chosen}    the published warehouse in SQL: {study.home.published_warehouse}\n"
        f"  {study.home.published_report}    every figure in one page: open it in a browser\n"
        f"  make ui{chosen}     assets, runs and plots in the browser\n"
        f"  {file}   models, methods, prompts: add a model, then `make run{chosen}` again"
    )


if __name__ == "__main__":
    sys.exit(main())
