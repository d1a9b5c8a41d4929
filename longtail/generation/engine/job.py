"""The computation of one partition: its distinct works, their batches, and how far it is.

Prompts are never all in memory. Each is built once to be hashed here, and once more when its batch comes. Its hash, its
length and a *signature* stay. The lexicographic order of signatures brings prompts that begin alike together: a
signature is the first bytes as they are, then a running CRC-32 at every further step. Two prompts with n bytes in
common agree in the signature up to the last step before n. So all prompts under one set of demonstrations are
neighbours, whatever order their questions have.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from longtail.errors import BackendError
from longtail.generation.backends.base import Decoding, Failure, Identity, Result, Usage
from longtail.generation.engine.row_cache import CachedRow, RowCache, row_key
from longtail.generation.engine.session import ModelSession
from longtail.generation.engine.task import BYTES_PER_TOKEN, Item, ModelInput, Request, part_tokens
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

    item: int
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
    for number, item in enumerate(items):
        prompt, request = item.prompt(), item.request
        digest = prompt.hash()
        work = works.get((digest, request.decoding, request.candidates))
        if work is None:
            content = "".join((*prompt.passages, prompt.text)).encode("utf-8", "surrogatepass")
            work = Work(
                item=number,
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

    def prompt(self, items: Sequence[Item]) -> ModelInput:
        """The prompt, built again."""
        return items[self.work.item].prompt()

    def request(self, items: Sequence[Item]) -> Request:
        """What is asked."""
        return items[self.work.item].request


def missing_of(works: Sequence[Work], there: Mapping[bytes, CachedRow]) -> list[Missing]:
    """The works that lack some part, in their order."""
    lacking_works = []
    for work in works:
        lacking = [(seed, key) for seed, key in zip(work.seeds, work.keys, strict=True) if key not in there]
        if lacking:
            seeds, keys = zip(*lacking, strict=True)
            lacking_works.append(Missing(work, seeds, keys))
    return lacking_works


def sample_seeds(works: Sequence[Missing]) -> list[list[int]] | None:
    """The seeds of each work; None where greedy texts are asked for. One decoding never asks for both."""
    if any(seed is None for missing in works for seed in missing.seeds):
        return None
    return [[seed for seed in missing.seeds if seed is not None] for missing in works]


def keep(
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
