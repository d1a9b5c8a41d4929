"""Bootstraps and fits whose results land in the lake like any table; rates and thresholds are dbt models."""
