"""Everything that Dagster sees: loads `defs`, nothing else."""

from __future__ import annotations

import dagster as dg

from longtail.storage.home import PROJECT_ROOT


@dg.definitions
def defs() -> dg.Definitions:
    """All assets, checks, schedules and resources of the chosen study."""
    return dg.load_from_defs_folder(path_within_project=PROJECT_ROOT)
