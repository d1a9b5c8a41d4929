"""What `make run` does: materialise the chosen study stage by stage through Dagster, and print the results.

Every stage is a run in the UI's history, and all stages of one command have the same tag. A stage whose partitions
are all current computes nothing.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import logging
import os
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from rich.console import Console

from dagster_project.operations import RUN_SETTINGS, STUDY, in_one_line, open_instance
from dagster_project.stages import Stage, plan
from longtail.commands.display import Calm, Display, StageTimes
from longtail.errors import LongtailError, single_line
from longtail.preflight import misses
from longtail.progress import Progress
from longtail.storage.checksums import file_state
from longtail.storage.files import add_advice, atomic_file, is_disk_full
from longtail.storage.home import command, show_near, study_file
from longtail.storage.lake import Lake
from longtail.storage.object_store import STORE
from longtail.storage.ownership import forget_run, hold_run, only_one
from longtail.study.file import load_study
from longtail.study.study import Study
from longtail.warehouse.build import warehouse_inputs
from longtail.warehouse.publication import find_damage, headline, render_headline

_RANGE_START = "dagster/asset_partition_range_start"
_RANGE_END = "dagster/asset_partition_range_end"
_LOG = logging.getLogger("longtail")
_TOGETHER = {"longtail/run": f"{datetime.datetime.now():%Y-%m-%d %H:%M:%S} {uuid.uuid4().hex[:4]}"}
"""The tag of this process's runs: when it began, which a clock may say twice."""
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@in_one_line
def main(prepare: bool = False) -> int:
    """Run the study; return the exit code. A failure is one line on standard error.

    `prepare`: stop before the first stage of a model.
    """
    warnings.filterwarnings("ignore")
    began = time.monotonic()
    study = load_study(study_file())
    if missing := misses(study, with_models=not prepare):
        return report_missing(study, missing)
    print(f"Longtail: study {study.name} ({study.path.name}), state in {study.home.root}", flush=True)
    busy = f"another run works on study {study.name}; wait for it, or stop it"
    with only_one(study.home.locks / "run.lock", busy):
        console = Console(file=sys.stdout, highlight=False)
        with Display(console, StageTimes(study.home.stage_times)).listen() as display:
            failed = materialise(study, display, prepares=prepare)
        if prepare:
            print(_generation_advice(study), flush=True)
        elif len(failed) < len(study.models):
            print(f"\n{render_headline(headline(study.home.published_warehouse))}")
            print(_where_next(study, time.monotonic() - began), flush=True)
        return _report_unfinished(study, failed)


def report_missing(study: Study, missing: list[str]) -> int:
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


def _report_unfinished(study: Study, failed: Mapping[str, str]) -> int:
    """Say what failed of which models, and how to go on; return the exit code."""
    if not failed:
        return 0
    for line in failed.values():
        print(f"error: {line}", file=sys.stderr)
    n_finished = len(study.models) - len(failed)
    if n_finished:
        others = f"the other {n_finished} models are" if n_finished > 1 else "the other model is"
        print(
            f"  {', '.join(failed)}: not finished. The warehouse is published: {others} complete, and mart"
            " fct_answer_coverage counts the rows that are missing.",
            file=sys.stderr,
        )
    print(
        f"  Finished rows are kept: correct the cause, then `{command('run')}` again continues there.",
        file=sys.stderr,
    )
    return 1


def materialise(study: Study, display: Display, *, prepares: bool = False) -> dict[str, str]:
    """Materialise every stage of the study; return the models that are not finished, each with its failure.

    `prepares`: only the stages before the first one of a model.

    Where a stage of one model fails, the other models go on, and the warehouse is built over what is finished. If all
    models fail, nothing is built. Errors: `LongtailError` where a stage fails that all models share, or the disk is full.
    """
    failed: dict[str, str] = {}
    made: dict[Stage, set[tuple[str, str]]] = {}
    lake = Lake.of(study.name, study.home.lake)
    with open_instance(study, RUN_SETTINGS) as instance:
        with Progress(_LOG, "loading definitions"):
            from dagster_project.definitions import defs

            definitions = defs()
            stages = plan(study, definitions.resolve_asset_graph())
        if prepares:
            stages = list(itertools.takewhile(lambda stage: stage.model is None, stages))
        display.plan(stages)
        lake.discard_damage()  # a store's objects then replace what it has
        for number, stage in enumerate(stages, 1):
            if not _is_possible(study, stage, failed):
                continue
            lake.synchronise()
            for one in made if stage.is_output else ():
                if one.model and made[one] - {*_partitions_of(lake, one)}:
                    failed.setdefault(
                        one.model, f"{one.title}: another machine, where it failed, removed results"
                    )
            before = _files_of(lake, stage)
            display.begin(number)
            if stage.is_output:
                failure = _publish(definitions, instance, study, stage, display)
            else:
                failure = run_stage(definitions, instance, study, stage)
            display.end(is_done=failure is None)
            if failure is None:
                made[stage] = {*_partitions_of(lake, stage)}
                continue
            if stage.model is None or is_disk_full(failure):
                raise LongtailError("; earlier: ".join([f"{stage.title}: {failure}", *failed.values()]))
            failed[stage.model] = f"{stage.title}: {failure}"
            later = [one for one in stages[number:] if one.model == stage.model]
            discard(lake, _files_of(lake, *later) | before)
            others = "; the other models go on" if len(failed) < len(study.models) else ""
            display.say(f"      {stage.title} failed{others}: {failure}")
    return failed


def _is_possible(study: Study, stage: Stage, failed: Mapping[str, str]) -> bool:
    """Whether the failures of models leave a stage anything to do."""
    if stage.is_output:
        return len(failed) < len(study.models)
    if stage.model is None:
        return not failed or any(model.generates and model.name not in failed for model in study.models)
    return stage.model not in failed


def discard(lake: Lake, files: Mapping[tuple[str, str], tuple[int, ...]]) -> None:
    """Remove those partitions of a failed model that still are `files` of before the failure (see `_files_of`).

    Nobody knows whether they still belong to the study, and the warehouse would show them as today's. Generated rows stay
    in the row cache.
    """
    for (table, partition), file in files.items():
        with contextlib.suppress(FileNotFoundError):
            if file_state(lake.path(table, partition)) == file:
                lake.discard(table, partition)


def _files_of(lake: Lake, *stages: Stage) -> dict[tuple[str, str], tuple[int, ...]]:
    """What tells the present file of each partition of stages of one model from a later one."""
    return {key: file_state(lake.path(*key)) for stage in stages for key in _partitions_of(lake, stage)}


def _partitions_of(lake: Lake, stage: Stage) -> Iterator[tuple[str, str]]:
    """Table and partition of all that the lake has of a stage of one model."""
    for table in (key.split("/")[-1] for key in stage.keys):
        for partition in lake.partitions(table):
            if partition.split("|")[0] == stage.model:
                yield table, partition


def _publish(
    definitions: dg.Definitions, instance: dg.DagsterInstance, study: Study, stage: Stage, display: Display
) -> str | None:
    """Run the last stage, unless exactly this lake is published already; return as `run_stage`."""
    # Before the build, which does not see later changes. A store that was not there yet lacks the publication.
    inputs = f"{warehouse_inputs(study)} {os.environ.get(STORE, '')}"
    if _is_published(study, inputs, display.say):
        return None
    _inputs_of_publication(study).unlink(missing_ok=True)  # from here on, the published files are replaced
    failure = run_stage(definitions, instance, study, stage)
    if failure is None:
        with atomic_file(_inputs_of_publication(study)) as temporary:
            temporary.write_text(inputs, encoding="utf-8")
    return failure


def _inputs_of_publication(study: Study) -> Path:
    return study.home.published / "inputs"


def _is_published(study: Study, inputs: str, say: Callable[[str], None]) -> bool:
    """Whether a lake with these `inputs`, words of which all must be recorded, is published already, and all published
    files still exist undamaged."""
    published = _inputs_of_publication(study)
    if not published.exists() or not set(inputs.encode().split()) <= set(published.read_bytes().split()):
        return False
    if damage := find_damage(study.home):
        say(f"      what is published is damaged and will be made again: {single_line(damage)}")
        return False
    say("      the published warehouse already holds exactly this lake: nothing to build")
    return True


def run_stage(
    definitions: dg.Definitions, instance: dg.DagsterInstance, study: Study, stage: Stage
) -> str | None:
    """Run one stage in this process; return None, or the line that says what failed. Errors: `KeyboardInterrupt`."""
    job = definitions.resolve_implicit_global_asset_job_def()
    tags = {_RANGE_START: stage.first, _RANGE_END: stage.last} if stage.first and stage.last else {}
    run_id = str(uuid.uuid4())
    # Before the run exists: whenever this process dies, the next start sees that the run is dead.
    hold_run(study.home.runs, run_id)
    with (
        open(os.devnull, "w") as nowhere,  # for all lines of dbt, whose progress and errors the display shows
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(Calm(sys.stderr)),
    ):
        outcome = job.execute_in_process(
            instance=instance,
            run_id=run_id,
            asset_selection=[dg.AssetKey.from_user_string(key) for key in stage.keys],
            tags={**tags, **_TOGETHER, STUDY: study.name, "longtail/stage": stage.title},
            run_config=_QUIET,
            raise_on_error=False,
        )
    forget_run(study.home.runs, run_id)
    if is_interrupted(outcome.all_events):
        raise KeyboardInterrupt
    return None if outcome.success else failure_line(outcome.all_events)


def _generation_advice(study: Study) -> str:
    finishes = f"`{command('run')}` finishes the study."
    if os.environ.get(STORE):
        return f"Prepared. Run `longtail generate` with this study and {STORE} where the models are; then {finishes}"
    return (
        f"Prepared. Copy {study.home.root} to the machine that has the models, run `longtail generate` with this study"
        f" there, copy it back, and {finishes}"
    )


def _where_next(study: Study, seconds: float) -> str:
    file, sql, ui, again = show_near(study.path), command("sql"), command("ui"), command("run")
    few = f" This was a quick run of at most {study.limit} questions." if study.limit else ""
    return (
        f"Done in {seconds:.0f} s.{few} Where to look next:\n"
        f"  {sql}    the published warehouse in SQL: {study.home.published_warehouse}\n"
        f"  {study.home.published_report}    every figure in one page: open it in a browser\n"
        f"  {study.home.published_answers}    every answer with its prompt, passages and scores\n"
        f"  {ui}     assets, runs and plots in the browser\n"
        f"  {file}   models, methods, prompts: add a model, then `{again}` again"
    )


_INTERRUPTED = "DagsterExecutionInterruptedError"
_SHOWN_CHECKS = 3
_NO_MEMORY = "Out of Memory Error"  # of DuckDB
_MORE_MEMORY = "give the build more memory, such as LONGTAIL_WAREHOUSE_MEMORY=12GB"


def is_interrupted(events: Sequence[Any]) -> bool:
    """Whether Ctrl-C or SIGTERM ended the run: Dagster then reports a failed step."""
    return any(error.cls_name == _INTERRUPTED for event in events for error in _errors(event))


def _errors(event: Any) -> Iterator[Any]:
    """The error of a failed step or run, and its causes."""
    error = event.event_specific_data.error if event.is_step_failure or event.is_run_failure else None
    while error:
        yield error
        error = error.cause


def failure_line(events: Sequence[Any]) -> str:
    """What failed, in one line, and what helps if the warehouse's build lacked memory."""
    said = _cause(events)
    return f"{said}; {_MORE_MEMORY}" if _NO_MEMORY in said else said


def _cause(events: Sequence[Any]) -> str:
    """A full disk comes first, as it may cause everything else. Failed checks come next: a blocking check also fails a
    step, with Dagster's message.
    """
    for said in map(_said, events):
        if is_disk_full(said):
            return add_advice(said)
    evaluated = [e.event_specific_data for e in events if e.event_type_value == "ASSET_CHECK_EVALUATION"]
    failed = [c for c in evaluated if not c.passed and c.severity == dg.AssetCheckSeverity.ERROR]
    if failed:
        more = f" (and {len(failed) - _SHOWN_CHECKS} more)" if len(failed) > _SHOWN_CHECKS else ""
        return single_line(f"failed {'; '.join(_check(check) for check in failed[:_SHOWN_CHECKS])}{more}")
    for event in sorted(events, key=lambda event: not event.is_step_failure):
        if said := _said(event):  # of a run without a failed step: a resource could not be set up
            return said
    return f"the run failed; its page in `{command('ui')}` says why"


def _said(event: Any) -> str:
    """The reason of a failed step or run in one line: our own message, or the message of the root error."""
    failed = event.event_specific_data if event.is_step_failure or event.is_run_failure else None
    if failed is None:
        return ""
    own = getattr(failed, "user_failure_data", None)
    if own and own.description:
        return single_line(str(own.description))
    error = failed.error
    while error and error.cause and not _is_ours(error):
        error = error.cause
    if error and _is_ours(error):
        return single_line(error.message.partition(": ")[2])
    trace = f"(the run's page in `{command('ui')}` has the trace)"
    return single_line(f"{event.step_key or 'run'}: {error.message} {trace}") if error else ""


def _is_ours(error: Any) -> bool:
    return bool(error.message.startswith(f"{LongtailError.__module__}."))


def _check(check: dg.AssetCheckEvaluation) -> str:
    named = f"check {check.check_name} of {check.asset_key.to_user_string()}"
    return f"{named}: {check.description}" if check.description else named
