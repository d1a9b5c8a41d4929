"""The computation of one partition, from items to results: the row cache's are taken, the rest is computed in batches.

Prompts are never all in memory. Each is built once to be hashed here, and once more when its batch comes. Its hash, its
length and a *signature* stay. The lexicographic order of signatures brings prompts that begin alike together: a
signature is the first bytes as they are, then a running CRC-32 at every further step. Two prompts with n bytes in
common agree in the signature up to the last step before n. So all prompts under one set of demonstrations are
neighbours, whatever order their questions have.

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
import logging
import time
import uuid
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from longtail.errors import BackendError
from longtail.generation.backends.base import (
    Decoding,
    Failure,
    Identity,
    Postponed,
    Result,
    StreamingBackend,
    Usage,
    entry,
)
from longtail.generation.engine.row_cache import CachedRow, RowCache, row_key
from longtail.generation.engine.session import Answerer, Call, Local, ModelSession
from longtail.generation.engine.task import BYTES_PER_TOKEN, Item, part_tokens, passages_of
from longtail.progress import Progress
from longtail.study.backends import PASSAGES, STREAM
from longtail.study.models import Model

_HEAD = 64
_STEP = 128
_STEPS = 256
"""Bytes of a prompt that its signature holds, bytes between the CRCs after them, and how many of these."""
_CRC = 4
_MAX_PARTS = 1024


@dataclass(slots=True)
class Work:
    """One distinct prompt with its decoding or its candidates: the first item that has it, and its parts.

    `keys` are the row cache's, one per part; `seeds` are the parts' (None alone for greedy text and for scores).
    `decoding` is None for scores. `size` is the prompt's length in bytes, `part_tokens` the estimate for one part.
    """

    item: Item
    prompt_hash: str
    size: int
    signature: bytes
    decoding: Decoding | None
    part_tokens: int
    has_passages: bool
    seeds: list[int | None] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)

    def effort(self, n_parts: int) -> int:
        """Tokens to compute for some of its parts where nothing is shared: an estimate, made from bytes."""
        return self.size // BYTES_PER_TOKEN + 1 + n_parts * self.part_tokens


@dataclass(frozen=True)
class Distinct:
    """The distinct works of a plan, and for each item, in the plan's order, its work and the keys of its parts."""

    works: list[Work]
    of_item: list[Work]
    keys: list[tuple[bytes, ...]]


def distinct_works(
    items: Sequence[Item], identity: Identity, tick: Callable[[], None] = lambda: None
) -> Distinct:
    """Hash every item's prompt; parts of equal prompt, request and seed share a key. `tick` is called once per item."""
    works: dict[tuple[object, ...], Work] = {}
    of_item: list[Work] = []
    keys: list[tuple[bytes, ...]] = []
    for item in items:
        prompt, request = item.prompt(), item.request
        digest = prompt.hash()
        work = works.get((digest, request.decoding, request.candidates))
        if work is None:
            content = "".join((*prompt.passages, prompt.text)).encode("utf-8", "surrogatepass")
            work = Work(
                item=item,
                prompt_hash=digest,
                size=len(content),
                signature=signature(content),
                decoding=request.decoding,
                part_tokens=part_tokens(request),
                has_passages=bool(prompt.passages),
            )
            works[digest, request.decoding, request.candidates] = work
        for seed in request.seeds:
            if seed not in work.seeds:
                work.seeds.append(seed)
                work.keys.append(row_key(digest, identity, request, seed))
        of_item.append(work)
        keys.append(tuple(work.keys[work.seeds.index(seed)] for seed in request.seeds))
        tick()
    return Distinct(list(works.values()), of_item, keys)


def signature(content: bytes) -> bytes:
    """The bytes by which prompts are ordered: prompts that begin alike have signatures that begin alike."""
    parts = [content[:_HEAD].ljust(_HEAD, b"\0")]
    crc = zlib.crc32(content[:_HEAD])
    for start in range(_HEAD, min(len(content) - _STEP, _HEAD + _STEP * (_STEPS - 1)) + 1, _STEP):
        crc = zlib.crc32(content[start : start + _STEP], crc)
        parts.append(crc.to_bytes(_CRC, "big"))
    return b"".join(parts)


def common_bytes(left: bytes, right: bytes) -> int:
    """The length in bytes up to which two prompts are surely equal, by their signatures."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if left[:middle] == right[:middle] else (low, middle - 1)
    return low if low < _HEAD else _HEAD + (low - _HEAD) // _CRC * _STEP


def in_order(works: Sequence[Work]) -> list[Work]:
    """Works with their neighbours beside them: the same order however the plan is sorted."""
    return sorted(
        works, key=lambda work: (work.signature, work.size, work.prompt_hash, min(work.keys, default=b""))
    )


def batches(works: Sequence[Work], batch_tokens: int) -> Iterator[tuple[list[Work], int]]:
    """Batches of neighbours, and the tokens that each has to compute: about twice `batch_tokens`, or one work.

    What a prompt shares with its neighbour counts as computed. The backend cuts each batch to the device's
    measure; a batch is as much as a kill can lose.
    """
    batch: list[Work] = []
    total, n_parts, before = 0, 0, b""
    for work in in_order(works):
        n = len(work.seeds)
        shared = common_bytes(before, work.signature) // BYTES_PER_TOKEN
        tokens = max(1, work.effort(n) - shared)
        before = work.signature
        if batch and (total + tokens > 2 * batch_tokens or n_parts + n > _MAX_PARTS):
            yield batch, total
            batch, total, n_parts = [], 0, 0
        batch.append(work)
        total, n_parts = total + tokens, n_parts + n
    if batch:
        yield batch, total


@dataclass(frozen=True)
class Shard:
    """The part of every partition's batches that one of `count` processes computes: the one with `number`, from 1."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def has(self, batch: int, label: str) -> bool:
        """Whether the batch at this place is its own. Partitions of few batches do not all begin with shard 1."""
        return (batch + zlib.crc32(label.encode())) % self.count == self.number - 1


@dataclass(frozen=True)
class Job:
    """What the items of one partition are computed with.

    `origin` is the partition's fingerprint, `label` its name for people, `started` a time of `time.monotonic`. With
    `shard`, only its batches are computed.
    """

    model: Model
    cache: RowCache
    session: ModelSession
    origin: str
    label: str
    log: logging.Logger
    started: float = field(default_factory=time.monotonic)
    shard: Shard | None = None

    @property
    def engine(self) -> str:
        """Name and version, as rows state them."""
        identity = self.session.identity(self.model)
        return f"{identity.engine} {identity.engine_version}"


@dataclass
class Completed:
    """The results of a plan by key, and those that failed.

    `n_computed` were computed now. `n_resumed` came from the cache and had been computed for this same partition
    fingerprint (by a run that was killed, say); `n_reused` had been computed for another one. `n_tokens` were read and
    written now, shared ones left out, in `seconds`. `spent_usd` is what services have billed for this fingerprint's
    results, now and before. `lost_usd` is what they have billed without a result to keep: failures, and at most what
    lost answers cost. `usage` is None where the model was not needed.
    """

    distinct: Distinct
    rows: dict[bytes, CachedRow]
    failures: dict[bytes, Failure] = field(default_factory=dict)
    n_computed: int = 0
    n_resumed: int = 0
    n_reused: int = 0
    n_tokens: int = 0
    seconds: float = 0.0
    spent_usd: float = 0.0
    lost_usd: float = 0.0
    usage: Usage | None = None


@dataclass(frozen=True)
class Missing:
    """The parts of one work that the cache lacks: their seeds and keys."""

    work: Work
    seeds: tuple[int | None, ...]
    keys: tuple[bytes, ...]


def missing_of(works: Sequence[Work], there: Mapping[bytes, CachedRow]) -> list[Missing]:
    """The works that lack some part, in their order."""
    lacking_works = []
    for work in works:
        lacking = [(seed, key) for seed, key in zip(work.seeds, work.keys, strict=True) if key not in there]
        if lacking:
            lacking_works.append(Missing(work, *zip(*lacking, strict=True)))
    return lacking_works


def sample_seeds(works: Sequence[Missing]) -> list[list[int]] | None:
    """The seeds of each work; None where greedy texts are asked for. One decoding never asks for both."""
    if any(seed is None for missing in works for seed in missing.seeds):
        return None
    return [[seed for seed in missing.seeds if seed is not None] for missing in works]


def complete(job: Job, items: Sequence[Item]) -> Completed:
    """Compute for each item what the cache lacks; the model loads only then.

    Errors: `BackendError`, `LongtailError` of the cache; what was finished before it stays in the cache.
    """
    with Progress(job.log, f"{job.label}: prompts", len(items)) as progress:
        distinct = distinct_works(items, job.session.identity(job.model), lambda: progress.add(1))
    keys = [key for work in distinct.works for key in work.keys]
    rows = job.cache.find(keys)
    resumed = [row for row in rows.values() if row.origin == job.origin]
    done = Completed(distinct, rows, n_resumed=len(resumed), n_reused=len(rows) - len(resumed))
    done.spent_usd = sum(row.result.cost_usd or 0.0 for row in resumed)
    if len(rows) == len(keys):
        return done
    answerer = _answerer(job, distinct.works)
    if rows:
        job.log.info(
            "%s: %s results, %s of them in the row cache", job.label, f"{len(keys):,}", f"{len(rows):,}"
        )
    started = time.monotonic()
    by_decoding: dict[Decoding | None, list[Work]] = {}
    for work in distinct.works:
        by_decoding.setdefault(work.decoding, []).append(work)
    for decoding, works in by_decoding.items():
        if decoding is not None and isinstance(answerer, Local) and STREAM in answerer.capabilities:
            _stream_missing(job, cast(StreamingBackend, answerer.backend), decoding, works, done)
        else:
            _compute_missing(job, answerer, decoding, works, done)
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


def _compute_missing(
    job: Job, answerer: Answerer, decoding: Decoding | None, works: Sequence[Work], done: Completed
) -> None:
    planned = enumerate(batches(works, job.model.batch_tokens or answerer.batch_tokens))
    of_shard = [batch for place, batch in planned if job.shard is None or job.shard.has(place, job.label)]
    waiting = [(missing_of(batch, done.rows), tokens) for batch, tokens in of_shard]
    waiting = [(batch, tokens) for batch, tokens in waiting if batch]
    n_results = sum(len(missing.keys) for batch, _ in waiting for missing in batch)
    with Progress(job.log, job.label, n_results, sum(tokens for _, tokens in waiting)) as progress:
        for place, results in answerer.answers(_call(decoding, batch) for batch, _ in waiting):
            batch, tokens = waiting[place]
            if len(results) != len(batch):
                raise BackendError(
                    f"{job.label}: {job.engine} gave {len(results)} results for {len(batch)} prompts"
                )
            n_stored, n_tokens = _store(job, done, list(zip(batch, results, strict=True)))
            progress.add(n_stored, tokens, n_tokens)


def _call(decoding: Decoding | None, batch: Sequence[Missing]) -> Call:
    """What is asked for a batch; its prompts are built now."""
    prompts = [missing.work.item.prompt() for missing in batch]
    texts, passages = [prompt.text for prompt in prompts], passages_of(prompts)
    if decoding is not None:
        return Call(decoding, texts, passages, sample_seeds(batch))
    requests = [missing.work.item.request for missing in batch]
    candidates = [request.candidates for request in requests]
    return Call(None, texts, passages, candidates=candidates, free=requests[0].free)


def _store(
    job: Job, done: Completed, results: Sequence[tuple[Missing, Sequence[Result] | Failure]]
) -> tuple[int, int]:
    """Store results in one transaction, and count them only then; their number and that of their tokens.

    What the cache then holds counts, not what was computed. Failures are kept in memory alone: where the
    partition is computed again, so are they. Errors: `BackendError` where a work got too few or too many results.
    """
    computed: dict[bytes, CachedRow] = {}
    n_tokens = 0
    for missing, result in results:
        if isinstance(result, Failure):
            done.failures.update(dict.fromkeys(missing.keys, result))
            continue
        if len(result) != len(missing.keys):
            raise BackendError(
                f"{job.label}: {job.engine} gave {len(result)} texts for {len(missing.keys)} seeds"
            )
        for key, part in zip(missing.keys, result, strict=True):
            computed[key] = CachedRow(part, job.engine, job.origin)
            n_tokens += part.prompt_tokens - part.shared_tokens + part.new_tokens
    done.rows.update(job.cache.store(computed))
    done.n_computed += len(computed)
    done.n_tokens += n_tokens
    done.spent_usd += sum(row.result.cost_usd or 0.0 for row in computed.values())
    return sum(len(missing.keys) for missing, _ in results), n_tokens


_ROUNDING_USD = 1e-9
"""Bills are exact and costs of texts are floats: smaller differences do not count."""


class _Texts(Sequence[str]):
    """The prompts of requests, each built when a backend asks for it: thousands of them wait for their turn."""

    def __init__(self, missing: Sequence[Missing]) -> None:
        self._missing = missing

    def __len__(self) -> int:
        return len(self._missing)

    def __getitem__(self, index: Any) -> Any:
        return self._missing[index].work.item.prompt().text


def _stream_missing(
    job: Job, service: StreamingBackend, decoding: Decoding, works: Sequence[Work], done: Completed
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
    losses = _Losses(job, done, service)
    most = job.model.service.max_cost_usd if job.model.service else None
    results = service.stream(
        _Texts(missing),
        decoding,
        sample_seeds(missing),
        names=[_name(part) for part in missing],
        budget_usd=None if most is None else max(0.0, most - done.spent_usd - done.lost_usd),
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
            n_stored, n_tokens = _store(job, done, [(missing[index], result)])
            n_left -= n_stored
            progress.add(n_stored, efforts[index], n_tokens)
            if isinstance(result, Failure):
                losses.note()
    finally:
        if isinstance(results, Generator):
            results.close()  # where a result cannot be stored, nothing more is asked for
        losses.note()
        progress.done()
    if postponed:
        limit = "" if most is None else f" of max_cost_usd ${most:g}"
        lost = f" (${done.lost_usd:.4f} of it for failures and lost answers)" if done.lost_usd else ""
        raise BackendError(
            f"{job.label}: ${done.spent_usd + done.lost_usd:.4f}{limit} spent{lost}, {n_left:,} texts left "
            f"({postponed.reason}); what is paid for is kept: raise max_cost_usd of model {job.model.name} in the "
            "study, and run again"
        )
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
