"""From items to distinct works, and from works to batches: functions of the whole plan alone.

Prompts are never all in memory. Each is built once to be hashed here, and once more when its batch comes. Its hash, its
length and a *signature* stay. The lexicographic order of signatures brings prompts that begin alike together: a
signature is the first bytes as they are, then a running CRC-32 at every further step. Two prompts with n bytes in
common agree in the signature up to the last step before n. So all prompts under one set of demonstrations are
neighbours, whatever order their questions have.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from longtail.generation.backends.base import Decoding
from longtail.generation.engine.items import BYTES_PER_TOKEN, Item, Request, part_tokens

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


KeyOf = Callable[[str, Request, int | None], bytes]
"""From a prompt's hash, a request and the seed of a part to the row cache's key."""


def distinct_works(items: Sequence[Item], key_of: KeyOf, tick: Callable[[], None]) -> Distinct:
    """Hash every item's prompt; parts of equal prompt, request and seed share a key. `tick` is called once per item."""
    found: dict[tuple[object, ...], Work] = {}
    of_item: list[Work] = []
    keys: list[tuple[bytes, ...]] = []
    for number, item in enumerate(items):
        prompt, request = item.prompt(), item.request
        digest = prompt.hash()
        work = found.get((digest, request.decoding, request.candidates))
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
            found[digest, request.decoding, request.candidates] = work
        for seed in request.seeds:
            if seed not in work.seeds:
                work.seeds.append(seed)
                work.keys.append(key_of(digest, request, seed))
        of_item.append(work)
        keys.append(tuple(work.keys[work.seeds.index(seed)] for seed in request.seeds))
        tick()
    return Distinct(list(found.values()), of_item, keys)


def signature(content: bytes) -> bytes:
    """The bytes by which prompts are ordered: prompts that begin alike have signatures that begin alike."""
    parts = [content[:_HEAD].ljust(_HEAD, b"\0")]
    crc = zlib.crc32(content[:_HEAD])
    for start in range(_HEAD, min(len(content) - _STEP, _HEAD + _STEP * (_STEPS - 1)) + 1, _STEP):
        crc = zlib.crc32(content[start : start + _STEP], crc)
        parts.append(crc.to_bytes(_CRC, "big"))
    return b"".join(parts)


def shared_bytes(left: bytes, right: bytes) -> int:
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
        shared = shared_bytes(before, work.signature) // BYTES_PER_TOKEN
        tokens = max(1, work.effort(n) - shared)
        before = work.signature
        if batch and (total + tokens > 2 * batch_tokens or n_parts + n > _MAX_PARTS):
            yield batch, total
            batch, total, n_parts = [], 0, 0
        batch.append(work)
        total, n_parts = total + tokens, n_parts + n
    if batch:
        yield batch, total
