"""Lake tables of what imported files say, unchanged."""

from __future__ import annotations

from longtail.tables.generation import CONFIDENCE
from longtail.tables.schema import (
    DATASET,
    METHOD,
    MODEL,
    POLICY,
    PROMPT,
    PROMPT_HASH,
    QUESTION_ID,
    Table,
    flag,
    int32,
    measure,
    text,
)

IMPORT_TABLES = (
    Table(
        "imported_popularity",
        "One row per entity whose popularity an imported dataset gives or declares missing.",
        (
            text("entity_id", "entity id: Q…, or the id that a question of a table brings"),
            measure(
                "popularity",
                "popularity as the file gives it, without a stated month; null = missing, which is not zero",
            ),
            text(
                "dataset",
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
            text(
                "text",
                "the answer in the file, without the model's reasoning; null if there is none",
                null=True,
            ),
            text("failure", "why there is no answer (SPEC §12); null if there is one", null=True),
            flag("is_declined", "the file says that the model declined; null if it does not say", null=True),
            flag("is_correct", "the file itself calls the answer right; null if it does not say", null=True),
            flag(
                "has_answer",
                "the file says that the passage contains an answer; null without a passage",
                null=True,
            ),
            text("passage", "retrieved passage, as the file names it; null without one", null=True),
            text("background", "generated passage; null without one", null=True),
            PROMPT_HASH,
            text("quantisation", "none or 8bit, according to the name of the file"),
            text("made_by", "model, as the file names it; empty if the file names none"),
            text("place", "file and row"),
            int32("prompt_tokens", "tokens of the prompt; null if the file does not say", null=True),
            int32(
                "new_tokens", "generated tokens, reasoning included; null if the file does not say", null=True
            ),
            int32(
                "reasoning_tokens",
                "tokens of reasoning among them; null if there are none or not known",
                null=True,
            ),
            measure("latency_ms", "time of the answer in milliseconds; null if the file does not say"),
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
            flag("retrieves", "the policy retrieves; null where its file has a score alone", null=True),
            measure("score", "the higher, the rather it retrieves; null without one"),
            text("place", "file and row"),
        ),
    ),
)
