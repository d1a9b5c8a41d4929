"""The plan of a data portrait: how many bits hold so many grams at a given false-positive rate."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from longtail.grounding.texts import Hasher, Texts

WIDTH = 25
"""Characters of a gram (SPEC §9)."""
NORMALISATION = 1
"""Version of the rules by which texts are normalised; another version makes other grams."""
MOST_WORDS = 1 << 13
"""Words of 64 bits in a part: at most 64 KiB, so that it stays in a processor's second cache."""
PARTS_PER_FILE = 1 << 14
"""A file of a portrait has at most 1 GiB."""
CACHED_PARTS = 64
ROOM = 1 << 24
"""Grams that are hashed and sorted together when a portrait is built: two buffers of 128 MiB."""


@dataclass(frozen=True)
class Plan:
    """What all files of a portrait have in common. Portraits of one plan can be merged.

    `n_grams`: distinct grams that it is planned for; `rate`: the planned false-positive rate; `n_bits`: bits that a
    gram sets; `n_parts` and `part_words`: the parts and their words of 64 bits; `parts_per_file`: parts in a file.
    """

    n_grams: int
    rate: float
    n_bits: int
    n_parts: int
    part_words: int
    seed: int
    width: int = WIDTH
    normalisation: int = NORMALISATION
    parts_per_file: int = PARTS_PER_FILE

    @property
    def n_bytes(self) -> int:
        return self.n_parts * self.part_words * 8

    @property
    def n_files(self) -> int:
        return -(-self.n_parts // self.parts_per_file)

    @property
    def is_sorted(self) -> bool:
        """Whether hashes are sorted by part before they are used; a filter in the processor's cache needs no order."""
        return self.n_parts > CACHED_PARTS or self.n_files > 1

    def parts_of(self, file: int) -> range:
        """The parts in one of its files."""
        first = file * self.parts_per_file
        return range(first, min(first + self.parts_per_file, self.n_parts))

    def record(self) -> dict[str, Any]:
        """The plan as it is written to files."""
        return asdict(self)


def planned(n_grams: int, rate: float, seed: int, parts_per_file: int = PARTS_PER_FILE) -> Plan:
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
