"""Pictures of the published marts, in the metadata and as files."""

from __future__ import annotations

import base64

import dagster as dg

from dagster_project.core.lake import atomic_file
from dagster_project.core.report.plots import accuracy_by_popularity
from dagster_project.defs.resources import StudyResource
from dagster_project.defs.results import clear_errors
from dagster_project.defs.warehouse.assets import published_warehouse


@dg.asset(key_prefix="report", group_name="report", kinds={"matplotlib"}, deps=[published_warehouse])
def accuracy_by_popularity_plot(study: StudyResource) -> dg.MaterializeResult:
    """Accuracy against popularity for each model and method, and adaptive retrieval against always and never."""
    with clear_errors():
        home = study.study.home
        picture = accuracy_by_popularity(home.published_warehouse)
        path = home.published / "figures" / "accuracy_by_popularity.png"
        with atomic_file(path) as temporary:
            temporary.write_bytes(picture)
    shown = base64.b64encode(picture).decode()
    return dg.MaterializeResult(
        metadata={
            "plot": dg.MetadataValue.md(f"![accuracy against popularity](data:image/png;base64,{shown})"),
            "path": dg.MetadataValue.path(path),
        }
    )
