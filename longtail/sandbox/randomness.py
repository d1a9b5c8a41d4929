"""Numbers that depend only on (seed, keys), so that a world of any size can be read in any order."""

from __future__ import annotations

from math import gcd
from statistics import NormalDist

_MASK = (1 << 64) - 1
_NORMAL = NormalDist()


def mix(*keys: int) -> int:
    """64 well-mixed bits from integers (the finaliser of SplitMix64, applied key after key)."""
    state = 0x9E3779B97F4A7C15
    for key in keys:
        state = (state + key * 0xD1342543DE82EF95 + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state


def uniform(*keys: int) -> float:
    """A number in (0, 1), never at either end."""
    return ((mix(*keys) >> 11) + 0.5) / (1 << 53)


def normal(*keys: int) -> float:
    """A standard normal number."""
    return _NORMAL.inv_cdf(uniform(*keys))


class Permutation:
    """A keyed affine permutation of range(size): forwards and backwards in constant time and memory."""

    def __init__(self, size: int, *keys: int) -> None:
        self.size = size
        factor = (int(size * 0.6180339887) + mix(*keys, 1) % max(size // 4, 1)) | 1
        while gcd(factor, size) != 1:
            factor += 1
        self._factor = factor % size or 1
        self._shift = mix(*keys, 2) % size
        self._inverse = pow(self._factor, -1, size) if size > 1 else 0

    def forward(self, index: int) -> int:
        return (index * self._factor + self._shift) % self.size

    def backward(self, index: int) -> int:
        return ((index - self._shift) * self._inverse) % self.size
