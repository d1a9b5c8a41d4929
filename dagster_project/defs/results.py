"""An outcome of the library in Dagster: row counts, a small preview, notes, and errors without a trace.

`lake_asset` is the asset of a lake table that one function of the library writes. (Dagster reads the annotations of such
functions, so this module has no `from __future__ import annotations`.)
"""

import contextlib
import logging
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import dagster as dg

from dagster_project.defs.resources import LOG, StudyResource, asset_key
from longtail.errors import LongtailError, printable
from longtail.storage.files import add_advice, is_disk_full
from longtail.storage.fingerprints import fingerprint
from longtail.storage.home import longtail_home
from longtail.storage.lake import Lake, Outcome
from longtail.study.study import Study
from longtail.tables import TABLES

_PREVIEW_ROWS = 5
_CELL = 60
_SUMS = ("prompt_tokens", "new_tokens", "cost_usd", "lost_usd", "computed", "failed")
"""Notes of partitions that add up; Dagster plots their sums over time, as it does every number of one partition."""
_MARKUP = re.compile(r"[\\|<>\[\]*_`&~#!]")


@contextlib.contextmanager
def clear_errors() -> Iterator[None]:
    """Turn an error that the user can correct into a failure that shows its one line and is not retried."""
    try:
        yield
    except LongtailError as error:
        _release(error)
        raise dg.Failure(description=add_advice(str(error)), allow_retries=False) from error
    except Exception as error:
        _release(error)
        if not is_disk_full(error):
            raise
        said = f"{longtail_home()}: {type(error).__name__}: {error}"
        raise dg.Failure(description=add_advice(said), allow_retries=False) from error


def _release(error: BaseException | None) -> None:
    """Drop what the traces of an error hold: DuckDB waits for ever to open a file that they have open."""
    while error:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def lake_asset(
    table: str, compute: Callable[..., Outcome | Sequence[Outcome]], *kinds: str, **options: Any
) -> dg.AssetsDefinition:
    """The asset of a lake table. `compute` takes study, lake and log, and before the log the keys of its partitions, if
    it has some, in the study's order, as `make run` has them. A run may take all partitions.

    `kinds`: beside parquet. `options`: as of `dg.asset`, such as `group_name`, `deps` and `partitions_def`.
    """
    options = {"name": table, "key_prefix": asset_key("lake").path, "kinds": {"parquet", *kinds}, **options}
    options["description"] = TABLES[table].grain
    partitions: dg.PartitionsDefinition | None = options.get("partitions_def")
    if partitions is not None:
        options["backfill_policy"] = dg.BackfillPolicy.single_run()

    @dg.asset(**options)
    def lake_table(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
        keys = []
        if partitions is not None:
            keys.append([key for key in partitions.get_partition_keys() if key in context.partition_keys])
        with clear_errors():
            outcomes = compute(study.study, study.lake, *keys, LOG)
            return result(study.lake, [outcomes] if isinstance(outcomes, Outcome) else outcomes)

    return lake_table


def of_each(compute: Callable[..., Outcome]) -> Callable[..., list[Outcome]]:
    """For `lake_asset`: `compute` takes one key, and is called for each."""

    def compute_all(study: Study, lake: Lake, keys: Sequence[str], log: logging.Logger) -> list[Outcome]:
        return [compute(study, lake, key, log) for key in keys]

    return compute_all


def table_specs(tables: Iterable[str], group: str, *kinds: str, **options: Any) -> list[dg.AssetSpec]:
    """The specs of lake tables that one asset makes together; `kinds` and `options` as of `lake_asset`."""
    return [
        dg.AssetSpec(
            asset_key("lake", table),
            description=TABLES[table].grain,
            group_name=group,
            kinds={"parquet", *kinds},
            **options,
        )
        for table in tables
    ]


def result(
    lake: Lake, outcomes: Sequence[Outcome], asset_key: dg.AssetKey | None = None
) -> dg.MaterializeResult:
    """One result for all outcomes of an asset; there may be one per partition of the run."""
    versions = [outcome.stamp.fingerprint for outcome in outcomes]
    return dg.MaterializeResult(
        asset_key=asset_key,
        metadata=metadata(lake, outcomes),
        data_version=dg.DataVersion(versions[0] if len(versions) == 1 else fingerprint(*versions)),
    )


def metadata(lake: Lake, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Row counts, rows put aside, what was computed, notes, and a preview of the first partition."""
    first = outcomes[0]
    rows = lake.head(first.table, first.partition, _PREVIEW_ROWS)
    shown: dict[str, Any] = {
        "dagster/row_count": sum(outcome.stamp.n_rows for outcome in outcomes),
        "n_quarantined": sum(outcome.stamp.n_quarantined for outcome in outcomes),
        "was_current": all(outcome.was_current for outcome in outcomes),
        "path": dg.MetadataValue.path(lake.path(first.table, first.partition)),
        "preview": dg.MetadataValue.md(markdown_table(rows) if rows else "no rows"),
    }
    if len(outcomes) > 1:
        shown["partitions"] = dg.MetadataValue.md(_partitions(outcomes))
        shown.update({f"note_{name}": total for name in _SUMS if (total := _sum(outcomes, name)) is not None})
    else:
        shown.update({f"note_{name}": _plain(value) for name, value in first.notes.items()})
    return shown


def _sum(outcomes: Sequence[Outcome], name: str) -> float | None:
    values = [value for outcome in outcomes if (value := outcome.notes.get(name)) is not None]
    return sum(values) if values else None


def _partitions(outcomes: Sequence[Outcome]) -> str:
    rows = [
        {
            "partition": outcome.partition,
            "rows": outcome.stamp.n_rows,
            "quarantined": outcome.stamp.n_quarantined,
            "was current": outcome.was_current,
            **outcome.notes,
        }
        for outcome in outcomes
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    return markdown_table([{name: row.get(name, "") for name in names} for row in rows])


def markdown_table(rows: Sequence[dict[str, Any]]) -> str:
    """A Markdown table with cut and escaped cells: a label from outside is text, never markup."""
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(_cell(row[name]) for name in names) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else printable(str(value))
    text = text if len(text) <= _CELL else text[: _CELL - 1] + "…"
    return _MARKUP.sub(r"\\\g<0>", text)


def _plain(value: object) -> Any:
    if isinstance(value, (bool, int, float, str)):
        return value
    return dg.MetadataValue.json(value) if isinstance(value, (dict, list)) else str(value)
