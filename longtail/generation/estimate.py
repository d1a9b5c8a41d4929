"""What a partition of a generated table has still to compute: counted before any computation, and no model loaded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import pyarrow.compute as pc

from longtail.generation.engine.job import distinct_works
from longtail.generation.engine.partition import cache_of, fingerprint_of
from longtail.generation.engine.session import ModelSession
from longtail.generation.engine.task import BYTES_PER_TOKEN, Scope, Task
from longtail.storage.lake import Lake
from longtail.study.models import Model
from longtail.study.prices import price_on

_SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class Estimate:
    """Of `n_results` distinct results, `n_missing` are not in the row cache.

    `prompt_tokens` are those of the missing ones, a token taken for four bytes and a shared beginning counted each
    time; `new_tokens` take half of the most that each may have. `seconds` follow from the model's earlier rows, None
    without any; `usd` from the service's price, or the device's price of an hour, None where these are not known.
    """

    n_results: int
    n_missing: int
    prompt_tokens: int
    new_tokens: int
    seconds: float | None
    usd: float | None


def estimate(task: Task, scope: Scope, session: ModelSession) -> Estimate | None:
    """What one partition has still to compute; None where it is current, or imported.

    Errors: `LakeError` where an input is not made yet, `BackendError` where the model's files are missing.
    """
    model = scope.model
    if not model.generates or scope.lake.current(
        task.table, fingerprint_of(task, scope, session), scope.name
    ):
        return None
    works = distinct_works(task.plan(scope).items, session.identity(model)).works
    with cache_of(task, scope, session) as cache:
        there = cache.find(key for work in works for key in work.keys)
    missing = [(work, n) for work in works if (n := sum(key not in there for key in work.keys))]
    prompt_tokens = sum(work.size // BYTES_PER_TOKEN + 1 for work, _ in missing)
    new_tokens = sum(n * work.part_tokens for work, n in missing)
    speed = _tokens_per_second(scope.lake, model)
    seconds = (prompt_tokens + new_tokens) / speed if speed else None
    return Estimate(
        n_results=sum(len(work.keys) for work in works),
        n_missing=sum(n for _, n in missing),
        prompt_tokens=prompt_tokens,
        new_tokens=new_tokens,
        seconds=seconds,
        usd=_usd(model, prompt_tokens, new_tokens, seconds),
    )


def _usd(model: Model, prompt_tokens: int, new_tokens: int, seconds: float | None) -> float | None:
    price = price_on(model, date.today())
    if price is not None:
        return float(price.exact_usd(prompt_tokens, new_tokens))
    if model.device_hour_usd is None or seconds is None:
        return None
    return model.device_hour_usd * seconds / _SECONDS_PER_HOUR


def _tokens_per_second(lake: Lake, model: Model) -> float | None:
    """Prompt and new tokens for each second of the model's device, over its answers so far; None without any.

    Shared tokens count here as they do in an estimate.
    """
    tokens = seconds = 0.0
    for part in lake.partitions("answers"):
        if part.partition("|")[0] == model.name:
            rows = lake.read("answers", part, ["prompt_tokens", "new_tokens", "device_seconds"])
            read, written, taken = (pc.sum(column).as_py() or 0 for column in rows.columns)
            tokens, seconds = tokens + read + written, seconds + taken
    return tokens / seconds if seconds else None
