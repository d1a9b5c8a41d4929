"""The figures of the report, in the order of the page.

What belongs here: which figures and sections there are. A new figure is a `Figure` in the module of its topic.
"""

from __future__ import annotations

from dagster_project.core.report.figure import Figure, Section
from dagster_project.core.report.figures import (
    adaptive,
    audit,
    comparisons,
    consistency,
    costs,
    memory,
    overview,
    passages,
    questions,
    retrieval,
    tail,
)

SECTIONS = (
    Section("overview", "Overview", ""),
    Section(
        "memory",
        "What models remember",
        "Models answer from memory what is asked about often, and fail in the tail. How steep is the fall, "
        "in which relations, and does size mend it?",
    ),
    Section(
        "retrieval",
        "What retrieval mends, and breaks",
        "A passage helps where memory fails, and misleads where memory was right and the passage is not.",
    ),
    Section(
        "adaptive",
        "When to trust which",
        "Below a threshold of popularity look it up, above it trust the memory: what that gains, and where the "
        "threshold lies.",
    ),
    Section(
        "cost",
        "Latency and cost",
        "What it takes to be right, and whether not looking things up saves any of it.",
    ),
    Section(
        "consistency",
        "Consistency",
        "Does a model give the same answer to the same question in other words?",
    ),
    Section(
        "questions", "What was asked", "The questions behind every number: how popular their subjects are."
    ),
    Section("audit", "Trust", "Where every row went, and what rests on the choice of a rule."),
)

FIGURES: tuple[Figure, ...] = (
    *overview.FIGURES,
    *memory.FIGURES,
    *tail.FIGURES,
    *retrieval.FIGURES,
    *passages.FIGURES,
    *comparisons.FIGURES,
    *adaptive.FIGURES,
    *costs.FIGURES,
    *consistency.FIGURES,
    *questions.FIGURES,
    *audit.FIGURES,
)
