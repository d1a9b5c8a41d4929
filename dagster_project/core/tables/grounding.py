"""Lake tables of grounding: what of a generation stands in the corpus (SPEC §9)."""

from __future__ import annotations

import pyarrow as pa

from dagster_project.core.tables.schema import DATASET, METHOD, MODEL, QUESTION_ID, Table, column

_PLACES = pa.list_(pa.int32())

GROUNDING_TABLES = (
    Table(
        "quip_scores",
        "One row per (dataset, question, model, method, prompt, text_from): a generation compared with the corpus.",
        (
            DATASET,
            QUESTION_ID,
            MODEL,
            METHOD,
            column(
                "prompt",
                pa.string(),
                "prompt, as named in the study; null for generated_passages, which all prompts share",
                null=True,
            ),
            column("text_from", pa.string(), "lake table whose raw_text was compared"),
            column(
                "n_grams",
                pa.int64(),
                "character 25-grams of the normalised text, duplicates counted; 0 if it has fewer than 25 characters",
            ),
            column(
                "quip",
                pa.float64(),
                "share of these 25-grams that occur in the corpus; null without one",
                null=True,
            ),
            column(
                "span_starts",
                _PLACES,
                "where each quoted span begins in raw_text, in characters from 0; a span is a maximal run of 25-grams"
                " that occur in the corpus",
            ),
            column("span_ends", _PLACES, "where each quoted span ends: the character after its last one"),
        ),
        partitioned_by=("model",),
    ),
)
