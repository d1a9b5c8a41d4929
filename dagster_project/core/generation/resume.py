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
_NEW_TEXT = 60
"""Characters of prompt that cost as much as generating, for the estimate of the time left."""


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


@dataclass
class Completed:
    """The generations of a plan, by prompt hash, and those that failed.

    `n_computed` were generated now; `n_resumed` came from the cache and had been generated for this same
    partition fingerprint (by a run that was killed, say); `n_reused` had been generated for another one.
    `seconds` is the time of generating; `usage` is None where the model was not needed.
    """

    rows: dict[str, CachedRow] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    n_computed: int = 0
    n_resumed: int = 0
    n_reused: int = 0
    seconds: float = 0.0
    usage: Usage | None = None


def complete_prompts(job: Job, texts: Mapping[str, str]) -> Completed:
    """Generate for each of `texts` (prompt hash → prompt) what the cache lacks; the model loads only then.

    Errors: `BackendError`, `LongtailError` of the cache; batches finished before it stay in the cache.
    """
    identity = job.session.identity(job.model)
    keys = {digest: row_key(digest, identity, job.decoding) for digest in texts}
    done = _from_cache(job, keys)
    missing = len(texts) - len(done.rows)
    if not missing:
        return done
    backend = job.session.backend(job.model)
    job.log.info("%s: %s prompts, %s of them in the row cache", job.label, len(texts), len(done.rows))
    started = time.monotonic()
    work = {digest: len(text) + _NEW_TEXT for digest, text in texts.items() if digest not in done.rows}
    progress = Progress(job.label, missing, sum(work.values()), job.log)
    for batch in batches(texts, job.model.batch_tokens):
        todo = [digest for digest in batch if digest in work]
        if todo:
            results = backend.generate([texts[digest] for digest in todo], job.decoding)
            _keep(job, done, keys, todo, results)
            progress.advance(len(todo), sum(work[digest] for digest in todo))
    done.seconds = time.monotonic() - started
    done.usage = backend.usage()
    return done


def _from_cache(job: Job, keys: Mapping[str, bytes]) -> Completed:
    cached = job.cache.find(keys.values())
    rows = {digest: cached[key] for digest, key in keys.items() if key in cached}
    n_resumed = sum(row.origin == job.origin for row in rows.values())
    return Completed(rows, n_resumed=n_resumed, n_reused=len(rows) - n_resumed)


def _keep(
    job: Job,
    done: Completed,
    keys: Mapping[str, bytes],
    todo: Sequence[str],
    results: Sequence[Generation | Failure],
) -> None:
    """Store one batch's results and count them; what the cache then holds counts, not what was computed."""
    identity = job.session.identity(job.model)
    engine = f"{identity.engine} {identity.engine_version}"
    if len(results) != len(todo):
        raise BackendError(f"{job.label}: {engine} gave {len(results)} results for {len(todo)} prompts")
    generated: dict[bytes, CachedRow] = {}
    for digest, result in zip(todo, results, strict=True):
        if isinstance(result, Generation):
            generated[keys[digest]] = CachedRow(result, engine, job.origin)
        else:
            done.failures[digest] = result
    stored = job.cache.store(generated)
    done.rows.update((digest, stored[keys[digest]]) for digest in todo if keys[digest] in stored)
    done.n_computed += len(generated)


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
