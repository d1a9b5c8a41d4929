"""The report: one page and its pictures, made from the published warehouse."""

import dagster as dg

from dagster_project.core.report.report import write_report
from dagster_project.core.storage.checksums import file_checksum
from dagster_project.defs.report.metadata import observations, shown
from dagster_project.defs.resources import LOG, StudyResource
from dagster_project.defs.results import clear_errors
from dagster_project.defs.warehouse.assets import published_warehouse


@dg.asset(key_prefix="report", group_name="report", kinds={"html", "vegalite"}, deps=[published_warehouse])
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
    return dg.MaterializeResult(metadata=shown(files, home.published_docs))
