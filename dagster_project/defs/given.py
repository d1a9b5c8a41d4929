"""What all assets are given: the study, dbt, and how steps are executed.

A module with a function of `dg.definitions` is read for that function alone, so it stands by itself.
"""

from __future__ import annotations

import dagster as dg

from dagster_project.defs.resources import StudyResource, dbt_project, dbt_resource


@dg.definitions
def resources() -> dg.Definitions:
    """The resources; one process per run, so that a model stays loaded from step to step."""
    return dg.Definitions(
        resources={"study": StudyResource(), "dbt": dbt_resource(dbt_project())},
        executor=dg.in_process_executor,
    )
