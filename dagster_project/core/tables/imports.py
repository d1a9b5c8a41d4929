"""Lake tables of what imported files say, unchanged."""

from __future__ import annotations

import pyarrow as pa

from dagster_project.core.tables.generation import CONFIDENCE
from dagster_project.core.tables.schema import (
    DATASET,
    METHOD,
    MODEL,
    POLICY,
    PROMPT,
    PROMPT_HASH,
    QUESTION_ID,
    Table,
    column,
)

IMPORT_TABLES = (
    Table(
        "imported_popularity",
        "One row per entity whose popularity an imported dataset gives or declares missing.",
        (
            column("entity_id", pa.string(), "entity id: Q…, or the id that a question of a table brings"),
            column(
                "popularity",
                pa.float64(),
                "popularity as the file gives it, without a stated month; null = missing, which is not zero",
                null=True,
            ),
            column(
                "dataset",
                pa.string(),
                "dataset whose file gave the popularity: the first in the study that names the entity",
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
            column("text", pa.string(), "the answer in the file"),
            column(
                "is_correct",
                pa.bool_(),
                "the file itself calls the answer right; null if it does not say",
                null=True,
            ),
            column(
                "has_answer",
                pa.bool_(),
                "the file says that the passage contains an answer; null without a passage",
                null=True,
            ),
            column(
                "passage",
                pa.string(),
                "retrieved passage, as the file names it; null without one",
                null=True,
            ),
            column("background", pa.string(), "generated passage; null without one", null=True),
            PROMPT_HASH,
            column("quantisation", pa.string(), "none or 8bit, according to the name of the file"),
            column("made_by", pa.string(), "model, as the file names it; empty if the file names none"),
            column("place", pa.string(), "file and row"),
            column(
                "prompt_tokens", pa.int32(), "tokens of the prompt; null if the file does not say", null=True
            ),
            column("new_tokens", pa.int32(), "generated tokens; null if the file does not say", null=True),
            column(
                "latency_ms",
                pa.float64(),
                "time of the answer in milliseconds; null if the file does not say",
                null=True,
            ),
            *CONFIDENCE,
        ),
        partitioned_by=("model",),
    ),
    Table(
        "imported_decisions",
        "One row per (dataset, policy, question): whether a policy of others retrieves for the question.",
        (
            DATASET,
            POLICY,
            QUESTION_ID,
            column(
                "retrieves",
                pa.bool_(),
                "the policy retrieves; null where its file has a score alone",
                null=True,
            ),
            column("score", pa.float64(), "the higher, the rather it retrieves; null without one", null=True),
            column("place", pa.string(), "file and row"),
        ),
    ),
)
