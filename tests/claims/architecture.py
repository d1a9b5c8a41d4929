"""Claims of docs/architecture.md: numbers in the code."""

from __future__ import annotations

from dagster_project.same_origin import LARGEST_HEAD
from longtail.generation.latency import N_QUESTIONS
from longtail.processes import GRACE_S
from longtail.statistics.risk_coverage import DELTA
from longtail.study.study import Study
from tests.claims.form import Claim, constant, dbt_variable

PLACE = "docs/architecture.md"
CLAIMS = (
    Claim(
        PLACE, "a running sum for each of {splits} splits", constant(splits=dbt_variable("adaptive_splits"))
    ),
    Claim(PLACE, "headers has at most {kb} KB", constant(kb=LARGEST_HEAD // 1024)),
    Claim(PLACE, "up to {n} questions per method and prompt", constant(n=N_QUESTIONS)),
    Claim("docs/models.md", "`max_new_tokens` ({n} by default)", constant(n=Study.max_new_tokens)),
    Claim(
        "docs/operations.md",
        "end every command and all processes that it started within {s} s",
        constant(s=round(GRACE_S) + 3),
    ),
    Claim("docs/router.md", "with a probability of {kept:p0} %", constant(kept=1 - DELTA)),
)
