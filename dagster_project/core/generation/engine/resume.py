"""From a plan to its generations: the row cache's are taken, the rest computed in batches fixed by the plan.

What belongs here: computing what is missing, batch by batch. What does not: which prompts there are and how
they make batches (`batching`), services (`streaming`), and storage itself.

Batches are a function of the whole plan's distinct prompts, never of what happens to be cached. Each is
stored in one transaction before the next begins, so a killed batch leaves nothing and is computed whole by
the next run: a resumed partition asks for the same batches as an uninterrupted one. What a service delivers
is stored result by result instead, as it is paid for by then.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from dagster_project.core.errors import BackendError
from dagster_project.core.generation.backends.base import Backend, Failure, Generation
from dagster_project.core.generation.engine.batching import Distinct, Prompted, batches, distinct_requests
from dagster_project.core.generation.engine.job import Completed, Job, Missing, keep, missing_of, sample_seeds
from dagster_project.core.generation.engine.progress import Progress
from dagster_project.core.generation.engine.row_cache import row_key
from dagster_project.core.generation.engine.streaming import stream_missing
from dagster_project.core.study.backends import STREAM


def complete_prompts(job: Job, rows: Sequence[Prompted]) -> Completed:
    """Generate for each row what the cache lacks; the model loads only then.

    Errors: `BackendError`, `LongtailError` of the cache; what was finished before it stays in the cache.
    """
    done = _from_cache(job, _distinct(job, rows))
    n_all = sum(len(request.keys) for request in done.distinct.requests)
    if len(done.rows) == n_all:
        return done
    backend = job.session.backend(job.model)
    job.log.info("%s: %s texts, %s of them in the row cache", job.label, f"{n_all:,}", f"{len(done.rows):,}")
    started = time.monotonic()
    if STREAM in backend.capabilities:
        stream_missing(job, backend, done, rows)
    else:
        _compute_missing(job, backend, done, rows)
    done.seconds = time.monotonic() - started
    done.usage = backend.usage()
    return done


def _distinct(job: Job, rows: Sequence[Prompted]) -> Distinct:
    identity = job.session.identity(job.model)
    progress = Progress(f"{job.label}: prompts", len(rows), len(rows), job.log)
    return distinct_requests(
        rows,
        lambda digest, seed: row_key(digest, identity, job.decoding, seed),
        lambda: progress.advance(1, 1),
    )


def _from_cache(job: Job, distinct: Distinct) -> Completed:
    found = job.cache.find(key for request in distinct.requests for key in request.keys)
    own = [row for row in found.values() if row.origin == job.origin]
    spent = sum(row.generation.cost_usd or 0.0 for row in own)
    return Completed(distinct, found, n_resumed=len(own), n_reused=len(found) - len(own), spent_usd=spent)


def _compute_missing(job: Job, backend: Backend, done: Completed, rows: Sequence[Prompted]) -> None:
    planned = batches(done.distinct.requests, job.decoding, job.model.batch_tokens)
    waiting = [(missing_of(batch, done.rows), tokens) for batch, tokens in planned]
    waiting = [(batch, tokens) for batch, tokens in waiting if batch]
    n_texts = sum(len(missing.keys) for batch, _ in waiting for missing in batch)
    progress = Progress(job.label, n_texts, sum(tokens for _, tokens in waiting), job.log)
    for batch, tokens in waiting:
        results = _generate(job, backend, batch, [missing.text(rows) for missing in batch])
        n_kept, n_tokens = keep(job, done, list(zip(batch, results, strict=True)))
        progress.advance(n_kept, tokens, n_tokens)


def _generate(
    job: Job, backend: Backend, batch: Sequence[Missing], texts: list[str]
) -> list[list[Generation] | Failure]:
    results: list[list[Generation] | Failure]
    seeds = sample_seeds(batch)
    if seeds is not None:
        results = backend.sample(texts, job.decoding, seeds)
    else:
        results = [
            result if isinstance(result, Failure) else [result]
            for result in backend.generate(texts, job.decoding)
        ]
    if len(results) != len(batch):
        raise BackendError(f"{job.label}: {job.engine} gave {len(results)} results for {len(batch)} prompts")
    return results
