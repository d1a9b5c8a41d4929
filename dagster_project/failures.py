"""Why a run of Dagster failed, in one line for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from longtail.errors import LongtailError, single_line
from longtail.storage.disk import advised, is_disk_full
from longtail.storage.home import command

_INTERRUPTED = "DagsterExecutionInterruptedError"
_SHOWN_CHECKS = 3
_NO_MEMORY = "Out of Memory Error"  # of DuckDB
_MORE_MEMORY = "give the build more memory, such as LONGTAIL_WAREHOUSE_MEMORY=12GB"


def was_interrupted(events: Sequence[Any]) -> bool:
    """Whether Ctrl-C or SIGTERM ended the run: Dagster then reports a failed step."""
    return any(error.cls_name == _INTERRUPTED for event in events for error in _errors(event))


def _errors(event: Any) -> Iterator[Any]:
    """The error of a failed step or run, and its causes."""
    error = event.event_specific_data.error if event.is_step_failure or event.is_run_failure else None
    while error:
        yield error
        error = error.cause


def why(events: Sequence[Any]) -> str:
    """What failed, in one line, and what helps if the warehouse's build lacked memory."""
    said = _cause(events)
    return f"{said}; {_MORE_MEMORY}" if _NO_MEMORY in said else said


def _cause(events: Sequence[Any]) -> str:
    """A full disk comes first, as it may cause everything else. Failed checks come next: a blocking check also fails a
    step, with Dagster's message.
    """
    for said in map(_said, events):
        if is_disk_full(said):
            return advised(said)
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
