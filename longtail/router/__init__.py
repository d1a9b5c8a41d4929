"""The router: what a study found out about retrieval, as files and a function for programs that answer questions.

`load_router` and `load_names` read a published file. They need the standard library alone: no Dagster, dbt, DuckDB,
Arrow or torch. `decisions` has both; `publish` makes the files from marts, `service` answers over HTTP.
"""

from longtail.errors import RouterError
from longtail.router.decisions import Candidate, Decision, Names, Router, load_names, load_router

__all__ = ["Candidate", "Decision", "Names", "Router", "RouterError", "load_names", "load_router"]
