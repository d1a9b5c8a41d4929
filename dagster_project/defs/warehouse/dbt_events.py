"""dbt's events with the row count of each table, and with what the rules of a failed check say."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from graphlib import TopologicalSorter

import dagster as dg
import duckdb
from dagster_dbt import DagsterDbtTranslator, DbtCliInvocation, DbtProject
from dagster_dbt.asset_utils import get_asset_check_key_for_test
from dagster_dbt.core.dbt_event_iterator import DbtDagsterEventType
from dagster_dbt.dbt_manifest import validate_manifest

from longtail.storage.files import full_disk, is_disk_full
from longtail.study.study import Study
from longtail.warehouse.build import count_rows, read_failures


def add_row_counts(
    invocation: DbtCliInvocation, study: Study, log: logging.Logger
) -> Iterator[DbtDagsterEventType]:
    """The events of a dbt invocation, in order; a table's event has its row count, and a failed check says which rules
    do not hold.

    While dbt writes, DuckDB lets nobody read the warehouse. So the events come when dbt has ended. If dbt fails, those of
    what it built come first, then its error. A full disk gives one line, whatever hundreds of models and tests report.
    """
    events: list[DbtDagsterEventType] = []
    failure: Exception | None = None
    try:
        for event in invocation.stream():
            events.append(event)  # those before an error stay
    except Exception as error:
        failure = error
    n_rows = _count_rows(events, invocation, study, log)
    broken = _broken(events, study)
    for event in events:
        model = _model(event)
        if isinstance(event, dg.Output | dg.AssetMaterialization) and model in n_rows:
            event = event.with_metadata({**event.metadata, "dagster/row_count": n_rows[model]})
        elif isinstance(event, dg.AssetCheckResult):
            event = event._replace(description=broken.get(str(event.metadata["unique_id"].value)))
        yield event
    if failure is not None:
        if is_disk_full(failure):
            raise dg.Failure(full_disk(study.home.build, "dbt build"), allow_retries=False) from failure
        raise failure


def events_of_reuse(
    nodes: AbstractSet[str],
    project: DbtProject,
    translator: DagsterDbtTranslator,
    context: dg.AssetExecutionContext,
) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
    """The events of models and tests (dbt unique_ids) that need not be built: a model's earlier metadata, checks passed.

    Without them Dagster would skip what depends on these models.
    """
    manifest = validate_manifest(project.manifest_path)
    parents = {node: manifest["nodes"][node]["depends_on"]["nodes"] for node in nodes}
    in_order = [node for node in TopologicalSorter(parents).static_order() if node in nodes]
    keys = {
        node: translator.get_asset_spec(manifest, node, project).key
        for node in in_order
        if node.startswith("model.")
    }
    earlier = context.instance.get_latest_materialization_events(list(keys.values()))
    for key in keys.values():
        entry = earlier.get(key)
        made = entry.asset_materialization if entry else None
        yield dg.MaterializeResult(key, metadata={**(made.metadata if made else {}), "is_reused": True})
    for node in in_order:
        check = get_asset_check_key_for_test(manifest, translator, node, project)
        if check is not None and check in context.selected_asset_check_keys:
            yield dg.AssetCheckResult(
                passed=True, asset_key=check.asset_key, check_name=check.name, metadata={"is_reused": True}
            )


def _count_rows(
    events: list[DbtDagsterEventType], invocation: DbtCliInvocation, study: Study, log: logging.Logger
) -> dict[str, int]:
    """The number of rows of each table that the events report, by the model's unique_id."""
    nodes = {model: invocation.manifest["nodes"][model] for model in map(_model, events) if model}
    if not nodes:
        return {}
    try:
        n_rows = count_rows(study.home.build_warehouse)
    except duckdb.Error as error:
        log.warning("no row counts are shown, the warehouse cannot be read: %s", error)
        return {}
    tables = {model: (node["schema"], node["alias"]) for model, node in nodes.items()}
    return {model: n_rows[table] for model, table in tables.items() if table in n_rows}


def _broken(events: list[DbtDagsterEventType], study: Study) -> dict[str, str]:
    """What is wrong, by the unique_id of each failed test."""
    if all(event.passed for event in events if isinstance(event, dg.AssetCheckResult)):
        return {}
    with contextlib.suppress(duckdb.Error):  # the check then says only that it failed
        return read_failures(study.home.build_warehouse)
    return {}


def _model(event: DbtDagsterEventType) -> str:
    """The unique_id of the model whose materialisation the event reports; empty for other events."""
    if not isinstance(event, dg.Output | dg.AssetMaterialization):
        return ""
    unique_id = event.metadata["unique_id"].value
    return unique_id if isinstance(unique_id, str) and unique_id.startswith("model.") else ""
