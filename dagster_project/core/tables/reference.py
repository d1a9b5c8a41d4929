"""Lake tables of reference questions: they are compared with the datasets, and no model answers them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from dagster_project.core.tables.schema import RELATION, TEXTS, Table, column
from dagster_project.core.tables.world import VIEWS

REFERENCE = column("dataset", pa.string(), "reference questions, as named in the study")
QUESTION_LINE = column("question_id", pa.string(), "question: the number of its line in the file")

REFERENCE_TABLES = (
    Table(
        "reference_questions",
        "One row per (reference dataset, question).",
        (
            REFERENCE,
            QUESTION_LINE,
            column("question", pa.string(), "the question, in the words of the file"),
            column("gold_answers", TEXTS, "the answers in the file, distinct, none empty"),
        ),
    ),
    Table(
        "reference_mentions",
        "One row per (reference dataset, question, position): a name in a question, and the entity it is linked to.",
        (
            REFERENCE,
            QUESTION_LINE,
            column("position", pa.int32(), "number of the name in the question, from 0, from left to right"),
            column(
                "linker",
                pa.string(),
                "tagme (a service), or names (labels and aliases of the lake's entities)",
            ),
            column("spot", pa.string(), "the name, as the question writes it"),
            column("start", pa.int32(), "place of its first character, from 0, as the linker counts"),
            column("end", pa.int32(), "place after its last character"),
            column(
                "n_candidates", pa.int32(), "entities with this name; the name is linked only if there is 1"
            ),
            column("entity_id", pa.string(), "entity in the lake; null = none, or several", null=True),
            column(
                "article_title", pa.string(), "title of the English Wikipedia article; null = none", null=True
            ),
            column(
                "link_probability",
                pa.float64(),
                "how often the name is a link in Wikipedia; null for names",
                null=True,
            ),
            column(
                "rho",
                pa.float64(),
                "confidence of the service, above the study's min_rho; null for names",
                null=True,
            ),
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
            column("dataset", pa.string(), "dataset or reference questions, as named in the study"),
            column(
                "relation",
                pa.string(),
                f"{RELATION.description}; all = all relations together, and the only value for reference questions",
            ),
            column(
                "linker",
                pa.string(),
                "template (the relation's template cuts the subject out of the question), names (labels and aliases"
                " anywhere in the question), or tagme (a service)",
            ),
            column("n_questions", pa.int64(), "questions in the file about the study's relations"),
            column(
                "n_linked",
                pa.int64(),
                "questions linked to an entity; a question that names several is linked to at least one",
            ),
            column("n_no_entity", pa.int64(), "questions without a known name"),
            column(
                "n_several_entities",
                pa.int64(),
                "questions in which every name belongs to several entities, so that none is chosen",
            ),
            column(
                "n_put_aside",
                pa.int64(),
                "questions that were rejected because of an error; see quarantine",
            ),
            column(
                "n_most_popular",
                pa.int64(),
                "linked questions whose name belongs to several entities: the most popular of them was chosen",
            ),
        ),
    ),
)
