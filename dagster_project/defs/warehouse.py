"""The warehouse: dbt, the publication, and what is made of it: documentation, export, routers, the report.

(Dagster reads the annotations of these functions, so this module has no `from __future__ import annotations`.)
"""

import base64
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
from dagster_dbt import DagsterDbtTranslator, DagsterDbtTranslatorSettings, DbtProject, dbt_assets
from dagster_dbt.asset_utils import get_asset_check_key_for_test
from dagster_dbt.dbt_manifest import validate_manifest

from dagster_project.defs.resources import LOG, StudyResource, asset_key, chosen_study
from dagster_project.defs.results import clear_errors, markdown_table
from longtail.errors import PublishError
from longtail.report.figures import FIGURES
from longtail.report.report import ReportFiles, write_report
from longtail.router.publish import publish_routers
from longtail.storage.checksums import file_checksum
from longtail.study.study import Study
from longtail.tables import TABLES
from longtail.warehouse.build import (
    DBT_PROJECT,
    STUDY_BUILD,
    NodeResult,
    clear_build,
    count_rows,
    prepare_manifest,
    project_version,
    run_build,
)
from longtail.warehouse.docs import publish_docs
from longtail.warehouse.export import export_marts
from longtail.warehouse.publication import headline, render_headline
from longtail.warehouse.publish import ALLOW_FEWER, publish_warehouse
from longtail.warehouse.reuse import note_built, plan_build
from longtail.warehouse.sources import describe_columns

OF_WAREHOUSE: dict[str, Any] = {
    "key_prefix": asset_key().path,
    "group_name": "warehouse",
    "pool": "warehouse",
}


@dg.asset(**OF_WAREHOUSE, kinds={"parquet"}, deps=[asset_key("lake", table) for table in TABLES])
def complete_lake(study: StudyResource) -> dg.MaterializeResult:
    """All that the warehouse reads: every table of the study is there, and no file of it is damaged."""
    with clear_errors():
        study.lake.require_intact()
    sizes = [path.stat().st_size for path in study.lake.root.rglob("*.parquet")]
    return dg.MaterializeResult(metadata={"n_files": len(sizes), "n_bytes": sum(sizes)})


class WarehouseTranslator(DagsterDbtTranslator):
    """Sources are the lake's assets (by their meta key); a model's group is its topic, the folder that it lies in."""

    def __init__(self) -> None:
        super().__init__(DagsterDbtTranslatorSettings(enable_code_references=False))

    def get_asset_key(self, dbt_resource_props: Mapping[str, Any]) -> dg.AssetKey:
        return asset_key(*super().get_asset_key(dbt_resource_props).path)

    def get_asset_spec(
        self, manifest: Mapping[str, Any], unique_id: str, project: DbtProject | None
    ) -> dg.AssetSpec:
        """A model without a parent waits for the whole lake, so that a backfill builds all models in one run of dbt."""
        spec = super().get_asset_spec(manifest, unique_id, project)
        node = self.get_resource_props(manifest, unique_id)
        parents = node["depends_on"]["nodes"] if unique_id.startswith("model.") else [unique_id]
        if any(not parent.startswith("source.") for parent in parents):
            return spec
        return spec.replace_attributes(deps=[*spec.deps, complete_lake])

    def get_group_name(self, dbt_resource_props: Mapping[str, Any]) -> str | None:
        if dbt_resource_props["resource_type"] != "model":
            return None
        _project, layer, *topic, _model = dbt_resource_props["fqn"]
        return "/".join(["warehouse", *(["staging"] if layer == "staging" else []), *topic])

    def get_metadata(self, dbt_resource_props: Mapping[str, Any]) -> Mapping[str, Any]:
        columns = describe_columns(dbt_resource_props)
        return super().get_metadata({**dbt_resource_props, "columns": columns})


_VERSION = project_version(chosen_study())
_MANIFEST = prepare_manifest(chosen_study())
_TRANSLATOR = WarehouseTranslator()
_SEVERITY = {"warn": dg.AssetCheckSeverity.WARN}


def _require_same_project(study: Study) -> None:
    """Errors: `PublishError` where dbt's files are no longer those whose models and tests this process knows."""
    if project_version(study) != _VERSION:
        raise PublishError(
            f"{DBT_PROJECT}: files of dbt have changed since this run began; run again, and it builds the new ones"
        )


def build_models(context: dg.AssetExecutionContext, study: Study) -> Iterator[Any]:
    """Build the outdated models. Where only some assets are chosen, these are built in any case, with all their tests.

    While dbt writes, DuckDB lets nobody read the warehouse. So the events come when dbt has ended: those of what it built
    first, then its error.
    """
    with clear_errors():
        _require_same_project(study)
        plan = None if context.is_subset else plan_build(study)
    manifest = validate_manifest(_MANIFEST)
    if plan:
        command = plan.command
        LOG.info("dbt: %d of %d models and tests are current", len(plan.reused), len(plan.inputs))
        yield from _events(manifest, dict.fromkeys(plan.reused), study, context)
    else:
        command = (*STUDY_BUILD, "--select", " ".join(_chosen_nodes(manifest, context)))
    if not command:
        return
    try:
        with clear_errors():
            run = run_build(study, command, lambda line: print(line, end="", flush=True))
    finally:  # an interrupted dbt has recorded nothing
        if plan:
            note_built(study, plan, LOG)
    if run.failure:
        with clear_errors():
            _require_same_project(study)
    yield from _events(manifest, run.results, study, context)
    if run.failure:
        raise dg.Failure(run.failure, allow_retries=False)


def _chosen_nodes(manifest: Mapping[str, Any], context: dg.AssetExecutionContext) -> Iterator[str]:
    """dbt's names for the models and tests whose assets and checks are chosen."""
    for unique_id, node in manifest["nodes"].items():
        check = get_asset_check_key_for_test(manifest, _TRANSLATOR, unique_id, None)
        if check in context.selected_asset_check_keys or (
            node["resource_type"] == "model"
            and _TRANSLATOR.get_asset_spec(manifest, unique_id, None).key in context.selected_asset_keys
        ):
            yield node["name"]


def _events(
    manifest: Mapping[str, Any],
    results: Mapping[str, NodeResult | None],
    study: Study,
    context: dg.AssetExecutionContext,
) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
    """The events of models and tests, by their unique_ids in dbt: rows of a table, broken rules of a failed check.

    Without a result, a node need not be built: a model has its earlier metadata, a check has passed. Without these events
    Dagster would skip what depends on such models.
    """
    nodes = manifest["nodes"]
    parents = {node: nodes[node]["depends_on"]["nodes"] for node in results if node in nodes}
    in_order = [node for node in TopologicalSorter(parents).static_order() if node in parents]
    keys = {
        node: _TRANSLATOR.get_asset_spec(manifest, node, None).key
        for node in in_order
        if node.startswith("model.")
    }
    earlier = context.instance.get_latest_materialization_events(
        [k for n, k in keys.items() if not results[n]]
    )
    n_rows = _count_rows(study) if any(results.values()) else {}
    for node in in_order:
        result = results[node]
        if node in keys and result is None:
            entry = earlier.get(keys[node])
            made = entry.asset_materialization if entry else None
            metadata = {**(made.metadata if made else {}), "is_reused": True}
            yield dg.MaterializeResult(keys[node], metadata=metadata)
        elif node in keys and result and result.is_good:
            rows = n_rows.get((nodes[node]["schema"], nodes[node]["alias"]))
            yield dg.MaterializeResult(
                keys[node], metadata={} if rows is None else {"dagster/row_count": rows}
            )
        check = get_asset_check_key_for_test(manifest, _TRANSLATOR, node, None)
        if check is not None and check in context.selected_asset_check_keys:
            yield dg.AssetCheckResult(
                passed=result is None or result.status == "pass",
                severity=_SEVERITY.get(result.status if result else "", dg.AssetCheckSeverity.ERROR),
                asset_key=check.asset_key,
                check_name=check.name,
                description=result.message if result and result.status != "pass" else None,
                metadata={"is_reused": result is None},
            )


def _count_rows(study: Study) -> Mapping[tuple[str, str], int]:
    try:
        return count_rows(study.home.build_warehouse)
    except duckdb.Error as error:
        LOG.warning("no row counts are shown, the warehouse cannot be read: %s", error)
        return {}


@dbt_assets(manifest=_MANIFEST, pool="warehouse", dagster_dbt_translator=_TRANSLATOR)
def warehouse_models(context: dg.AssetExecutionContext, study: StudyResource) -> Iterator[Any]:
    """Staging models, intermediate models with the statistics, and marts, with their tests as checks."""
    with clear_errors():
        study.lake.require_intact()
    clear_build(study.study, LOG)
    yield from build_models(context, study.study)


@dg.asset(**OF_WAREHOUSE, kinds={"duckdb"}, deps=[warehouse_models])
def published_warehouse(study: StudyResource) -> dg.MaterializeResult:
    """Only the marts, in a file that appears whole; the previous few versions are kept beside it."""
    with clear_errors():
        report = publish_warehouse(study.study, LOG, allows_fewer=bool(os.environ.get(ALLOW_FEWER)))
        study.share("warehouse", report.version)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": sum(report.n_rows.values()),
            "path": dg.MetadataValue.path(report.path),
            "version": dg.MetadataValue.path(report.version),
            "n_bytes": report.n_bytes,
            "headline": dg.MetadataValue.md(f"```\n{render_headline(headline(report.path))}\n```"),
            "tables": dg.MetadataValue.md(
                markdown_table([{"table": name, "rows": n} for name, n in report.n_rows.items()])
            ),
        },
        data_version=dg.DataVersion(report.invocation_id),
    )


@dg.asset(**OF_WAREHOUSE, kinds={"dbt", "html"}, deps=[published_warehouse])
def warehouse_docs(study: StudyResource) -> dg.MaterializeResult:
    """dbt's documentation of every table and column as one page beside the warehouse; it needs no network."""
    with clear_errors():
        report = publish_docs(study.study, LOG)
    return dg.MaterializeResult(
        metadata={
            "page": dg.MetadataValue.url(report.path.as_uri()),
            "path": dg.MetadataValue.path(report.path),
            "n_bytes": report.n_bytes,
            "was_current": not report.was_made,
            "dbt_invocation_id": report.invocation_id,
        },
        data_version=dg.DataVersion(report.invocation_id),
    )


@dg.asset(**OF_WAREHOUSE, kinds={"parquet", "huggingface"}, deps=[published_warehouse])
def parquet_export(study: StudyResource) -> dg.MaterializeResult:
    """The published tables as Parquet files with a dataset card, in a folder that appears whole."""
    with clear_errors():
        report = export_marts(study.study, LOG)
        study.share("export", report.path.resolve())
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": sum(report.n_rows.values()),
            "path": dg.MetadataValue.path(report.path),
            "card": dg.MetadataValue.path(report.path / "README.md"),
            "n_bytes": report.n_bytes,
            "was_current": report.was_current,
            "dbt_invocation_id": report.invocation_id,
        },
        data_version=dg.DataVersion(report.invocation_id),
    )


@dg.asset(**OF_WAREHOUSE, kinds={"json"}, deps=[published_warehouse])
def router(study: StudyResource) -> dg.MaterializeResult:
    """Files that decide whether to retrieve, one per pair of methods; the popularity of entities by their names."""
    with clear_errors():
        report = publish_routers(study.study, LOG)
        study.share("router", report.path.resolve())
    policies = [{"router": name, "policy": policy} for name, policy in report.policies.items()]
    return dg.MaterializeResult(
        metadata={
            "path": dg.MetadataValue.path(report.path),
            "n_routers": len(policies),
            "n_with_thresholds": sum(row["policy"] not in ("always", "never") for row in policies),
            "n_names": report.n_names,
            "policies": dg.MetadataValue.md(markdown_table(policies) if policies else "no method retrieves"),
            "dbt_invocation_id": report.invocation_id,
        },
        data_version=dg.DataVersion(report.invocation_id),
    )


@dg.asset(
    key_prefix=asset_key("report").path,
    group_name="report",
    kinds={"html", "vegalite"},
    deps=[published_warehouse],
)
def report_page(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
    """`report.html`: every figure that the study supports, in one file that opens from disk, and each figure as PNG.

    `answers.html`, beside it, has every answer.
    """
    home = study.study.home
    with clear_errors():
        files = write_report(home.published_warehouse, home.published_report, home.published_figures, LOG)
        pages = [files.path, files.answers, *files.answers.with_suffix("").glob("*")]
        study.share("report", home.published / file_checksum(files.path)[:16], pages)
    for observation in observations(files):
        context.log_event(observation)
    return dg.MaterializeResult(metadata=report_metadata(files, home.published_docs))


def report_metadata(files: ReportFiles, docs: Path) -> dict[str, Any]:
    """Metadata of the report: its place, its size, what is missing, and the headline as time series.

    `docs`: the warehouse's documentation, if it exists.
    """
    metadata: dict[str, Any] = {
        "report": dg.MetadataValue.path(files.path),
        "answers": dg.MetadataValue.path(files.answers),
        "n_bytes": files.n_bytes,
        "seconds": files.seconds,
        "n_figures": files.n_figures,
        **files.numbers,
    }
    if docs.exists():
        metadata["docs"] = dg.MetadataValue.path(docs)
    if files.missing:
        metadata["not_shown"] = dg.MetadataValue.md(
            "\n".join(
                f"- {key}: {reason.removeprefix('Not shown: ')}" for key, reason in files.missing.items()
            )
        )
    return metadata


def observations(files: ReportFiles) -> Iterator[dg.AssetObservation]:
    """One observation for each mart that a figure shows: its plots, and its headline numbers."""
    by_mart: dict[str, dict[str, Any]] = defaultdict(dict)
    for key, mart in ((figure.key, figure.mart) for figure in FIGURES if figure.key in files.pictures):
        by_mart[mart][f"plot_{key}"] = _image(key, files.pictures[key])
    for name, value in files.numbers.items():
        mart = "fct_verdicts" if name.startswith("adaptive") else "fct_accuracy"
        by_mart[mart][name] = value
    for mart, metadata in by_mart.items():
        yield dg.AssetObservation(asset_key=asset_key("marts", mart), metadata=metadata)


def _image(name: str, path: Path) -> dg.MarkdownMetadataValue:
    encoded = base64.b64encode(path.read_bytes()).decode()
    return dg.MetadataValue.md(f"![{name}](data:image/png;base64,{encoded})")
