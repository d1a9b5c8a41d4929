"""Bootstraps and fits. Their results are lake tables like any other; rates and thresholds are dbt models."""
