"""The warehouse: dbt in two passes with the bootstrap between them, then the publication."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
from dagster_dbt import DagsterDbtTranslator, DagsterDbtTranslatorSettings, dbt_assets

from dagster_project.defs.resources import LOG, DbtProcess, StudyResource, chosen_study, dbt_project
from dagster_project.defs.results import clear_errors, markdown_table, result
from dagster_project.defs.warehouse.dbt_events import reused_events, with_columns
from longtail.errors import PublishError
from longtail.statistics.registry import MADE_BY_BUILD, STATISTICS
from longtail.statistics.statistic import Statistic, materialise
from longtail.study.study import Study
from longtail.tables import TABLES
from longtail.warehouse.build import AFTER_GAINS, DBT_PROJECT, STUDY_BUILD, clear_build
from longtail.warehouse.headline import headline, render_headline
from longtail.warehouse.manifest import project_version
from longtail.warehouse.publish import ALLOW_FEWER, publish_warehouse
from longtail.warehouse.reuse import note_built, plan_pass
from longtail.warehouse.sources import described_columns


class WarehouseTranslator(DagsterDbtTranslator):
    """Sources are the lake's assets (by their meta key); a model's group is its topic, the folder that it lies in."""

    def __init__(self) -> None:
        super().__init__(DagsterDbtTranslatorSettings(enable_code_references=False))

    def get_group_name(self, dbt_resource_props: Mapping[str, Any]) -> str | None:
        if dbt_resource_props["resource_type"] != "model":
            return None
        _project, layer, *topic, _model = dbt_resource_props["fqn"]
        return "/".join(["warehouse", *(["staging"] if layer == "staging" else []), *topic])

    def get_metadata(self, dbt_resource_props: Mapping[str, Any]) -> Mapping[str, Any]:
        columns = described_columns(dbt_resource_props)
        return super().get_metadata({**dbt_resource_props, "columns": columns})


_VERSION = project_version(chosen_study())
_PROJECT = dbt_project()
_TRANSLATOR = WarehouseTranslator()


def _require_unchanged(study: Study) -> None:
    """Errors: `PublishError` where dbt's files are no longer those whose models and tests this process knows."""
    if project_version(study) != _VERSION:
        raise PublishError(
            f"{DBT_PROJECT}: files of dbt have changed since this run began; run again, and it builds the new ones"
        )


def _pass(context: dg.AssetExecutionContext, dbt: DbtProcess, study: Study, is_second: bool) -> Iterator[Any]:
    """Build the outdated models of a pass. Where only some assets are chosen, these are built in any case."""
    with clear_errors():
        _require_unchanged(study)
    if context.is_subset:
        yield from with_columns(dbt.cli(STUDY_BUILD, context=context), study, context.log)
        return
    with clear_errors():
        planned = plan_pass(study, is_second)
    LOG.info("dbt: %d of %d models and tests are current", len(planned.reused), len(planned.inputs))
    yield from reused_events(planned.reused, _PROJECT, _TRANSLATOR, context)
    if planned.command:
        try:
            yield from with_columns(dbt.start(planned.command, context, _TRANSLATOR), study, context.log)
        except Exception:  # an interrupted dbt has recorded nothing
            note_built(study, planned, LOG)
            with clear_errors():
                _require_unchanged(study)
            raise
        note_built(study, planned, LOG)


@dbt_assets(
    manifest=_PROJECT.manifest_path,
    project=_PROJECT,
    exclude=AFTER_GAINS,
    pool="warehouse",
    dagster_dbt_translator=_TRANSLATOR,
)
def warehouse_models(
    context: dg.AssetExecutionContext, dbt: DbtProcess, study: StudyResource
) -> Iterator[Any]:
    """Staging models, intermediate models and the marts that do not need the bootstrap, with their tests as checks."""
    with clear_errors():
        study.lake.require_intact(left_out=MADE_BY_BUILD)
    clear_build(study.study, LOG)
    yield from _pass(context, dbt, study.study, is_second=False)


def statistic_tables(statistic: Statistic) -> dg.AssetsDefinition:
    """The assets of a statistic: one per lake table, computed together."""
    deps = [dg.AssetKey(["intermediate", name]) for name in statistic.models]

    @dg.multi_asset(
        name=statistic.name,
        specs=[
            dg.AssetSpec(
                ["lake", table],
                deps=deps,
                description=TABLES[table].grain,
                group_name="warehouse/statistics",
                kinds={"parquet", "numpy"},
            )
            for table in statistic.tables
        ],
        pool="warehouse",
    )
    def computed(study: StudyResource) -> Iterator[dg.MaterializeResult]:
        with clear_errors():
            outcomes = materialise(statistic, study.study, study.lake, LOG)
            for table in statistic.tables:
                own = [outcome for outcome in outcomes if outcome.table == table]
                yield result(study.lake, own, dg.AssetKey(["lake", table]))

    return computed


statistics = [statistic_tables(statistic) for statistic in STATISTICS]


@dbt_assets(
    manifest=_PROJECT.manifest_path,
    project=_PROJECT,
    select=AFTER_GAINS,
    pool="warehouse",
    dagster_dbt_translator=_TRANSLATOR,
)
def warehouse_adaptive(
    context: dg.AssetExecutionContext, dbt: DbtProcess, study: StudyResource
) -> Iterator[Any]:
    """The marts with the bootstrap's intervals."""
    with clear_errors():
        study.lake.require_intact()
    yield from _pass(context, dbt, study.study, is_second=True)


@dg.asset(
    group_name="warehouse", kinds={"duckdb"}, pool="warehouse", deps=[warehouse_models, warehouse_adaptive]
)
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
