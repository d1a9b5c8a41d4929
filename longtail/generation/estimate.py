"""What a partition of a generated table has still to compute: counted before any computation, and no model loaded."""

from __future__ import annotations

import functools
import itertools
import time
from dataclasses import dataclass
from datetime import date

import pyarrow.compute as pc

from longtail.generation.engine.job import common_bytes, distinct_works, in_order
from longtail.generation.engine.partition import cache_of, fingerprint_of
from longtail.generation.engine.session import ModelSession
from longtail.generation.engine.task import BYTES_PER_TOKEN, Scope, Task
from longtail.generation.latency import N_LEAST, SECONDS, choose_rounds
from longtail.generation.tasks.answers import Answers
from longtail.storage.lake import Lake
from longtail.study.model_files import find_gguf, read_header
from longtail.study.models import Model
from longtail.study.prices import price_on
from longtail.study.study import Study
from longtail.study.tables import local_parameters

_SECONDS_PER_HOUR = 3600
_SIDE = 1024
_SHARE_OF_PRODUCT = 0.5
"""The speed of a small model beside that of a product of matrices of this side: measured, see benchmarks/RESULTS.md."""


@dataclass(frozen=True)
class Estimate:
    """Of `n_results` distinct results, `n_missing` are not in the row cache.

    `prompt_tokens` are those of the missing ones, a token taken for four bytes and a shared beginning counted each
    time; `new_tokens` take half of the most that each may have. `seconds` take a beginning that neighbours share once,
    and follow from `tokens_per_second`; `usd` from the service's price, or the device's price of an hour. Both are None
    where these are not known.
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
    ordered = itertools.pairwise(work.signature for work in in_order([work for work, _ in missing]))
    common_tokens = sum(common_bytes(*pair) // BYTES_PER_TOKEN for pair in ordered)
    speed = tokens_per_second(scope.lake, model)
    seconds = (prompt_tokens - common_tokens + new_tokens) / speed if speed else None
    usd, price = None, price_on(model, date.today())
    if price is not None:
        usd = float(price.exact_usd(prompt_tokens, new_tokens))
    elif model.device_hour_usd is not None and seconds is not None:
        usd = model.device_hour_usd * seconds / _SECONDS_PER_HOUR
    n_results, n_missing = sum(len(work.keys) for work in works), sum(n for _, n in missing)
    return Estimate(n_results, n_missing, prompt_tokens, new_tokens, seconds, usd)


def estimate_latencies(study: Study, lake: Lake, model: Model) -> float | None:
    """Seconds of a model's partition of single_latencies, whose prompts share nothing; None where they are not known.

    Errors: `LakeError` where an input is not made yet.
    """
    speed = tokens_per_second(lake, model)
    if speed is None:
        return None
    plans = {method: Answers().plan(Scope(study, lake, model, method)).items for method in study.methods}
    seconds = 0.0
    for number, asked in enumerate(choose_rounds(plans, study.seed)):
        if number >= N_LEAST and (study.is_quick or seconds >= SECONDS):
            break
        tokens = sum(
            len(prompt.text.encode("utf-8", "replace")) // BYTES_PER_TOKEN + decoding.max_new_tokens // 2
            for steps in asked.turns(study)
            for prompt, decoding in steps
        )
        seconds += tokens / speed * (1 if number else 2)  # the first round is asked twice, to warm up
    return seconds


def tokens_per_second(lake: Lake, model: Model) -> float | None:
    """Prompt and new tokens for each second of the model's device, shared ones left out, over its answers so far.

    Without any, what the model's size and the speed of this machine's processors let expect; None for a service, and
    where a GPU may answer.
    """
    tokens = seconds = 0.0
    for part in lake.partitions("answers"):
        if part.partition("|")[0] == model.name:
            columns = ["prompt_tokens", "new_tokens", "shared_tokens", "device_seconds"]
            rows = lake.read("answers", part, columns)
            read, written, shared, taken = (pc.sum(column).as_py() or 0 for column in rows.columns)
            tokens, seconds = tokens + read + written - shared, seconds + taken
    return tokens / seconds if seconds else _usual_rate(model)


@functools.cache
def _usual_rate(model: Model) -> float | None:
    """Two operations for each parameter and token, at the speed of a product of matrices on this machine's processors."""
    if model.backend != Model.backend:
        return None
    file = read_header(model, find_gguf(model)) if model.is_gguf else None
    n_parameters = model.n_parameters or (file.n_parameters if file else local_parameters(model))
    if n_parameters is None:
        return None
    import torch

    if model.device != "cpu" and torch.cuda.is_available():
        return None
    matrix = torch.rand(_SIDE, _SIDE)
    times = []
    for _ in range(3):
        started = time.perf_counter()
        matrix @ matrix
        times.append(time.perf_counter() - started)
    return _SHARE_OF_PRODUCT * 2 * _SIDE**3 / min(times) / (2 * n_parameters)
