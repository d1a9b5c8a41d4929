"""Claims of docs/architecture.md: numbers that the code holds."""

from __future__ import annotations

from dagster_project.core.generation.rounds import N_QUESTIONS
from tests.claims.form import Claim, constant, dbt_variable

PLACE = "docs/architecture.md"
CLAIMS = (
    Claim(
        PLACE, "a running sum for each of {splits} splits", constant(splits=dbt_variable("adaptive_splits"))
    ),
    Claim(PLACE, "what one user waits: up to {n} questions a method and prompt", constant(n=N_QUESTIONS)),
)
