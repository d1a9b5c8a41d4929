"""Lake tables of what files of others say, as they say it."""

from __future__ import annotations

import pyarrow as pa

from dagster_project.core.tables.schema import DATASET, METHOD, MODEL, PROMPT, QUESTION_ID, Table, column

IMPORT_TABLES = (
    Table(
        "imported_popularity",
        "One row per entity that an imported dataset gives a popularity of, or says that it is missing.",
        (
            column("entity_id", pa.string(), "entity id, Q…"),
            column(
                "popularity",
                pa.float64(),
                "monthly page views as the file gives them, of no stated month; null = missing, which is not zero",
                null=True,
            ),
            column(
                "dataset",
                pa.string(),
                "dataset whose file gave it: the first of the study that names the entity",
            ),
        ),
    ),
    Table(
        "imported_answers",
        "One row per (dataset, question, model, method, prompt) of an imported result file.",
        (
            DATASET,
            QUESTION_ID,
            MODEL,
            METHOD,
            PROMPT,
            column("text", pa.string(), "the answer as the file has it"),
            column(
                "is_correct",
                pa.bool_(),
                "whether the file itself calls it right; null if it does not say",
                null=True,
            ),
            column(
                "has_answer",
                pa.bool_(),
                "whether the file says that its passage holds an answer; null without one",
                null=True,
            ),
            column(
                "passage",
                pa.string(),
                "retrieved passage, in the file's own terms; null without one",
                null=True,
            ),
            column("background", pa.string(), "generated passage; null without one", null=True),
            column(
                "prompt_hash",
                pa.string(),
                "SHA-256 of the exact prompt text; null if the file has none",
                null=True,
            ),
            column("quantisation", pa.string(), "none or 8bit, by the file's name"),
            column("made_by", pa.string(), "model, as the file names it; empty if it does not"),
            column("place", pa.string(), "file and row"),
        ),
        partitioned_by=("model",),
    ),
)
