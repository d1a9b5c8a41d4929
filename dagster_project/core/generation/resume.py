"""From many prompts to their generations: the row cache's are taken, the rest computed in fixed batches.

What belongs here: deduplication, batches, resuming. What does not: what the prompts mean, and storage itself.

Batches are a function of the whole plan's distinct prompts, never of what happens to be cached. Each is
stored in one transaction before the next begins, so a killed batch leaves nothing and is computed whole by
the next run: a resumed partition asks for the same batches as an uninterrupted one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dagster_project.core.errors import BackendError
from dagster_project.core.generation.base import Decoding, Failure, Generation, Usage
from dagster_project.core.generation.progress import Progress
from dagster_project.core.generation.prompts import prompt_hash
from dagster_project.core.generation.row_cache import CachedRow, RowCache, row_key
from dagster_project.core.generation.session import ModelSession
from dagster_project.core.study import Model

_BYTES_PER_TOKEN = 3
_MAX_BATCH_ROWS = 512


@dataclass(frozen=True)
class Completed:
    """The generations of a plan: by prompt hash, those that failed apart.

    `n_computed` were generated now; `n_resumed` came from the cache and had been generated for this same
    partition fingerprint (by a run that was killed, say); `n_reused` had been generated for another one.
    """

    rows: Mapping[str, CachedRow]
    failures: Mapping[str, Failure]
    n_computed: int
    n_resumed: int
    n_reused: int
    seconds: float
    usage: Usage | None


@dataclass
class _Tally:
    rows: dict[str, CachedRow] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    n_computed: int = 0


def complete_prompts(
    texts: Mapping[str, str],
    model: Model,
    decoding: Decoding,
    cache: RowCache,
    session: ModelSession,
    *,
    origin: str,
    what: str,
    log: logging.Logger,
) -> Completed:
    """Generate for each of `texts` (prompt hash → prompt) what the cache lacks; the model loads only then.

    `origin` is the partition's fingerprint. Errors: `BackendError`; batches finished before it stay in the
    cache.
    """
    identity = session.identity(model)
    keys = {digest: row_key(digest, identity, decoding) for digest in texts}
    cached = cache.find(keys.values())
    tally = _Tally({digest: cached[key] for digest, key in keys.items() if key in cached})
    n_resumed = sum(row.origin == origin for row in tally.rows.values())
    n_reused = len(tally.rows) - n_resumed
    missing = len(texts) - len(tally.rows)
    if tally.rows and missing:
        log.info("%s: %s of %s already in the row cache", what, f"{len(tally.rows):,}", f"{len(texts):,}")
    started = time.monotonic()
    progress = Progress(what, missing, log)
    for batch in batches(texts, model.batch_tokens):
        todo = [digest for digest in batch if digest not in tally.rows]
        if todo:
            _compute(todo, texts, keys, model, decoding, cache, session, origin, tally)
            progress.advance(len(todo))
    seconds = time.monotonic() - started
    usage = session.backend(model).usage() if missing else None
    return Completed(tally.rows, tally.failures, tally.n_computed, n_resumed, n_reused, seconds, usage)


def _compute(
    todo: Sequence[str],
    texts: Mapping[str, str],
    keys: Mapping[str, bytes],
    model: Model,
    decoding: Decoding,
    cache: RowCache,
    session: ModelSession,
    origin: str,
    tally: _Tally,
) -> None:
    backend = session.backend(model)
    engine = f"{backend.identity.engine} {backend.identity.engine_version}"
    results = backend.generate([texts[digest] for digest in todo], decoding)
    if len(results) != len(todo):
        raise BackendError(
            f"model {model.name}: {engine} gave {len(results)} results for {len(todo)} prompts"
        )
    done: dict[bytes, CachedRow] = {}
    for digest, result in zip(todo, results, strict=True):
        if isinstance(result, Generation):
            done[keys[digest]] = CachedRow(result, engine, origin)
        else:
            tally.failures[digest] = result
    stored = cache.store(done)
    tally.n_computed += len(done)
    tally.rows.update((digest, stored[keys[digest]]) for digest in todo if keys[digest] in stored)


def batches(texts: Mapping[str, str], batch_tokens: int) -> list[list[str]]:
    """Prompt hashes in batches of similar length, each of about twice `batch_tokens` padded tokens at most.

    Tokens are estimated from bytes, so that the plan needs no tokenizer; the backend cuts each batch exactly.
    """
    sizes = {digest: len(prompt.encode("utf-8", "surrogatepass")) for digest, prompt in texts.items()}
    planned: list[list[str]] = []
    for digest in sorted(texts, key=lambda d: (sizes[d], d)):
        room = 2 * batch_tokens // (sizes[digest] // _BYTES_PER_TOKEN + 1)
        if not planned or len(planned[-1]) >= min(_MAX_BATCH_ROWS, max(1, room)):
            planned.append([])
        planned[-1].append(digest)
    return planned


def distinct_prompts(prompts: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The hash of each prompt, in order, and the distinct prompts by hash."""
    hashes = [prompt_hash(prompt) for prompt in prompts]
    return hashes, dict(zip(hashes, prompts, strict=True))
