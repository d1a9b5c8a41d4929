"""The columns that say how a generated row was computed and what it cost; tables of generated rows share them."""

from __future__ import annotations

from longtail.tables.schema import flag, int32, int64, measure, text

# If a file of imported answers does not say a value, the value is null, never zero.
ACCOUNTS = (
    int32(
        "prompt_tokens",
        "tokens of the prompt given to the model; null if imported from a file that does not say",
        null=True,
    ),
    int32(
        "shared_tokens",
        "prompt tokens that were not computed for this row, because other rows share them; null if imported",
        null=True,
    ),
    int32(
        "new_tokens",
        "generated tokens, without the end token; null if imported from a file that does not say",
        null=True,
    ),
    int32(
        "reasoning_tokens",
        "those of new_tokens that are the model's reasoning, which is no part of the answer; null if there are none, or"
        " if the service does not say",
        null=True,
    ),
    int32(
        "n_truncated_tokens",
        "tokens cut from the left of the prompt so that it fits the model; null if imported",
        null=True,
    ),
    measure(
        "latency_ms",
        "this row's share of the wall time of its batch, or the time of its request to a service, in milliseconds;"
        " null if imported from a file that does not say",
    ),
    int32("batch_size", "rows in the batch that computed this row; null if imported", null=True),
    measure(
        "device_seconds", "this row's share of the time of the local devices, in seconds; null for a service"
    ),
    measure(
        "cost_usd",
        "device_seconds at the model's device_hour_usd, or what the service billed, in US dollars; null without a"
        " price",
    ),
    measure(
        "reasoning_usd",
        "the part of cost_usd that the service billed for reasoning_tokens, in US dollars; null if it is not known",
    ),
    text("engine", "backend that computed the row; imported = it comes from a file"),
    text(
        "revision",
        "exact weights: commit on the hub, SHA-256 of the files, or what the service or the imported file calls them",
    ),
    text(
        "served_model",
        "the model that the service says it used; null if it does not say, and for local and imported models",
        null=True,
    ),
    text(
        "dtype",
        "number format of the weights; unknown if imported, or if the study does not declare it for a service",
    ),
    text("quantisation", "none, or the scheme; unknown for a service without a declared one"),
    text(
        "decoding",
        "how the text was decoded: greedy or temperature, where it ends, and the settings of the checkpoint that were"
        " followed (forced, forbidden or penalised tokens); null if imported",
        null=True,
    ),
    int64("seed", "seed of the demonstrations or of the sample; null if imported", null=True),
    flag(
        "is_reused",
        "the generation came from the row cache: an earlier run or another partition had computed it",
    ),
    text(
        "generated_for",
        "fingerprint of the partition that this generation was computed for; null if imported",
        null=True,
    ),
    text("run_id", "Dagster run that wrote this row"),
    text("code_version", "hash of the code that built the prompt and scored the answer"),
)
