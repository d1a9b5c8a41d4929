"""What results cost: the accounting columns of a row, and a partition's report."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from longtail.generation.backends.base import Accounts
from longtail.generation.engine.job import Completed
from longtail.study.models import Model

_SECONDS_PER_HOUR = 3600
_OF_RESULT = (
    "prompt_tokens", "shared_tokens", "new_tokens", "reasoning_tokens", "n_truncated_tokens", "latency_ms", "batch_size",
    "device_seconds", "served_model",
)  # fmt: skip


def accounts(result: Accounts, model: Model, n_copies: int = 1, is_first: bool = True) -> dict[str, Any]:
    """The accounting columns that a result decides; `cost_usd` in US dollars, None without a price.

    Rows of equal prompts are copies of one result: each bears its share of time and cost, the first one the
    prompt's tokens. The time of a service's request is not shared: each copy waited for all of it.
    """
    own = {name: getattr(result, name) for name in _OF_RESULT}
    if not is_first:
        own["shared_tokens"] = result.prompt_tokens
    if result.device_seconds is not None:
        own["device_seconds"] = result.device_seconds / n_copies
        own["latency_ms"] = result.latency_ms / n_copies
    costs = {"cost_usd": cost_usd(result, model), "reasoning_usd": result.reasoning_usd}
    return own | {name: None if cost is None else cost / n_copies for name, cost in costs.items()}


def cost_usd(result: Accounts, model: Model) -> float | None:
    """What a service billed, else the device's time at the model's price of an hour."""
    if result.cost_usd is not None:
        return result.cost_usd
    if model.device_hour_usd is None or result.device_seconds is None:
        return None
    return model.device_hour_usd * result.device_seconds / _SECONDS_PER_HOUR


def notes(table: pa.Table, done: Completed) -> dict[str, Any]:
    """A partition's report from its rows, and from what was computed for them now.

    Tokens, cost and the share of shared prompt tokens cover all rows. Rates cover the results computed now, without
    shared tokens, over the time that they took. `cost_usd` is None without prices. `lost_usd` is what services billed
    on top, for failures and lost answers.
    """
    prompt_tokens, shared_tokens = _sum(table, "prompt_tokens"), _sum(table, "shared_tokens")
    judged = next((name for name in ("is_correct", "has_answer") if name in table.column_names), None)
    mean = pc.mean(table[judged].cast(pa.float64())).as_py() if judged else None
    usage = done.usage
    return {
        "rows": table.num_rows,
        "has_answer" if judged == "has_answer" else "accuracy": mean,
        "distinct_prompts": len(done.distinct.works),
        "computed": done.n_computed,
        "resumed": done.n_resumed,
        "reused": done.n_reused,
        "truncated": _sum(table, pc.greater(table["n_truncated_tokens"], 0)),
        "prompt_tokens": prompt_tokens,
        "shared_tokens": shared_tokens,
        "new_tokens": _sum(table, "new_tokens"),
        "shared_share": round(shared_tokens / prompt_tokens, 4) if prompt_tokens else None,
        "cost_usd": pc.sum(table["cost_usd"]).as_py(),
        "lost_usd": done.lost_usd,
        "rows_per_second": _rate(done.n_computed, done.seconds),
        "tokens_per_second": _rate(done.n_tokens, done.seconds),
        "device": usage.device if usage else None,
        "peak_memory_mb": round(usage.peak_memory_mb, 1) if usage else None,
        "utilisation": round(usage.utilisation, 3) if usage and usage.utilisation is not None else None,
    }


def _sum(table: pa.Table, values: str | pa.ChunkedArray) -> int:
    column = table[values] if isinstance(values, str) else values
    return pc.sum(column).as_py() or 0


def _rate(n: int, seconds: float) -> float | None:
    return round(n / seconds, 1) if n and seconds else None
