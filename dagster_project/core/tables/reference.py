"""Lake tables of reference questions: what is compared with the datasets and asked to no model."""

from __future__ import annotations

import pyarrow as pa

from dagster_project.core.tables.schema import TEXTS, Table, column

REFERENCE = column("dataset", pa.string(), "name of the reference questions, as in the study")
QUESTION_LINE = column("question_id", pa.string(), "question: the number of its line in the file")

REFERENCE_TABLES = (
    Table(
        "reference_questions",
        "One row per (reference dataset, question).",
        (
            REFERENCE,
            QUESTION_LINE,
            column("question", pa.string(), "the question as the file words it"),
            column("gold_answers", TEXTS, "the file's answers, distinct, none empty"),
        ),
    ),
    Table(
        "reference_mentions",
        "One row per (reference dataset, question, position): a name in a question, and what it is linked to.",
        (
            REFERENCE,
            QUESTION_LINE,
            column("position", pa.int32(), "from 0, from left to right"),
            column(
                "linker",
                pa.string(),
                "tagme (a service), or names (labels and aliases of the lake's entities)",
            ),
            column("spot", pa.string(), "the name as it stands in the question"),
            column("start", pa.int32(), "place of its first character, from 0, as the linker counts"),
            column("end", pa.int32(), "place after its last character"),
            column("n_candidates", pa.int32(), "entities that bear the name; linked only where it is 1"),
            column("entity_id", pa.string(), "entity of the lake; null = none, or several", null=True),
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
                "the service's confidence, above the study's min_rho; null for names",
                null=True,
            ),
        ),
    ),
    Table(
        "reference_page_views",
        "One row per (article, month) that reference questions name and no entity of the lake has.",
        (
            column("article_title", pa.string(), "title of the English Wikipedia article"),
            column("month", pa.string(), "YYYY-MM"),
            column("views", pa.int64(), "page views; null = missing, which is not zero", null=True),
            column("source", pa.string(), "sandbox or wikimedia"),
            column("views_from", pa.string(), "api or dump"),
            column("redirects", pa.string(), "as in page_views: ignore, resolve or sum"),
            column(
                "resolved_title",
                pa.string(),
                "as in page_views; null = no such page, or not asked",
                null=True,
            ),
            column(
                "n_redirects",
                pa.int32(),
                "redirects whose views were added up; null = not asked for",
                null=True,
            ),
        ),
        partitioned_by=("month",),
    ),
    Table(
        "entity_linking",
        "One row per (dataset, relation) whose questions name no entity and were linked to one by text.",
        (
            column("dataset", pa.string(), "dataset or reference questions"),
            column("relation", pa.string(), "name of the relation; all = reference questions have none"),
            column("linker", pa.string(), "template (the subject cut out of the question), names, or tagme"),
            column("n_questions", pa.int64(), "questions that the file holds"),
            column("n_linked", pa.int64(), "questions linked to an entity"),
            column("n_no_entity", pa.int64(), "questions without a name that is known"),
            column(
                "n_several_entities", pa.int64(), "questions whose names are all borne by several entities"
            ),
            column("n_put_aside", pa.int64(), "questions put aside for another fault, see quarantine"),
        ),
    ),
)
