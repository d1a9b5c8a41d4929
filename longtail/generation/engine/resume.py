"""From items to results: the row cache's are taken, the rest is computed in batches fixed by the plan.

Batches are a function of the whole plan's distinct works, never of what happens to be cached. Each is stored in one
transaction before the next begins, so a killed batch leaves nothing and the next run computes it whole: a resumed
partition asks for the same batches as an uninterrupted one.

A service's results are stored one by one instead, as they are paid for by then: each is committed before the next is
looked at. A kill -9 can lose no more than the requests under way and the results not yet committed. Their requests are
repeated under the same names, by which a service can know that they were paid for. `max_cost_usd` bounds what one
partition fingerprint is billed, over all its runs: its texts, billed failures, and the most that lost answers can have
cost (except those that a kill -9 lost). Rows that other partitions paid for do not count.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Generator, Sequence
from typing import Any, cast

from longtail.errors import BackendError
from longtail.generation.backends.base import (
    Backend,
    Decoding,
    Failure,
    Postponed,
    StreamingBackend,
    entry,
)
from longtail.generation.engine.job import (
    Completed,
    Distinct,
    Job,
    Missing,
    Work,
    batches,
    distinct_works,
    in_order,
    keep,
    missing_of,
    sample_seeds,
)
from longtail.generation.engine.session import Answerer, Call, Local
from longtail.generation.engine.task import Item, passages_of
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
    groups: dict[Decoding | None, list[Work]] = {}
    for work in works:
        groups.setdefault(work.decoding, []).append(work)
    return groups


def _distinct(job: Job, items: Sequence[Item]) -> Distinct:
    with Progress(job.log, f"{job.label}: prompts", len(items)) as progress:
        return distinct_works(items, job.session.identity(job.model), lambda: progress.add(1))


def _from_cache(job: Job, distinct: Distinct) -> Completed:
    rows = job.cache.find(key for work in distinct.works for key in work.keys)
    resumed = [row for row in rows.values() if row.origin == job.origin]
    spent = sum(row.result.cost_usd or 0.0 for row in resumed)
    return Completed(
        distinct, rows, n_resumed=len(resumed), n_reused=len(rows) - len(resumed), spent_usd=spent
    )


def _compute_missing(
    job: Job,
    answerer: Answerer,
    decoding: Decoding | None,
    works: Sequence[Work],
    done: Completed,
    items: Sequence[Item],
) -> None:
    planned = enumerate(batches(works, job.model.batch_tokens or answerer.batch_tokens))
    of_shard = [batch for place, batch in planned if job.shard is None or job.shard.has(place, job.label)]
    waiting = [(missing_of(batch, done.rows), tokens) for batch, tokens in of_shard]
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


_ROUNDING_USD = 1e-9
"""Bills are exact and costs of texts are floats: smaller differences do not count."""


class _Texts(Sequence[str]):
    """The prompts of requests, each built when a backend asks for it: thousands of them wait for their turn."""

    def __init__(self, missing: Sequence[Missing], items: Sequence[Item]) -> None:
        self._missing, self._items = missing, items

    def __len__(self) -> int:
        return len(self._missing)

    def __getitem__(self, index: Any) -> Any:
        return self._missing[index].prompt(self._items).text


def stream_missing(
    job: Job,
    backend: Backend,
    decoding: Decoding,
    works: Sequence[Work],
    done: Completed,
    items: Sequence[Item],
) -> None:
    """Ask for what the cache lacks, neighbours together, until all is there or the budget is spent.

    Errors: `BackendError` in one line where requests had to be postponed, after all others are kept, and where the
    backend does not answer each request exactly once.
    """
    missing = missing_of(in_order(works), done.rows)
    efforts = [part.work.effort(len(part.keys)) for part in missing]
    n_left = sum(len(part.keys) for part in missing)
    progress = Progress(job.log, job.label, n_left, sum(efforts))
    unanswered = set(range(len(missing)))
    postponed: Postponed | None = None
    service = cast(StreamingBackend, backend)
    losses = _Losses(job, done, service)
    results = service.stream(
        _Texts(missing, items),
        decoding,
        sample_seeds(missing),
        names=[_name(part) for part in missing],
        budget_usd=_budget(job, done),
        is_resumed=bool(done.rows),
    )
    try:
        for index, result in results:
            if index not in unanswered:
                raise BackendError(
                    f"{job.label}: {job.engine} gave a result that was not asked for ({index})"
                )
            unanswered.remove(index)
            if isinstance(result, Postponed):
                postponed = result
                continue
            n_kept, n_tokens = keep(job, done, [(missing[index], result)])
            n_left -= n_kept
            progress.add(n_kept, efforts[index], n_tokens)
            if isinstance(result, Failure):
                losses.note()
    finally:
        if isinstance(results, Generator):
            results.close()  # where keeping a result fails, nothing more is asked for
        losses.note()
        progress.done()
    if postponed:
        raise BackendError(_over_budget(job, done, n_left, postponed))
    if unanswered:
        raise BackendError(
            f"{job.label}: {job.engine} gave no result for {len(unanswered)} of {len(missing)} requests"
        )


class _Losses:
    """Notes in the row cache, for later runs, what the service has billed without a text that was kept.

    The bills of requests under way count as lost: if this process is killed now, they are.
    """

    def __init__(self, job: Job, done: Completed, backend: StreamingBackend) -> None:
        self._job, self._done, self._backend = job, done, backend
        self._before = done.lost_usd = job.cache.lost_usd(job.origin)
        self._of_texts, self._of_all = done.spent_usd, backend.spent_usd
        self._run = uuid.uuid4().hex

    def note(self) -> None:
        """Bring the note up to date. Errors: `LongtailError` of the row cache."""
        paid = self._done.spent_usd - self._of_texts
        lost = self._backend.spent_usd - self._of_all - paid
        lost = lost if lost > _ROUNDING_USD else 0.0
        if self._before + lost != self._done.lost_usd:
            self._job.cache.note_loss(self._job.origin, self._run, lost)
            self._done.lost_usd = self._before + lost


def _name(missing: Missing) -> str:
    """The row key of a greedy text; for samples, which are asked for together, a hash of their keys."""
    if len(missing.keys) == 1:
        return missing.keys[0].hex()
    return hashlib.sha256(b"".join(missing.keys)).hexdigest()


def _most_usd(job: Job) -> float | None:
    return job.model.service.max_cost_usd if job.model.service else None


def _budget(job: Job, done: Completed) -> float | None:
    most = _most_usd(job)
    return None if most is None else max(0.0, most - done.spent_usd - done.lost_usd)


def _over_budget(job: Job, done: Completed, n_left: int, postponed: Postponed) -> str:
    most = _most_usd(job)
    limit = "" if most is None else f" of max_cost_usd ${most:g}"
    lost = f" (${done.lost_usd:.4f} of it for failures and lost answers)" if done.lost_usd else ""
    return (
        f"{job.label}: ${done.spent_usd + done.lost_usd:.4f}{limit} spent{lost}, {n_left:,} texts left "
        f"({postponed.reason}); what is paid for is kept: raise max_cost_usd of model {job.model.name} in the study, "
        "and run again"
    )
