"""The warehouse: dbt in two passes with the bootstrap between them, then the publication."""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
from dagster_dbt import DagsterDbtTranslator, DagsterDbtTranslatorSettings, DbtCliResource, dbt_assets

from dagster_project.core.statistics.adaptive_gains import MODELS_READ, bootstrap_adaptive_gains
from dagster_project.core.statistics.correlation_intervals import ANSWERS_READ, bootstrap_correlations
from dagster_project.core.statistics.method_comparisons import COMPARISONS_READ, compare_methods
from dagster_project.core.warehouse.build import AFTER_GAINS, STUDY_BUILD, clear_build
from dagster_project.core.warehouse.headline import headline, render_headline
from dagster_project.core.warehouse.publish import publish_warehouse
from dagster_project.defs.resources import LOG, StudyResource, dbt_project
from dagster_project.defs.results import clear_errors, markdown_table, result
from dagster_project.defs.warehouse.dbt_events import with_columns


class WarehouseTranslator(DagsterDbtTranslator):
    """Sources are the lake's assets (by their meta key); models have groups by stage."""

    def __init__(self) -> None:
        super().__init__(DagsterDbtTranslatorSettings(enable_code_references=False))

    def get_group_name(self, dbt_resource_props: Mapping[str, Any]) -> str | None:
        return "warehouse" if dbt_resource_props["resource_type"] == "model" else None


_PROJECT = dbt_project()


@dbt_assets(
    manifest=_PROJECT.manifest_path,
    project=_PROJECT,
    exclude=AFTER_GAINS,
    pool="warehouse",
    dagster_dbt_translator=WarehouseTranslator(),
)
def warehouse_models(
    context: dg.AssetExecutionContext, dbt: DbtCliResource, study: StudyResource
) -> Iterator[Any]:
    """Staging models, intermediate models and the marts that do not need the bootstrap, with their tests as checks."""
    clear_build(study.study, LOG)
    yield from with_columns(dbt.cli(STUDY_BUILD, context=context), study.study, context.log)


@dg.asset(
    key_prefix="lake",
    group_name="warehouse",
    kinds={"parquet", "numpy"},
    pool="warehouse",
    deps=[dg.AssetKey(["intermediate", name]) for name in MODELS_READ],
)
def adaptive_gains(study: StudyResource) -> dg.MaterializeResult:
    """One row per (pair of methods, search, scope): the gain of adaptive retrieval with its bootstrap interval."""
    with clear_errors():
        return result(study.lake, [bootstrap_adaptive_gains(study.study, study.lake, LOG)])


@dg.asset(
    key_prefix="lake",
    group_name="warehouse",
    kinds={"parquet", "numpy"},
    pool="warehouse",
    deps=[dg.AssetKey(["intermediate", name]) for name in COMPARISONS_READ],
)
def method_comparisons(study: StudyResource) -> dg.MaterializeResult:
    """One row per pair (of methods of a model, or of models by a method): McNemar's test, a bootstrap interval."""
    with clear_errors():
        return result(study.lake, [compare_methods(study.study, study.lake, LOG)])


@dg.asset(
    key_prefix="lake",
    group_name="warehouse",
    kinds={"parquet", "numpy"},
    pool="warehouse",
    deps=[dg.AssetKey(["intermediate", name]) for name in ANSWERS_READ],
)
def correlation_intervals(study: StudyResource) -> dg.MaterializeResult:
    """One row per group of answers and relation: bootstrap intervals of the correlations with popularity."""
    with clear_errors():
        return result(study.lake, [bootstrap_correlations(study.study, study.lake, LOG)])


@dbt_assets(
    manifest=_PROJECT.manifest_path,
    project=_PROJECT,
    select=AFTER_GAINS,
    pool="warehouse",
    dagster_dbt_translator=WarehouseTranslator(),
)
def warehouse_adaptive(
    context: dg.AssetExecutionContext, dbt: DbtCliResource, study: StudyResource
) -> Iterator[Any]:
    """The marts with the bootstrap's intervals."""
    yield from with_columns(dbt.cli(STUDY_BUILD, context=context), study.study, context.log)


@dg.asset(
    group_name="warehouse", kinds={"duckdb"}, pool="warehouse", deps=[warehouse_models, warehouse_adaptive]
)
def published_warehouse(study: StudyResource) -> dg.MaterializeResult:
    """Only the marts, in a file that appears whole; the previous few versions are kept beside it."""
    with clear_errors():
        report = publish_warehouse(study.study, LOG)
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
