"""A run that streams from a service into a row cache; tests start it as a process and kill it.

python served_run.py <base url> <folder> <n rows> <n samples; 0: greedy> <budget or ->
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from served import GREEDY, WARM

from longtail.generation.backends.openai import OpenAIBackend
from longtail.generation.engine.row_cache import CachedRow, RowCache, row_key
from longtail.generation.engine.task import Generate, Sample
from longtail.storage.fingerprints import prompt_hash
from longtail.study.models import Model, Service
from longtail.transfer.http import RetryPolicy

PRICES = {"prompt_usd_per_million": 1.5, "completion_usd_per_million": 2.0}


def prompts(n: int) -> list[str]:
    return [f"Q: Who wrote book {i}? A:" for i in range(n)]


def run(base_url: str, folder: Path, n: int, n_samples: int, budget_usd: float | None) -> tuple[int, float]:
    """Ask for what the cache lacks, committing each result as it comes; rows and dollars in the cache at the end."""
    model = Model("served", "m", "openai", service=Service(base_url, max_concurrency=6, **PRICES))
    identity = OpenAIBackend.identify(model)
    decoding = WARM if n_samples else GREEDY
    request = Sample(n_samples, 0.5, 15, ("seed",)) if n_samples else Generate(15)
    seeds = [[10 * i + j for j in range(n_samples)] if n_samples else [None] for i in range(n)]
    keys = [
        [row_key(prompt_hash(prompt), identity, request, seed) for seed in seeds[i]]
        for i, prompt in enumerate(prompts(n))
    ]
    backend = OpenAIBackend(model, {}.get, policy=RetryPolicy(30, 0.005, 0.02, read_s=5.0))
    with RowCache(folder, identity, logging.getLogger("test")) as cache:
        found = cache.find(key for row in keys for key in row)
        missing = [i for i in range(n) if any(key not in found for key in keys[i])]
        spent = sum(row.result.cost_usd or 0.0 for row in found.values())
        stream = backend.stream(
            [prompts(n)[i] for i in missing],
            decoding,
            [[seed for seed in seeds[i] if seed is not None] for i in missing] if n_samples else None,
            names=[keys[i][0].hex() for i in missing],
            budget_usd=None if budget_usd is None else budget_usd - spent,
        )
        for at, result in stream:
            if isinstance(result, list):
                rows = zip(keys[missing[at]], result, strict=True)
                cache.store({key: CachedRow(generation, "test", "test") for key, generation in rows})
        found = cache.find(key for row in keys for key in row)
    backend.close()
    return len(found), sum(row.result.cost_usd or 0.0 for row in found.values())


if __name__ == "__main__":
    url, where, n_rows, samples, limit = sys.argv[1:]
    print(
        *run(url, Path(where), int(n_rows), int(samples), None if limit == "-" else float(limit)), flush=True
    )
