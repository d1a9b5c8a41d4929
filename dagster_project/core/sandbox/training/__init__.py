"""Training and judging the sandbox's reference models (`python -m dagster_project.core.sandbox.train`)."""
