"""The figures of the report, in the order of the page."""

from __future__ import annotations

from longtail.report.figure import Figure, Section
from longtail.report.figures import adaptive, consistency, costs, grounding, memory, questions, retrieval

SECTIONS = (
    Section("overview", "Overview", "", is_chapter=False),
    Section("effects", "What retrieval mends and breaks", "", is_chapter=False),
    Section("thresholds", "Below which popularity to retrieve", "", is_chapter=False),
    Section("confidence", "Confidence and savings", "", is_chapter=False),
    Section("scores", "All scores", "Every model and method, ranked, and compared on the same questions."),
    Section(
        "memory",
        "What models remember",
        "Models know popular subjects from memory and fail in the long tail. How steep is the fall, in which "
        "relations, and do larger models fall less?",
    ),
    Section(
        "retrieval",
        "Retrieved passages",
        "How often do passages contain the answer, whom are they about, and when do they win over memory?",
    ),
    Section("adaptive", "When to retrieve", "By popularity or by another signal, against fixed methods."),
    Section("costs", "Latency and cost", "The time and money that answers take."),
    Section(
        "consistency",
        "Consistency",
        "Does a model give the same answer to the same question in other words? And does that show whether the answer is "
        "right?",
    ),
    Section(
        "grounding",
        "Grounding",
        "How much of what a model writes stands in a corpus, word for word?",
    ),
    Section(
        "questions", "The questions", "The questions behind every number: how popular their subjects are."
    ),
    Section("audit", "Audit", "What happened to every row, and how much depends on the rule of correctness."),
)

FIGURES: tuple[Figure, ...] = (
    *memory.FIGURES,
    *retrieval.FIGURES,
    *adaptive.FIGURES,
    *costs.FIGURES,
    *consistency.FIGURES,
    *grounding.FIGURES,
    *questions.FIGURES,
)
