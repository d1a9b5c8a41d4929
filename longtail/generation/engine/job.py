"""The computation of one partition: what it needs, and how far it is."""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from longtail.errors import BackendError
from longtail.generation.backends.base import Failure, Result, Usage
from longtail.generation.engine.batching import Distinct, Work
from longtail.generation.engine.items import Item, ModelInput, Request
from longtail.generation.engine.row_cache import CachedRow, RowCache
from longtail.generation.engine.session import ModelSession
from longtail.study.models import Model


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
    found = []
    for work in works:
        lacking = [(seed, key) for seed, key in zip(work.seeds, work.keys, strict=True) if key not in there]
        if lacking:
            seeds, keys = zip(*lacking, strict=True)
            found.append(Missing(work, seeds, keys))
    return found


def sample_seeds(some: Sequence[Missing]) -> list[list[int]] | None:
    """The seeds of each work; None where greedy texts are asked for. One decoding never asks for both."""
    if any(seed is None for missing in some for seed in missing.seeds):
        return None
    return [[seed for seed in missing.seeds if seed is not None] for missing in some]


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
        for key, one in zip(missing.keys, result, strict=True):
            computed[key] = CachedRow(one, job.engine, job.origin)
            n_tokens += one.prompt_tokens - one.shared_tokens + one.new_tokens
    done.rows.update(job.cache.store(computed))
    done.n_computed += len(computed)
    done.n_tokens += n_tokens
    done.spent_usd += sum(row.result.cost_usd or 0.0 for row in computed.values())
    return sum(len(missing.keys) for missing, _ in results), n_tokens
