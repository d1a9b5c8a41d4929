"""Lake tables of reference questions: they are compared with the datasets, and no model answers them."""

from __future__ import annotations

from dataclasses import replace

from longtail.tables.schema import RELATION, TEXTS, Table, column, int32, int64, measure, text
from longtail.tables.world import VIEWS

REFERENCE = text("dataset", "reference questions, as named in the study")
QUESTION_LINE = text("question_id", "question: the number of its line in the file")

REFERENCE_TABLES = (
    Table(
        "reference_questions",
        "One row per (reference dataset, question).",
        (
            REFERENCE,
            QUESTION_LINE,
            text("question", "the question, in the words of the file"),
            column("gold_answers", TEXTS, "the answers in the file, distinct, none empty"),
        ),
    ),
    Table(
        "reference_mentions",
        "One row per (reference dataset, question, position): a name in a question, and the entity it is linked to.",
        (
            REFERENCE,
            QUESTION_LINE,
            int32("position", "number of the name in the question, from 0, from left to right"),
            text("linker", "tagme (a service), or names (labels and aliases of the lake's entities)"),
            text("spot", "the name, as the question writes it"),
            int32("start", "place of its first character, from 0, as the linker counts"),
            int32("end", "place after its last character"),
            int32("n_candidates", "entities with this name; the name is linked only if there is 1"),
            text("entity_id", "entity in the lake; null = none, or several", null=True),
            text("article_title", "title of the English Wikipedia article; null = none", null=True),
            measure("link_probability", "how often the name is a link in Wikipedia; null for names"),
            measure("rho", "confidence of the service, above the study's min_rho; null for names"),
        ),
    ),
    Table(
        "reference_page_views",
        "One row per (article, month), for articles that reference questions name and no entity in the lake has.",
        (
            # No imported file gives these views.
            *(
                replace(c, nullable=False) if c.name in ("views_from", "redirects", "agent") else c
                for c in VIEWS
            ),
        ),
        partitioned_by=("month",),
    ),
    Table(
        "entity_linking",
        "One row per (dataset, relation) whose questions name no entity and were linked to one by text.",
        (
            text("dataset", "dataset or reference questions, as named in the study"),
            text(
                "relation",
                f"{RELATION.description}; all = all relations together, and the only value for reference questions",
            ),
            text(
                "linker",
                "template (the relation's template cuts the subject out of the question), names (labels and aliases"
                " anywhere in the question), or tagme (a service)",
            ),
            int64("n_questions", "questions in the file about the study's relations"),
            int64(
                "n_linked",
                "questions linked to an entity; a question that names several is linked to at least one",
            ),
            int64("n_no_entity", "questions without a known name"),
            int64(
                "n_several_entities",
                "questions in which every name belongs to several entities, so that none is chosen",
            ),
            int64("n_put_aside", "questions that were rejected because of an error; see quarantine"),
            int64(
                "n_most_popular",
                "linked questions whose name belongs to several entities: the most popular of them was chosen",
            ),
        ),
    ),
)
