"""What all assets receive: the study, and how steps are executed.

Dagster reads a module with a function of `dg.definitions` only for that function, so the function has its own module.
"""

from __future__ import annotations

import dagster as dg

from dagster_project.defs.resources import StudyResource


@dg.definitions
def resources() -> dg.Definitions:
    """The study, and one process per run, so that a model stays loaded from step to step."""
    return dg.Definitions(resources={"study": StudyResource()}, executor=dg.in_process_executor)
