"""What is published beside the warehouse and made from it: its documentation, its export, its routers."""

from __future__ import annotations

import dagster as dg

from dagster_project.defs.resources import LOG, StudyResource
from dagster_project.defs.results import clear_errors, markdown_table
from dagster_project.defs.warehouse.assets import OF_WAREHOUSE, published_warehouse
from longtail.router.publish import publish_routers
from longtail.warehouse.docs import publish_docs
from longtail.warehouse.export import export_marts


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
