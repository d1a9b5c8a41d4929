"""Longtail in Dagster: assets, checks, resources, schedules, and the launching of runs. `longtail` is the library."""
