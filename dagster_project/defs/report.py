"""The report: one page and its pictures, made from the published warehouse."""

import base64
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_project.defs.resources import LOG, StudyResource, asset_key
from dagster_project.defs.results import clear_errors
from dagster_project.defs.warehouse.assets import published_warehouse
from longtail.report.report import ReportFiles, write_report
from longtail.storage.checksums import file_checksum


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
    if "headline" in files.pictures:
        metadata["headline"] = _image("headline", files.pictures["headline"])
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
    for key, mart in files.plotted_on.items():
        by_mart[mart][f"plot_{key}"] = _image(key, files.pictures[key])
    for name, value in files.numbers.items():
        mart = "fct_verdicts" if name.startswith("adaptive") else "fct_accuracy"
        by_mart[mart][name] = value
    for mart, metadata in by_mart.items():
        yield dg.AssetObservation(asset_key=asset_key("marts", mart), metadata=metadata)


def _image(name: str, path: Path) -> dg.MarkdownMetadataValue:
    encoded = base64.b64encode(path.read_bytes()).decode()
    return dg.MetadataValue.md(f"![{name}](data:image/png;base64,{encoded})")
