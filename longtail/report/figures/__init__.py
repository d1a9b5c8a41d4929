"""The sections of the report with their figures, in the order of the page."""

from __future__ import annotations

from longtail.report.figure import Figure, Section
from longtail.report.figures import adaptive, consistency, grounding, memory, questions, retrieval, verdicts

SECTIONS = (
    Section("overview", "Overview", "",
            (verdicts.VERDICTS, verdicts.ALL_ACCURACIES, memory.ACROSS, memory.BY_POPULARITY, memory.WITHIN),
            is_chapter=False),
    Section("effects", "What retrieval mends and breaks", "",
            (retrieval.EFFECT, retrieval.QUADRANTS, retrieval.MISLED, retrieval.RESCUED), is_chapter=False),
    Section("thresholds", "Below which popularity to retrieve", "",
            (verdicts.GAIN, adaptive.THRESHOLDS), is_chapter=False),
    Section("confidence", "Confidence, time and money", "",
            (verdicts.ALL_AUROCS, adaptive.SIGNALS, adaptive.SAVED, adaptive.COST), is_chapter=False),
    Section("scores", "All scores", "Every model and method, and which differ on the same questions.",
            (memory.HEADLINE, retrieval.BY_METHOD, retrieval.COMPARISON), has_results=True),
    Section("memory", "Memory",
            "Models know popular subjects from memory and fail in the long tail. How steep is the fall, in which "
            "relations, and do larger models fall less?",
            (memory.CORRELATION, memory.MEASURES, memory.BY_RELATION, memory.BY_POPULARITY_AND_RELATION,
             memory.SCALING, memory.BY_SIZE, memory.LEAST_POPULAR, memory.GUESSING), has_results=True),
    Section("retrieval", "Passages",
            "How often do passages contain the answer, whom are they about, and when do they win over memory?",
            (retrieval.RELATIVE, retrieval.RECALL, retrieval.RECALL_BY_POPULARITY, retrieval.PASSAGE_OF,
             retrieval.CONFLICTS), has_results=True),
    Section("adaptive", "Signals and policies", "Deciding by popularity or by another signal, against fixed methods.",
            (adaptive.ACCURACY, adaptive.QUALITY, adaptive.RISK_COVERAGE, adaptive.ARENA, adaptive.USAGE),
            has_results=True),
    Section("costs", "Measured time and tokens", "The time and money that answers take.",
            (adaptive.LATENCY, adaptive.TOKENS)),
    Section("consistency", "Consistency",
            "Does a model give the same answer to the same question in other words? And does that show whether the "
            "answer is right?",
            (consistency.BY_RELATION, consistency.AGAINST_ACCURACY, consistency.PARAPHRASES,
             consistency.FACTS_BY_RELATION, consistency.FACTS_BY_POPULARITY, consistency.RETRIEVERS,
             consistency.BY_STEP, consistency.HELD_OUT, consistency.CALIBRATION, consistency.DIAGNOSTICS),
            has_results=True),
    Section("grounding", "Grounding", "How much of what a model writes stands in a corpus, word for word?",
            (grounding.QUIP, grounding.BY_POPULARITY, grounding.QUOTES, grounding.PROMPTS, grounding.END_TASK,
             grounding.BY_SIZE, grounding.PROMPTS_BY_POPULARITY, grounding.EXPLANATIONS, grounding.COMPARISONS),
            has_results=True),
    Section("questions", "The questions", "The questions behind every number: how popular their subjects are.",
            (questions.DATASETS, questions.DISTRIBUTION, questions.QUANTILES, questions.DRIFT, questions.SAMPLING,
             questions.LINKING)),
    Section("audit", "Audit", "What happened to every row, and how much depends on the rule of correctness.",
            (questions.COVERAGE, questions.FAILED, questions.QUARANTINE, questions.DISAGREEMENT, questions.RULES)),
)  # fmt: skip

FIGURES: tuple[Figure, ...] = tuple(figure for section in SECTIONS for figure in section.figures)
