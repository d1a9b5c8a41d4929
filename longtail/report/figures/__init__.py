"""The figures of the report, in the order of the page."""

from __future__ import annotations

from longtail.report.figure import Figure, Section
from longtail.report.figures import (
    adaptive,
    consistency,
    costs,
    grounding,
    memory,
    questions,
    retrieval,
    verdicts,
)

SECTIONS = (
    Section("overview", "Overview", "", is_chapter=False),
    Section("effects", "What retrieval mends and breaks", "", is_chapter=False),
    Section("thresholds", "Below which popularity to retrieve", "", is_chapter=False),
    Section("confidence", "Confidence, time and money", "", is_chapter=False),
    Section(
        "scores",
        "All scores",
        "Every model and method, ranked, and compared on the same questions.",
        has_results=True,
    ),
    Section(
        "memory",
        "Memory",
        "Models know popular subjects from memory and fail in the long tail. How steep is the fall, in which "
        "relations, and do larger models fall less?",
        has_results=True,
    ),
    Section(
        "retrieval",
        "Passages",
        "How often do passages contain the answer, whom are they about, and when do they win over memory?",
        has_results=True,
    ),
    Section(
        "adaptive",
        "Signals and policies",
        "Deciding by popularity or by another signal, against fixed methods.",
        has_results=True,
    ),
    Section("costs", "Measured time and tokens", "The time and money that answers take."),
    Section(
        "consistency",
        "Consistency",
        "Does a model give the same answer to the same question in other words? And does that show whether the answer is "
        "right?",
        has_results=True,
    ),
    Section(
        "grounding",
        "Grounding",
        "How much of what a model writes stands in a corpus, word for word?",
        has_results=True,
    ),
    Section(
        "questions", "The questions", "The questions behind every number: how popular their subjects are."
    ),
    Section("audit", "Audit", "What happened to every row, and how much depends on the rule of correctness."),
)

FIGURES: tuple[Figure, ...] = (
    *verdicts.FIGURES,
    *memory.FIGURES,
    *retrieval.FIGURES,
    *adaptive.FIGURES,
    *costs.FIGURES,
    *consistency.FIGURES,
    *grounding.FIGURES,
    *questions.FIGURES,
)
