"""From items to results: the row cache's are taken, the rest is computed in batches fixed by the plan.

Batches are a function of the whole plan's distinct works, never of what happens to be cached. Each is stored in one
transaction before the next begins, so a killed batch leaves nothing and the next run computes it whole: a resumed
partition asks for the same batches as an uninterrupted one. A service's results are stored one by one instead, as
they are paid for by then.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from longtail.errors import BackendError
from longtail.generation.backends.base import Decoding
from longtail.generation.backends.registry import entry
from longtail.generation.engine.batching import (
    Distinct,
    Work,
    batches,
    distinct_works,
)
from longtail.generation.engine.calls import Answerer, Call, Local
from longtail.generation.engine.items import Item, passages_of
from longtail.generation.engine.job import Completed, Job, Missing, keep, missing_of, sample_seeds
from longtail.generation.engine.row_cache import row_key
from longtail.generation.engine.streaming import stream_missing
from longtail.progress import Progress
from longtail.study.backends import PASSAGES, STREAM


def complete(job: Job, items: Sequence[Item]) -> Completed:
    """Compute for each item what the cache lacks; the model loads only then.

    Errors: `BackendError`, `LongtailError` of the cache; what was finished before it stays in the cache.
    """
    done = _from_cache(job, _distinct(job, items))
    n_all = sum(len(work.keys) for work in done.distinct.works)
    if len(done.rows) == n_all:
        return done
    answerer = _answerer(job, done.distinct.works)
    if done.rows:
        job.log.info(
            "%s: %s results, %s of them in the row cache", job.label, f"{n_all:,}", f"{len(done.rows):,}"
        )
    started = time.monotonic()
    for decoding, works in _by_decoding(done.distinct.works).items():
        if decoding is not None and isinstance(answerer, Local) and STREAM in answerer.capabilities:
            stream_missing(job, answerer.backend, decoding, works, done, items)
        else:
            _compute_missing(job, answerer, decoding, works, done, items)
    done.seconds = time.monotonic() - started
    done.usage = answerer.usage()
    return done


def _answerer(job: Job, works: Sequence[Work]) -> Answerer:
    """The loaded model. Errors: `BackendError` where it cannot read the passages that stand apart from prompts."""
    has_passages = any(work.has_passages for work in works)
    if has_passages:
        entry(job.model, PASSAGES)
    answerer = job.session.answerer(job.model)
    if has_passages and PASSAGES not in answerer.capabilities:
        raise BackendError(f"{job.label}: {job.engine} cannot {PASSAGES}, as it is set up")
    return answerer


def _by_decoding(works: Sequence[Work]) -> dict[Decoding | None, list[Work]]:
    """The works that one call of a backend can serve: those of one decoding, or those to be scored."""
    found: dict[Decoding | None, list[Work]] = {}
    for work in works:
        found.setdefault(work.decoding, []).append(work)
    return found


def _distinct(job: Job, items: Sequence[Item]) -> Distinct:
    identity = job.session.identity(job.model)
    with Progress(job.log, f"{job.label}: prompts", len(items)) as progress:
        return distinct_works(
            items,
            lambda digest, request, seed: row_key(digest, identity, request, seed),
            lambda: progress.add(1),
        )


def _from_cache(job: Job, distinct: Distinct) -> Completed:
    found = job.cache.find(key for work in distinct.works for key in work.keys)
    own = [row for row in found.values() if row.origin == job.origin]
    spent = sum(row.result.cost_usd or 0.0 for row in own)
    return Completed(distinct, found, n_resumed=len(own), n_reused=len(found) - len(own), spent_usd=spent)


def _compute_missing(
    job: Job,
    answerer: Answerer,
    decoding: Decoding | None,
    works: Sequence[Work],
    done: Completed,
    items: Sequence[Item],
) -> None:
    planned = enumerate(batches(works, job.model.batch_tokens or answerer.batch_tokens))
    own = [one for place, one in planned if job.shard is None or job.shard.has(place, job.label)]
    waiting = [(missing_of(batch, done.rows), tokens) for batch, tokens in own]
    waiting = [(batch, tokens) for batch, tokens in waiting if batch]
    n_results = sum(len(missing.keys) for batch, _ in waiting for missing in batch)
    with Progress(job.log, job.label, n_results, sum(tokens for _, tokens in waiting)) as progress:
        for place, results in answerer.answers(_call(decoding, batch, items) for batch, _ in waiting):
            batch, tokens = waiting[place]
            if len(results) != len(batch):
                raise BackendError(
                    f"{job.label}: {job.engine} gave {len(results)} results for {len(batch)} prompts"
                )
            n_kept, n_tokens = keep(job, done, list(zip(batch, results, strict=True)))
            progress.add(n_kept, tokens, n_tokens)


def _call(decoding: Decoding | None, batch: Sequence[Missing], items: Sequence[Item]) -> Call:
    """What is asked for a batch; its prompts are built now."""
    prompts = [missing.prompt(items) for missing in batch]
    texts, passages = [prompt.text for prompt in prompts], passages_of(prompts)
    if decoding is not None:
        return Call(decoding, texts, passages, sample_seeds(batch))
    requests = [missing.request(items) for missing in batch]
    candidates = [request.candidates for request in requests]
    return Call(None, texts, passages, candidates=candidates, free=requests[0].free)
