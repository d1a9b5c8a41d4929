"""How the sandbox's reference models are trained and judged; `python -m dagster_project.core.sandbox.train`."""
