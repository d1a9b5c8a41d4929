"""Data portraits: a Bloom filter of the 25-grams of a corpus, in files that are mapped into memory.

A plan says how many bits hold so many grams at a given false-positive rate. A portrait is a folder with one file per
range of parts. Each file appears whole or not at all, so a killed build goes on after its last whole file. Files of the
same plan and of the same texts are equal byte for byte, in whatever order and pieces the texts came: bits are only ever
set. A file ends with a CRC-32 of all its bytes before. It is checked whenever the file is opened: that takes a fifth of a
second per GiB, and look-ups then find the file in memory.
"""

from __future__ import annotations

import json
import logging
import math
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from longtail.errors import LakeError
from longtail.storage.files import atomic_file

NONE = np.empty(0, np.uint32)
"""An array that a compiled loop need not fill."""


@dataclass(frozen=True)
class Texts:
    """Texts, one after the other. `data`: uint8; `offsets`: int64[n + 1], where each begins."""

    data: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of_arrow(cls, column: pa.Array) -> Texts:
        """A column of texts, without a copy of its bytes; null is an empty text."""
        if not len(column):
            return cls(np.empty(0, np.uint8), np.zeros(1, np.int64))
        column = column.cast(pa.large_string())
        _, offsets, data = column.buffers()
        places = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
        return cls(np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8), places)

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True)
class Piece:
    """Hashes of some grams, in order. `counts[i]`: the grams of text `first_text` + i among them. `is_open`: the last
    text goes on in the next piece. `firsts`, `lasts`: where a gram's characters are in its text, before normalisation.
    """

    hashes: np.ndarray
    firsts: np.ndarray
    lasts: np.ndarray
    first_text: int
    counts: np.ndarray
    is_open: bool


class Hasher:
    """Hashes grams into buffers of `room` grams, which every piece uses again."""

    def __init__(self, seed: int, room: int, *, has_places: bool = False) -> None:
        self._seed = np.uint64(seed)
        self._hashes = np.empty(room, np.uint64)
        self._firsts = np.empty(room if has_places else 0, np.uint32)
        self._lasts = np.empty(room if has_places else 0, np.uint32)

    def pieces(self, texts: Texts) -> Iterator[Piece]:
        """The grams of texts in their order; at least one piece where there is a text."""
        for begins, text, n, counts, is_open in self._fill_buffer(texts, 0):
            yield Piece(
                self._hashes[:n],
                self._firsts[:n],
                self._lasts[:n],
                begins,
                counts[begins : text + 1],
                is_open,
            )

    def full_pieces(self, batches: Iterable[Texts]) -> Iterator[np.ndarray]:
        """The hashes of all batches, in as few pieces as fit; a piece may hold grams of many batches."""
        n = 0
        for texts in batches:
            for _, _, filled, _, is_full in self._fill_buffer(texts, n):
                n = filled
                if is_full:
                    yield self._hashes[:n]
                    n = 0
        if n:
            yield self._hashes[:n]

    def _fill_buffer(self, texts: Texts, filled: int) -> Iterator[tuple[int, int, int, np.ndarray, bool]]:
        """(first text, last text, hashes in the buffer, grams of each text, whether there is more to read)."""
        from longtail.grounding import kernels

        state = np.zeros(kernels.STATE, np.uint64)
        text, at = 0, int(texts.offsets[0])
        while text < len(texts):
            begins, counts = text, np.zeros(len(texts), np.int64)
            text, at, n = kernels.hash_grams(
                texts.data,
                texts.offsets,
                text,
                at,
                state,
                self._seed,
                self._hashes[filled:],
                self._firsts[filled:],
                self._lasts[filled:],
                counts,
            )
            is_full = text < len(texts)
            yield begins, min(text, len(texts) - 1), filled + n, counts, is_full
            filled = 0


WIDTH = 25
"""Characters of a gram (SPEC §9)."""
NORMALISATION = 1
"""Version of the rules by which texts are normalised; another version makes other grams."""
MOST_WORDS = 1 << 13
"""Words of 64 bits in a part: at most 64 KiB, so that it stays in a processor's second cache."""
PARTS_PER_FILE = 1 << 14
"""A file of a portrait has at most 1 GiB."""
ROOM = 1 << 24
"""Grams that are hashed and sorted together when a portrait is built: two buffers of 128 MiB."""
MEMORY = 8 << 30
"""Bytes of a filter that are built in one pass over the texts."""
_MAGIC = "longtail portrait 3"
_HEADER = 4096
_FOOTER = 4
_AGAIN = "delete it and materialise asset indexes/portrait"
Corpus = Callable[[], Iterable[Texts]]
"""Yields all texts; called once per pass."""


@dataclass(frozen=True)
class Plan:
    """What all files of a portrait have in common.

    `n_grams`: distinct grams that it is planned for; `rate`: the planned false-positive rate; `n_bits`: bits that a
    gram sets; `n_parts` and `part_words`: the parts and their words of 64 bits; `parts_per_file`: parts in a file.
    """

    n_grams: int
    rate: float
    n_bits: int
    n_parts: int
    part_words: int
    seed: int
    parts_per_file: int = PARTS_PER_FILE

    @property
    def n_bytes(self) -> int:
        return self.n_parts * self.part_words * 8

    @property
    def n_files(self) -> int:
        return -(-self.n_parts // self.parts_per_file)

    def parts_of(self, file: int) -> range:
        first = file * self.parts_per_file
        return range(first, min(first + self.parts_per_file, self.n_parts))


def plan_portrait(n_grams: int, rate: float, seed: int, parts_per_file: int = PARTS_PER_FILE) -> Plan:
    """The smallest portrait for `n_grams` distinct grams; its parts have the same size.

    A gram sets k = −log2(rate) bits, rounded. If a share s of the bits is set, the rate is s^k, so s = rate^(1/k), and
    −k·n / ln(1 − s) bits are needed.
    """
    n_bits = max(1, round(-math.log2(rate)))
    needed = -n_bits * n_grams / math.log1p(-(rate ** (1 / n_bits)))
    n_parts = max(1, math.ceil(needed / (64 * MOST_WORDS)))
    part_words = max(1, math.ceil(needed / (64 * n_parts)))
    return Plan(n_grams, rate, n_bits, n_parts, part_words, seed, parts_per_file=parts_per_file)


def count_grams(batches: Iterable[Texts], seed: int, room: int = ROOM) -> tuple[int, int]:
    """(all grams, distinct grams) of texts; the second is an estimate with a standard error of 0.2 %."""
    from longtail.grounding import kernels

    registers = np.zeros(kernels.REGISTERS, np.uint8)
    n = 0
    for hashes in Hasher(seed, room).full_pieces(batches):
        kernels.sketch(registers, hashes)
        n += len(hashes)
    return n, min(n, round(_distinct(registers)))


def _distinct(registers: np.ndarray) -> float:
    """The estimate of a HyperLogLog sketch without bias at any number (Ertl 2017, arXiv:1702.01284, algorithm 6)."""
    n_registers = len(registers)
    most = 64 - int(math.log2(n_registers))
    counts = np.bincount(registers, minlength=most + 2)
    total = n_registers * _tau(1 - counts[most + 1] / n_registers)
    for rank in range(most, 0, -1):
        total = (total + counts[rank]) / 2
    total += n_registers * _sigma(counts[0] / n_registers)
    return n_registers / (2 * math.log(2)) * n_registers / total


def _sigma(share: float) -> float:
    """Σ share^(2^k) · 2^(k−1), plus share: what empty registers add."""
    if share == 1:
        return math.inf
    weight, total, before = 1.0, share, -1.0
    while total != before:
        share, before = share * share, total
        total += share * weight
        weight *= 2
    return total


def _tau(share: float) -> float:
    """What full registers add."""
    if share in (0, 1):
        return 0.0
    weight, total, before = 1.0, 1 - share, -1.0
    while total != before:
        share, before = math.sqrt(share), total
        weight /= 2
        total -= (1 - share) ** 2 * weight
    return total / 3


@dataclass(frozen=True)
class Portrait:
    """An opened portrait. `files`: of each its range of parts, and its bits as uint64."""

    plan: Plan
    files: tuple[tuple[range, np.ndarray], ...]

    def finder(self, room: int) -> Callable[[np.ndarray], np.ndarray]:
        """A function from at most `room` hashes to whether each is a member; it uses its buffers again at every call."""
        from longtail.grounding import kernels

        plan, members = self.plan, np.empty(room, np.bool_)
        n_parts, none = np.uint64(plan.n_parts), np.uint64(0)
        other, order, other_order = (np.empty(room, kind) for kind in (np.uint64, np.uint32, np.uint32))

        def find(hashes: np.ndarray) -> np.ndarray:
            places = order[: len(hashes)]
            places[:] = np.arange(len(hashes), dtype=np.uint32)
            kernels.sort_by_part(hashes, places, n_parts, none, n_parts, other, other_order)
            for parts, words in self.files:
                begin, end = (_first_in(hashes, plan, part) for part in (parts.start, parts.stop))
                kernels.are_set(
                    words, hashes[begin:end], n_parts, np.uint64(parts.start), plan.n_bits,
                    plan.part_words, places[begin:end], members,
                )  # fmt: skip
            return members[: len(hashes)]

        return find


def build(
    folder: Path, plan: Plan, corpus: Corpus, log: logging.Logger, memory: int = MEMORY, room: int = ROOM
) -> None:
    """Write the files of a portrait: as many in one pass over the texts as the memory allows, unless they are there.

    Errors: `LakeError` if one cannot be written.
    """
    at_once = max(1, memory // (plan.parts_per_file * plan.part_words * 8))
    for first in range(0, plan.n_files, at_once):
        group = range(first, min(first + at_once, plan.n_files))
        if all(_is_whole(folder, plan, file) for file in group):
            continue
        parts = range(plan.parts_of(group[0]).start, plan.parts_of(group[-1]).stop)
        words = np.zeros(len(parts) * plan.part_words, np.uint64)
        _fill(words, plan, parts, Hasher(plan.seed, room).full_pieces(corpus()))
        for file in group:
            file_parts = plan.parts_of(file)
            begin = (file_parts.start - parts.start) * plan.part_words
            _write(folder, plan, file, words[begin : begin + len(file_parts) * plan.part_words])
            log.info("portrait: file %d of %d is written", file + 1, plan.n_files)


def open_portrait(folder: Path) -> Portrait:
    """Map a portrait into memory.

    Errors: `LakeError` naming the file that is missing, cut, changed, or of another plan than the first one.
    """
    plan = _read_plan(path_of(folder, 0))
    return Portrait(plan, tuple(_open_file(folder, plan, number) for number in range(plan.n_files)))


def read_plan(folder: Path) -> Plan | None:
    """The plan of a portrait, if its first file is whole."""
    try:
        plan = _read_plan(path_of(folder, 0))
    except LakeError:
        return None
    return plan if _is_whole(folder, plan, 0) else None


def path_of(folder: Path, file: int) -> Path:
    return folder / f"{file:05}.portrait"


def _read_plan(path: Path) -> Plan:
    """The plan in the header of one file. Errors: `LakeError` where it is missing or is no file of a portrait."""
    if not path.is_file():
        raise LakeError(f"{path} is missing: materialise asset indexes/portrait first")
    try:
        with path.open("rb") as file:
            first, text = file.read(_HEADER).decode().split("\n")[:2]
        if first == _MAGIC:
            return Plan(**json.loads(text)["plan"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise LakeError(f"{path} is no file of a portrait: {_AGAIN}")


def _open_file(folder: Path, plan: Plan, number: int) -> tuple[range, np.ndarray]:
    path, parts = path_of(folder, number), plan.parts_of(number)
    if _read_plan(path) != plan:
        raise LakeError(f"{path} is of another portrait than {path_of(folder, 0).name}; {_AGAIN}")
    n_words, size = len(parts) * plan.part_words, path.stat().st_size
    expected = _HEADER + n_words * 8 + _FOOTER
    if size != expected:
        raise LakeError(f"{path} is cut: {size:,} bytes instead of {expected:,}; {_AGAIN}")
    data = np.memmap(path, np.uint8, mode="r")
    if zlib.crc32(data[:-_FOOTER].data) != int.from_bytes(data[-_FOOTER:].tobytes()):
        raise LakeError(f"{path} has changed since it was written: its checksum is another; {_AGAIN}")
    return parts, data[_HEADER:-_FOOTER].view(np.uint64)


def _is_whole(folder: Path, plan: Plan, file: int) -> bool:
    try:
        _open_file(folder, plan, file)
    except LakeError:
        return False
    return True


def _fill(words: np.ndarray, plan: Plan, parts: range, pieces: Iterable[np.ndarray]) -> None:
    """Set the bits of all grams that belong to `parts`."""
    from longtail.grounding import kernels

    n_parts, first, n_here = (np.uint64(n) for n in (plan.n_parts, parts.start, len(parts)))
    other = NONE.astype(np.uint64)
    for hashes in pieces:
        other = other if len(other) >= len(hashes) else np.empty(len(hashes), np.uint64)
        n = kernels.sort_by_part(hashes, NONE, n_parts, first, n_here, other, NONE)
        kernels.set_bits(words, hashes[:n], n_parts, first, plan.n_bits, plan.part_words)


def _write(folder: Path, plan: Plan, number: int, words: np.ndarray) -> None:
    first = f"{_MAGIC}\n{json.dumps({'plan': asdict(plan)})}\n".encode().ljust(_HEADER)
    with atomic_file(path_of(folder, number)) as temporary, temporary.open("wb") as file:
        file.write(first)
        file.write(words.data)
        file.write(zlib.crc32(words.data, zlib.crc32(first)).to_bytes(_FOOTER))


def _first_in(hashes: np.ndarray, plan: Plan, part: int) -> int:
    """The place of the first hash of `part` or a later one, in hashes that are sorted by part."""
    return bisect_left(range(len(hashes)), part, key=lambda i: (int(hashes[i]) >> 32) * plan.n_parts >> 32)
