"""One partition's generating: what it is done with, and what is done of it.

What belongs here: a job, its results, and keeping them in the row cache. What does not: the order in which they
are computed (`resume`, `streaming`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dagster_project.core.errors import BackendError
from dagster_project.core.generation.backends.base import Decoding, Failure, Generation, Usage
from dagster_project.core.generation.engine.batching import Distinct, Prompted, Request
from dagster_project.core.generation.engine.row_cache import CachedRow, RowCache
from dagster_project.core.generation.engine.session import ModelSession
from dagster_project.core.study.study import Model


@dataclass(frozen=True)
class Job:
    """What the prompts of one partition are generated with.

    `origin` is the partition's fingerprint, `label` its name for people.
    """

    model: Model
    decoding: Decoding
    cache: RowCache
    session: ModelSession
    origin: str
    label: str
    log: logging.Logger

    @property
    def engine(self) -> str:
        """Name and version, as rows tell it."""
        identity = self.session.identity(self.model)
        return f"{identity.engine} {identity.engine_version}"


@dataclass
class Completed:
    """The generations of a plan, by row key, and those that failed.

    `n_computed` were generated now; `n_resumed` came from the cache and had been generated for this same
    partition fingerprint (by a run that was killed, say); `n_reused` had been generated for another one.
    `n_tokens` were read and written now, shared ones left out, in `seconds`. `spent_usd` is what services have
    billed for this fingerprint's texts, now and before; `lost_usd` what they have billed without a text to keep:
    failures, and at most what lost answers cost. `usage` is None where the model was not needed.
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
    """What the cache lacks of one request: the seeds without a row, and their keys."""

    request: Request
    seeds: tuple[int | None, ...]
    keys: tuple[bytes, ...]

    def text(self, rows: Sequence[Prompted]) -> str:
        """The prompt, built again."""
        return rows[self.request.row].text()


def missing_of(requests: Sequence[Request], there: Mapping[bytes, CachedRow]) -> list[Missing]:
    """The requests that lack some row, in their order."""
    found = []
    for request in requests:
        lacking = [
            (seed, key) for seed, key in zip(request.seeds, request.keys, strict=True) if key not in there
        ]
        if lacking:
            seeds, keys = zip(*lacking, strict=True)
            found.append(Missing(request, seeds, keys))
    return found


def sample_seeds(some: Sequence[Missing]) -> list[list[int]] | None:
    """The seeds of each request; None where greedy texts are asked for. A plan asks for the one or the other."""
    if any(seed is None for missing in some for seed in missing.seeds):
        return None
    return [[seed for seed in missing.seeds if seed is not None] for missing in some]


def keep(
    job: Job, done: Completed, results: Sequence[tuple[Missing, list[Generation] | Failure]]
) -> tuple[int, int]:
    """Store results in one transaction, and count them only then; their numbers of texts and of tokens.

    What the cache then holds counts, not what was computed. Failures are kept in memory alone: where the
    partition is computed again, so are they. Errors: `BackendError` where a result has too few or too many texts.
    """
    generated: dict[bytes, CachedRow] = {}
    n_tokens = 0
    for missing, result in results:
        if isinstance(result, Failure):
            done.failures.update(dict.fromkeys(missing.keys, result))
            continue
        if len(result) != len(missing.keys):
            raise BackendError(
                f"{job.label}: {job.engine} gave {len(result)} texts for {len(missing.keys)} seeds"
            )
        for key, generation in zip(missing.keys, result, strict=True):
            generated[key] = CachedRow(generation, job.engine, job.origin)
            n_tokens += generation.prompt_tokens - generation.shared_tokens + generation.new_tokens
    done.rows.update(job.cache.store(generated))
    done.n_computed += len(generated)
    done.n_tokens += n_tokens
    done.spent_usd += sum(row.generation.cost_usd or 0.0 for row in generated.values())
    return sum(len(missing.keys) for missing, _ in results), n_tokens
