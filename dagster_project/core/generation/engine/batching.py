"""From planned rows to distinct requests, and from requests to batches: functions of the whole plan alone.

What belongs here: deduplication, order, batches. What does not: what is cached already, and generating
(`resume`).

Prompt texts are never all in memory: each is built once to be hashed here, and once more when its batch comes.
What stays of it is its hash, its length and a *signature*, whose lexicographic order brings prompts that begin
alike together: the first bytes as they are, then a running CRC-32 at every further step. Two prompts with n
bytes in common agree in the signature up to the last step before n, so that all prompts under one set of
demonstrations are neighbours, whatever order their questions have.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dagster_project.core.generation.backends.base import Decoding

_HEAD = 64
_STEP = 128
_STEPS = 256
"""Bytes of a prompt that its signature holds, bytes between the CRCs after them, and how many of these."""
_CRC = 4
_BYTES_PER_TOKEN = 4
_MAX_ROWS = 1024
_NEW_SHARE = 2
"""A row is taken to generate this part of its tokens at most, for the size of batches and the time left."""


class Prompted(Protocol):
    """A row with a prompt that is built when asked for; `sample_seed` None asks for the greedy answer."""

    @property
    def sample_seed(self) -> int | None: ...

    def text(self) -> str: ...


@dataclass(slots=True)
class Request:
    """One distinct prompt: the first row that has it, and the seeds of its samples (None alone: greedy).

    `keys` are the row cache's, one a seed. `size` is the prompt's length in bytes.
    """

    row: int
    digest: bytes
    size: int
    signature: bytes
    seeds: list[int | None] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)


@dataclass(frozen=True)
class Distinct:
    """The distinct requests of a plan, and for each row, in the plan's order, its request and its key."""

    requests: list[Request]
    of_row: list[Request]
    keys: list[bytes]


KeyOf = Callable[[str, int | None], bytes]
"""From a prompt's hash (hexadecimal digits) and a sample's seed to the row cache's key."""


def distinct_requests(rows: Sequence[Prompted], key_of: KeyOf, tick: Callable[[], None]) -> Distinct:
    """Hash every row's prompt; rows of equal prompt and seed share a key. `tick` is called once a row."""
    found: dict[bytes, Request] = {}
    of_row: list[Request] = []
    keys: list[bytes] = []
    for number, row in enumerate(rows):
        content = row.text().encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(content).digest()
        request = found.get(digest)
        if request is None:
            request = found[digest] = Request(number, digest, len(content), signature(content))
        if row.sample_seed not in request.seeds:
            request.seeds.append(row.sample_seed)
            request.keys.append(key_of(digest.hex(), row.sample_seed))
        of_row.append(request)
        keys.append(request.keys[request.seeds.index(row.sample_seed)])
        tick()
    return Distinct(list(found.values()), of_row, keys)


def signature(content: bytes) -> bytes:
    """What decides a prompt's place: equal beginnings, equal beginnings of the signature (collisions aside)."""
    parts = [content[:_HEAD].ljust(_HEAD, b"\0")]
    crc = zlib.crc32(content[:_HEAD])
    for start in range(_HEAD, min(len(content) - _STEP, _HEAD + _STEP * (_STEPS - 1)) + 1, _STEP):
        crc = zlib.crc32(content[start : start + _STEP], crc)
        parts.append(crc.to_bytes(_CRC, "big"))
    return b"".join(parts)


def shared_bytes(left: bytes, right: bytes) -> int:
    """Bytes that two prompts surely have in common at their beginnings, by their signatures."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if left[:middle] == right[:middle] else (low, middle - 1)
    return low if low < _HEAD else _HEAD + (low - _HEAD) // _CRC * _STEP


def work(request: Request, n: int, decoding: Decoding) -> int:
    """Tokens to compute for `n` texts of a request that shares nothing: an estimate, made from bytes."""
    return request.size // _BYTES_PER_TOKEN + 1 + n * max(1, decoding.max_new_tokens // _NEW_SHARE)


def in_order(requests: Sequence[Request]) -> list[Request]:
    """Requests with their neighbours beside them: the same order however the plan is sorted."""
    return sorted(requests, key=lambda request: (request.signature, request.size, request.digest))


def batches(
    requests: Sequence[Request], decoding: Decoding, batch_tokens: int
) -> Iterator[tuple[list[Request], int]]:
    """Batches of neighbours, and the tokens that each has to compute: about twice `batch_tokens`, or one row.

    What a prompt shares with its neighbour counts as computed. The backend cuts each batch to the device's
    measure; a batch is as much as a kill can lose.
    """
    batch: list[Request] = []
    total, n_rows, before = 0, 0, b""
    for request in in_order(requests):
        n = len(request.seeds)
        shared = shared_bytes(before, request.signature) // _BYTES_PER_TOKEN
        tokens = max(1, work(request, n, decoding) - shared)
        before = request.signature
        if batch and (total + tokens > 2 * batch_tokens or n_rows + n > _MAX_ROWS):
            yield batch, total
            batch, total, n_rows = [], 0, 0
        batch.append(request)
        total, n_rows = total + tokens, n_rows + n
    if batch:
        yield batch, total
