"""The warehouse: dbt, then the publication."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
from dagster_dbt import DagsterDbtTranslator, DagsterDbtTranslatorSettings, DbtProject, dbt_assets

from dagster_project.defs.resources import (
    LOG,
    DbtProcess,
    StudyResource,
    asset_key,
    chosen_study,
    dbt_project,
)
from dagster_project.defs.results import clear_errors, markdown_table
from dagster_project.defs.warehouse.dbt_events import add_row_counts, events_of_reuse
from longtail.errors import PublishError
from longtail.study.study import Study
from longtail.tables import TABLES
from longtail.warehouse.build import DBT_PROJECT, STUDY_BUILD, clear_build
from longtail.warehouse.headline import headline, render_headline
from longtail.warehouse.manifest import project_version
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
_PROJECT = dbt_project()
_TRANSLATOR = WarehouseTranslator()


def _require_same_project(study: Study) -> None:
    """Errors: `PublishError` where dbt's files are no longer those whose models and tests this process knows."""
    if project_version(study) != _VERSION:
        raise PublishError(
            f"{DBT_PROJECT}: files of dbt have changed since this run began; run again, and it builds the new ones"
        )


def build_models(context: dg.AssetExecutionContext, dbt: DbtProcess, study: Study) -> Iterator[Any]:
    """Build the outdated models. Where only some assets are chosen, these are built in any case."""
    with clear_errors():
        _require_same_project(study)
    if context.is_subset:
        yield from add_row_counts(dbt.cli(STUDY_BUILD, context=context), study, context.log)
        return
    with clear_errors():
        planned = plan_build(study)
    LOG.info("dbt: %d of %d models and tests are current", len(planned.reused), len(planned.inputs))
    yield from events_of_reuse(planned.reused, _PROJECT, _TRANSLATOR, context)
    if planned.command:
        try:
            yield from add_row_counts(dbt.start(planned.command, context, _TRANSLATOR), study, context.log)
        except Exception:  # an interrupted dbt has recorded nothing
            note_built(study, planned, LOG)
            with clear_errors():
                _require_same_project(study)
            raise
        note_built(study, planned, LOG)


@dbt_assets(
    manifest=_PROJECT.manifest_path, project=_PROJECT, pool="warehouse", dagster_dbt_translator=_TRANSLATOR
)
def warehouse_models(
    context: dg.AssetExecutionContext, dbt: DbtProcess, study: StudyResource
) -> Iterator[Any]:
    """Staging models, intermediate models with the statistics, and marts, with their tests as checks."""
    with clear_errors():
        study.lake.require_intact()
    clear_build(study.study, LOG)
    yield from build_models(context, dbt, study.study)


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
