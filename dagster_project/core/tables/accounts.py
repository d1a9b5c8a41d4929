"""The columns that say how a generated row was computed and what it cost; tables of generated rows share them."""

from __future__ import annotations

import pyarrow as pa

from dagster_project.core.tables.schema import column

# If a file of imported answers does not say a value, the value is null, never zero.
ACCOUNTS = (
    column(
        "prompt_tokens",
        pa.int32(),
        "tokens of the prompt given to the model; null if imported from a file that does not say",
        null=True,
    ),
    column(
        "shared_tokens",
        pa.int32(),
        "prompt tokens that were not computed for this row, because other rows share them; null if imported",
        null=True,
    ),
    column(
        "new_tokens",
        pa.int32(),
        "generated tokens, without the end token; null if imported from a file that does not say",
        null=True,
    ),
    column(
        "n_truncated_tokens",
        pa.int32(),
        "tokens cut from the left of the prompt so that it fits the model; null if imported",
        null=True,
    ),
    column(
        "latency_ms",
        pa.float64(),
        "this row's share of the wall time of its batch, or the time of its request to a service, in milliseconds;"
        " null if imported from a file that does not say",
        null=True,
    ),
    column("batch_size", pa.int32(), "rows in the batch that computed this row; null if imported", null=True),
    column(
        "device_seconds",
        pa.float64(),
        "this row's share of the time of the local devices, in seconds; null for a service",
        null=True,
    ),
    column(
        "cost_usd",
        pa.float64(),
        "device_seconds at the model's device_hour_usd, or what the service billed, in US dollars; null without a"
        " price",
        null=True,
    ),
    column("engine", pa.string(), "backend that computed the row; imported = it comes from a file"),
    column(
        "revision",
        pa.string(),
        "exact weights: commit on the hub, SHA-256 of the files, or what the service or the imported file calls them",
    ),
    column(
        "dtype",
        pa.string(),
        "number format of the weights; unknown if imported, or if the study does not declare it for a service",
    ),
    column("quantisation", pa.string(), "none, or the scheme; unknown for a service without a declared one"),
    column(
        "decoding",
        pa.string(),
        "how the text was decoded: greedy or temperature, where it ends, and the settings of the checkpoint that were"
        " followed (forced, forbidden or penalised tokens); null if imported",
        null=True,
    ),
    column("seed", pa.int64(), "seed of the demonstrations or of the sample; null if imported", null=True),
    column(
        "is_reused",
        pa.bool_(),
        "the generation came from the row cache: an earlier run or another partition had computed it",
    ),
    column(
        "generated_for",
        pa.string(),
        "fingerprint of the partition that this generation was computed for; null if imported",
        null=True,
    ),
    column("run_id", pa.string(), "Dagster run that wrote this row"),
    column("code_version", pa.string(), "hash of the code that built the prompt and scored the answer"),
)
