"""The study itself as tables, so that the warehouse knows what was planned."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from dagster_project.defs.resources import StudyResource
from dagster_project.defs.results import clear_errors, result
from longtail.study.tables import STUDY_TABLES, describe_study
from longtail.tables import TABLES


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            ["lake", name],
            description=TABLES[name].grain,
            group_name="study",
            kinds={"parquet", "yaml"},
        )
        for name in STUDY_TABLES
    ]
)
def study_tables(study: StudyResource) -> Iterator[dg.MaterializeResult]:
    """Models, methods, prompts, datasets and the popularity window, as named in study.yaml."""
    with clear_errors():
        for outcome in describe_study(study.study, study.lake):
            yield result(study.lake, [outcome], dg.AssetKey(["lake", outcome.table]))
