"""Lake tables of what models wrote, what it cost, and what is computed from it."""

from __future__ import annotations

import pyarrow as pa

from dagster_project.core.tables.schema import (
    DATASET,
    METHOD,
    MODEL,
    PROMPT,
    QUESTION_ID,
    TEXTS,
    Table,
    column,
)

# What the files of imported answers do not say is null there, never zero.
ACCOUNTS = (
    column(
        "prompt_tokens", pa.int32(), "tokens of the prompt as given to the model; null if imported", null=True
    ),
    column(
        "shared_tokens",
        pa.int32(),
        "prompt tokens that were not computed for this row: others had them in common; null if imported",
        null=True,
    ),
    column("new_tokens", pa.int32(), "tokens generated, the end token left out; null if imported", null=True),
    column(
        "n_truncated_tokens",
        pa.int32(),
        "prompt tokens cut from the left to fit the model; null if imported",
        null=True,
    ),
    column(
        "latency_ms",
        pa.float64(),
        "this row's share of its batch's wall time, of a service its request's time; milliseconds; null if imported",
        null=True,
    ),
    column("batch_size", pa.int32(), "rows in the batch that computed this row; null if imported", null=True),
    column(
        "device_seconds",
        pa.float64(),
        "this row's share of local devices' time; null for a service",
        null=True,
    ),
    column(
        "cost_usd",
        pa.float64(),
        "device_seconds at the model's device_hour_usd, or what the service billed; null without a price",
        null=True,
    ),
    column("engine", pa.string(), "backend that computed the row; imported = others did, by a file"),
    column(
        "revision",
        pa.string(),
        "exact weights: hub commit, SHA-256 of the files, or as the service or imported file names it",
    ),
    column(
        "dtype",
        pa.string(),
        "number format of the weights; unknown if imported, or a service's and not declared",
    ),
    column("quantisation", pa.string(), "none, or the scheme; unknown if a service's and not declared"),
    column(
        "decoding",
        pa.string(),
        "how the text was decoded, as in the row cache's key: method, limit, the checkpoint's own settings that it "
        "follows; null if imported",
        null=True,
    ),
    column(
        "seed",
        pa.int64(),
        "seed of the demonstrations' draw, or of the sample; null if imported",
        null=True,
    ),
    column(
        "is_reused", pa.bool_(), "the generation was taken from the row cache of an earlier run or partition"
    ),
    column(
        "generated_for",
        pa.string(),
        "fingerprint of the partition that the generation was computed for; null if imported",
        null=True,
    ),
    column("run_id", pa.string(), "Dagster run that wrote this row"),
    column("code_version", pa.string(), "hash of the code that built the prompt and scored the answer"),
)

GENERATION = (
    column(
        "prompt_hash",
        pa.string(),
        "SHA-256 of the exact prompt text; null where an imported file has no prompts",
        null=True,
    ),
    column(
        "prediction",
        pa.string(),
        "the answer kept: first line of the generation, of a rambling model its first sentence (SPEC §3)",
    ),
    column("raw_text", pa.string(), "the generation before it was cut"),
    column(
        "is_correct", pa.bool_(), "some gold answer stands in the prediction: PopQA's rule (SPEC §5, popqa)"
    ),
    column(
        "is_correct_case_sensitive", pa.bool_(), "some gold answer stands in the prediction as it is written"
    ),
    column("is_correct_normalized", pa.bool_(), "so on SQuAD-normalised words"),
    column("is_exact_match", pa.bool_(), "prediction equals some gold answer, both SQuAD-normalised"),
    column("token_f1", pa.float64(), "token F1, maximum over the gold answers, SQuAD-normalised"),
    column("rouge_l", pa.float64(), "ROUGE-L F-measure, maximum over the gold answers"),
    *ACCOUNTS,
)

GENERATION_TABLES = (
    Table(
        "answers",
        "One row per (dataset, question, model, method, prompt).",
        (
            DATASET,
            QUESTION_ID,
            MODEL,
            METHOD,
            PROMPT,
            column("passage_id", pa.string(), "passage before the question; null for closed_book", null=True),
            column(
                "demonstration_ids",
                TEXTS,
                "question ids of the demonstrations, in the prompt's order; null if imported",
                null=True,
            ),
            column(
                "demonstration_passage_ids",
                TEXTS,
                "passages before the demonstrations, in the same order; null inside where one has none, null if imported",
                null=True,
            ),
            *GENERATION,
        ),
        partitioned_by=("model", "method"),
    ),
    Table(
        "paraphrase_answers",
        "One row per (dataset, question, paraphrase, model, prompt), answered closed-book.",
        (
            DATASET,
            QUESTION_ID,
            column("paraphrase_id", pa.int32(), "0 = the question itself"),
            MODEL,
            PROMPT,
            *GENERATION,
        ),
        partitioned_by=("model",),
    ),
    Table(
        "sampled_answers",
        "One row per (dataset, question, sample, model, prompt), answered closed-book at a temperature.",
        (
            DATASET,
            QUESTION_ID,
            column("sample", pa.int32(), "number of the sample, from 0"),
            MODEL,
            PROMPT,
            column("temperature", pa.float64(), "temperature of the draw; top_p 1, no top_k"),
            *GENERATION,
        ),
        partitioned_by=("model",),
    ),
    Table(
        "generated_passages",
        "One row per (dataset, question, model): the background text that stands before a question of method genread.",
        (
            DATASET,
            QUESTION_ID,
            MODEL,
            column("passage_id", pa.string(), "genread, model and question, joined by colons"),
            column(
                "text", pa.string(), "the first line of the background text: what takes the passage's place"
            ),
            column(
                "has_answer",
                pa.bool_(),
                "a gold answer stands in text as a token sequence (DPR's rule, SPEC §4)",
            ),
            column("has_answer_popqa", pa.bool_(), "so by PopQA's substring rule"),
            column(
                "prompt_hash", pa.string(), "SHA-256 of the exact prompt text; null if imported", null=True
            ),
            column("raw_text", pa.string(), "the background text before it was cut"),
            *ACCOUNTS,
        ),
        partitioned_by=("model",),
    ),
    Table(
        "single_latencies",
        "One row per (dataset, question, model, method, prompt) that was asked alone: what one user waits.",
        (
            DATASET,
            QUESTION_ID,
            MODEL,
            METHOD,
            PROMPT,
            column("single_latency_ms", pa.float64(), "time of this one answer, milliseconds"),
            column(
                "round_number",
                pa.int32(),
                "place of the question in the calibration, from 0: all methods are asked it in turn; null for a service",
                null=True,
            ),
            column(
                "turn",
                pa.int32(),
                "place of the prompt in its round, from 0; equal prompts are asked once and share it; null for a service",
                null=True,
            ),
            column("device", pa.string(), "what the model ran on"),
            column("engine", pa.string(), "backend that was timed"),
            column("run_id", pa.string(), "Dagster run that wrote this row"),
        ),
        partitioned_by=("model",),
    ),
    Table(
        "answer_embeddings",
        "One row per distinct answer text of paraphrase_answers and sampled_answers.",
        (
            column("text", pa.string(), "answer text; an empty answer is embedded as the empty string"),
            column("embedding", pa.list_(pa.float32(), 384), "unit vector of the sentence encoder"),
            column("encoder", pa.string(), "sentence encoder: name@weights-settings"),
        ),
    ),
)
