"""Results that a service delivers one by one, each committed before the next is looked at.

A kill -9 can lose no more than the requests under way and the results not yet committed. Their requests are repeated
under the same names, by which a service can know that they were paid for. `max_cost_usd` bounds what one partition
fingerprint is billed, over all its runs: its texts, billed failures, and the most that lost answers can have cost
(except those that a kill -9 lost). Rows that other partitions paid for do not count.
"""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections.abc import Generator, Sequence
from typing import cast, overload

from longtail.errors import BackendError
from longtail.generation.backends.base import (
    Backend,
    Decoding,
    Failure,
    Generation,
    Postponed,
    StreamingBackend,
)
from longtail.generation.engine.batching import Work, in_order
from longtail.generation.engine.items import Item
from longtail.generation.engine.job import Completed, Job, Missing, keep, missing_of, sample_seeds
from longtail.progress import Progress

_ROUNDING_USD = 1e-9
"""Bills are exact and costs of texts are floats: smaller differences do not count."""
Result = list[Generation] | Failure | Postponed


class _Texts(Sequence[str]):
    """The prompts of requests, each built when a backend asks for it: thousands of them wait for their turn."""

    def __init__(self, missing: Sequence[Missing], items: Sequence[Item]) -> None:
        self._missing, self._items = missing, items

    def __len__(self) -> int:
        return len(self._missing)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return _Texts(self._missing[index], self._items)
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

    Errors: `BackendError` in one line where requests had to be postponed, after all others are kept.
    """
    missing = missing_of(in_order(works), done.rows)
    efforts = [one.work.effort(len(one.keys)) for one in missing]
    n_left = sum(len(one.keys) for one in missing)
    progress = Progress(job.log, job.label, n_left, sum(efforts))
    postponed: Postponed | None = None
    service = cast(StreamingBackend, backend)
    losses = _Losses(job, done, service)
    try:
        with contextlib.closing(_results(job, service, decoding, done, missing, items)) as results:
            for index, result in results:
                if isinstance(result, Postponed):
                    postponed = result
                    continue
                n_kept, n_tokens = keep(job, done, [(missing[index], result)])
                n_left -= n_kept
                progress.add(n_kept, efforts[index], n_tokens)
                if isinstance(result, Failure):
                    losses.note()
    finally:
        losses.note()
        progress.done()
    if postponed:
        raise BackendError(_over_budget(job, done, n_left, postponed))


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
        kept = self._done.spent_usd - self._of_texts
        lost = self._backend.spent_usd - self._of_all - kept
        lost = lost if lost > _ROUNDING_USD else 0.0
        if self._before + lost != self._done.lost_usd:
            self._job.cache.note_loss(self._job.origin, self._run, lost)
            self._done.lost_usd = self._before + lost


def _results(
    job: Job,
    backend: StreamingBackend,
    decoding: Decoding,
    done: Completed,
    missing: Sequence[Missing],
    items: Sequence[Item],
) -> Generator[tuple[int, Result], None, None]:
    """The backend's results, with a check that it answers each request exactly once."""
    stream = backend.stream(
        _Texts(missing, items),
        decoding,
        sample_seeds(missing),
        names=[_name(one) for one in missing],
        budget_usd=_budget(job, done),
        is_resumed=bool(done.rows),
    )
    waiting = set(range(len(missing)))
    try:
        for index, result in stream:
            if index not in waiting:
                raise BackendError(
                    f"{job.label}: {job.engine} gave a result that was not asked for ({index})"
                )
            waiting.remove(index)
            yield index, result
    finally:
        # where keeping a result fails, nothing more is asked for
        if isinstance(stream, Generator):
            stream.close()
    if waiting:
        raise BackendError(
            f"{job.label}: {job.engine} gave no result for {len(waiting)} of {len(missing)} requests"
        )


def _name(missing: Missing) -> str:
    """The row key of a greedy text; for samples, which are asked for together, a hash of their keys."""
    if len(missing.keys) == 1:
        return missing.keys[0].hex()
    return hashlib.sha256(b"".join(missing.keys)).hexdigest()


def _budget(job: Job, done: Completed) -> float | None:
    service = job.model.service
    if service is None or service.max_cost_usd is None:
        return None
    return max(0.0, service.max_cost_usd - done.spent_usd - done.lost_usd)


def _over_budget(job: Job, done: Completed, n_left: int, postponed: Postponed) -> str:
    service = job.model.service
    limit = (
        f" of max_cost_usd ${service.max_cost_usd:g}" if service and service.max_cost_usd is not None else ""
    )
    lost = f" (${done.lost_usd:.4f} of it for failures and lost answers)" if done.lost_usd else ""
    return (
        f"{job.label}: ${done.spent_usd + done.lost_usd:.4f}{limit} spent{lost}, {n_left:,} texts left "
        f"({postponed.reason}); what is paid for is kept: raise max_cost_usd of model {job.model.name} in the study, "
        "and run again"
    )
