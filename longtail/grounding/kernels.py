"""The compiled loops of data portraits: text to hashes of its 25-grams, and hashes to bits of a Bloom filter.

All compiled loops are in this one file, since numba compiles a kept function again only when the function's own file
changes, not those of the functions it calls.

A text is UTF-8 as Python writes it with `surrogatepass`. It is normalised while it is read (SPEC §9): a run of white
space becomes `\\n` if it begins with a line end (`\\n`, `\\r`), a space if it has no line end, and a space and `\\n`
otherwise; white space at both ends is dropped. These are the rules of SPEC in their order, in one step
(`tests/longtail/grounding/plain_reference.py` has them one by one).

The filter has parts of at most 64 KiB. A hash chooses a part, and all its bits are there, so one gram touches memory
at one place. Hashes are sorted by part first: a filter that is larger than the processor's cache is then read in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

WIDTH = 25
REGISTERS = 1 << 18
"""Of the sketch that counts distinct grams: a standard error of 0.2 %."""

STATE = 2 * WIDTH + 4
_COUNT, _HASH, _PENDING, _READ = range(2 * WIDTH, STATE)
_SPACE, _LINE = np.uint64(1), np.uint64(2)
_BASE = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_NEXT = np.uint64(6364136223846793005)
"""Multiplier of the generator whose numbers are a gram's bits. Bits at equal distances would miss low rates."""
_LEAVING = np.uint64(pow(int(_BASE), WIDTH, 1 << 64))
_RANKS = np.uint64(64 - 18 + 1)
_LAST, _PLACES = np.uint64(WIDTH - 1), np.uint64(WIDTH)
_MOST = 3
"""Grams that one character can complete: itself, after a space and a line end."""


def compile_loop(function: Callable[..., Any], fastmath: bool | set[str] = False) -> Callable[..., Any]:
    """The function as machine code, kept on the disk; where nothing can be kept, each process compiles it again."""
    try:
        made: Callable[..., Any] = numba.njit(cache=True, nogil=True, fastmath=fastmath)(function)
    except RuntimeError:  # no folder for the cache can be written
        made = numba.njit(nogil=True, fastmath=fastmath)(function)
    return made


@compile_loop
def mix_bits(value: np.uint64) -> np.uint64:
    """Spread all bits of a value over all bits (the last step of splitmix64)."""
    value = (value ^ (value >> np.uint64(30))) * _MIX_1
    value = (value ^ (value >> np.uint64(27))) * _MIX_2
    return value ^ (value >> np.uint64(31))


@compile_loop
def is_space(point: int) -> bool:
    """Whether Python's `str.isspace` holds for a code point."""
    if point < 0x85:
        return point == 0x20 or 0x09 <= point <= 0x0D or 0x1C <= point <= 0x1F
    if point < 0x1680:
        return point == 0x85 or point == 0xA0
    return 0x2000 <= point <= 0x200A or point in (0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)


@compile_loop
def code_point(data: np.ndarray, at: int, end: int) -> tuple[int, int]:
    """The code point that begins at byte `at`, and the byte after it. Lone surrogates are code points too."""
    first = int(data[at])
    if first < 0x80:
        return first, at + 1
    n_more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
    point = first & (0x3F >> n_more)
    at += 1
    for _ in range(n_more):
        if at < end:
            point = (point << 6) | (int(data[at]) & 0x3F)
            at += 1
    return point, at


@compile_loop
def hash_grams(
    data: np.ndarray,
    offsets: np.ndarray,
    text: int,
    at: int,
    state: np.ndarray,
    seed: np.uint64,
    hashes: np.ndarray,
    firsts: np.ndarray,
    lasts: np.ndarray,
    counts: np.ndarray,
) -> tuple[int, int, int]:
    """Hash the grams of texts from byte `at` of text `text` on, until `hashes` has no room for another character.

    `data`: bytes of all texts; `offsets`: int64[n + 1]. `state`: uint64[STATE], zeros before the first call; it carries
    an unfinished text over to the next call. `counts`: int64[n], grams of each text, is added to. `firsts` and `lasts`:
    if they are not empty, the place of a gram's first and last character in its text as it was before normalisation.
    Returns (text, byte, number of hashes); text n = all is read.
    """
    n, room, places = 0, len(hashes) - _MOST, len(firsts) > 0
    n_texts = len(offsets) - 1
    while text < n_texts:
        end = offsets[text + 1]
        read, pending, seen, rolled = state[_READ], state[_PENDING], state[_COUNT], state[_HASH]
        slot = seen % np.uint64(WIDTH)
        began = n
        while at < end and n <= room:
            point, at = code_point(data, at, end)
            read += np.uint64(1)
            if is_space(point):
                if point == 0x0A or point == 0x0D:
                    pending |= _LINE
                elif not pending & _LINE:
                    pending |= _SPACE
                continue
            if seen == 0:
                pending = np.uint64(0)
            for step in range(3):
                if step == 0:
                    if not pending & _SPACE:
                        continue
                    given = np.uint64(0x20)
                elif step == 1:
                    if not pending & _LINE:
                        continue
                    given = np.uint64(0x0A)
                else:
                    given = np.uint64(point)
                value = mix_bits((given ^ seed) * _BASE)
                rolled = rolled * _BASE + value - state[slot] * _LEAVING
                state[slot] = value
                place = read if step == 2 else read - np.uint64(1)  # of white space: its last character
                if places:
                    state[_PLACES + slot] = place
                slot = slot + np.uint64(1) if slot < _LAST else np.uint64(0)
                seen += np.uint64(1)
                if seen >= np.uint64(WIDTH):
                    hashes[n] = mix_bits(rolled)
                    if places:
                        firsts[n] = state[_PLACES + slot] - np.uint64(1)
                        lasts[n] = place - np.uint64(1)
                    n += 1
            pending = np.uint64(0)
        counts[text] += n - began
        if at < end:
            state[_READ], state[_PENDING], state[_COUNT], state[_HASH] = read, pending, seen, rolled
            return text, at, n
        state[:] = 0
        text += 1
        if n > room:
            break
    return text, at, n


@compile_loop
def part_of(value: np.uint64, n_parts: np.uint64) -> np.uint64:
    """The part of a hash: all parts are equally likely."""
    return ((value >> np.uint64(32)) * n_parts) >> np.uint64(32)


@compile_loop
def sort_by_part(
    hashes: np.ndarray,
    order: np.ndarray,
    n_parts: np.uint64,
    first: np.uint64,
    n_here: np.uint64,
    other: np.ndarray,
    other_order: np.ndarray,
) -> int:
    """Sort hashes by part, and `order` with them if it is not empty; only hashes of `n_here` parts from `first` stay.

    `other` and `other_order` are of the same sizes, for the steps between. Returns the number that stay.
    """
    low_bits = np.uint64(7)
    n_low = 1 << 7
    n_high = (int(n_here) >> 7) + 1
    low, high = np.zeros(n_low + 1, np.int64), np.zeros(n_high + 1, np.int64)
    has_order = len(order) > 0
    for i in range(len(hashes)):
        part = part_of(hashes[i], n_parts) - first
        if part < n_here:
            low[int(part & np.uint64(n_low - 1)) + 1] += 1
            high[int(part >> low_bits) + 1] += 1
    for i in range(n_low):
        low[i + 1] += low[i]
    for i in range(n_high):
        high[i + 1] += high[i]
    n = low[n_low]
    for i in range(len(hashes)):
        part = part_of(hashes[i], n_parts) - first
        if part < n_here:
            digit = int(part & np.uint64(n_low - 1))
            place = low[digit]
            low[digit] = place + 1
            other[place] = hashes[i]
            if has_order:
                other_order[place] = order[i]
    for i in range(n):
        digit = int((part_of(other[i], n_parts) - first) >> low_bits)
        place = high[digit]
        high[digit] = place + 1
        hashes[place] = other[i]
        if has_order:
            order[place] = other_order[i]
    return n


@compile_loop
def set_bits(
    words: np.ndarray, hashes: np.ndarray, n_parts: np.uint64, first: np.uint64, n_bits: int, part_words: int
) -> None:
    """Set `n_bits` bits of each hash. `words`: uint64, `part_words` for each part from `first` on."""
    words_here, bits_here = np.uint64(part_words), np.uint64(64 * part_words)
    for i in range(len(hashes)):
        part = part_of(hashes[i], n_parts) - first
        base = part * words_here
        value = mix_bits(hashes[i] * _BASE)
        for _ in range(n_bits):
            place = ((value >> np.uint64(32)) * bits_here) >> np.uint64(32)
            words[base + (place >> np.uint64(6))] |= np.uint64(1) << (place & np.uint64(63))
            value = value * _NEXT + _BASE


@compile_loop
def are_set(
    words: np.ndarray,
    hashes: np.ndarray,
    n_parts: np.uint64,
    first: np.uint64,
    n_bits: int,
    part_words: int,
    order: np.ndarray,
    members: np.ndarray,
) -> None:
    """Set `found[order[i]]` to whether all bits of hash i are set; `order` may be empty: then `found[i]`."""
    has_order = len(order) > 0
    words_here, bits_here = np.uint64(part_words), np.uint64(64 * part_words)
    for i in range(len(hashes)):
        part = part_of(hashes[i], n_parts) - first
        base = part * words_here
        value = mix_bits(hashes[i] * _BASE)
        member = True
        for _ in range(n_bits):
            place = ((value >> np.uint64(32)) * bits_here) >> np.uint64(32)
            if not words[base + (place >> np.uint64(6))] >> (place & np.uint64(63)) & np.uint64(1):
                member = False
                break
            value = value * _NEXT + _BASE
        members[order[i] if has_order else i] = member


@compile_loop
def sketch(registers: np.ndarray, hashes: np.ndarray) -> None:
    """Add hashes to a HyperLogLog sketch: uint8[REGISTERS]."""
    for i in range(len(hashes)):
        value = mix_bits(hashes[i] ^ _MIX_1)
        place = value & np.uint64(REGISTERS - 1)
        rest = value >> np.uint64(18)
        rank = np.uint64(registers[place])
        if not rest & ((np.uint64(1) << rank) - np.uint64(1)):  # at least so many zeros at the end
            while rank + np.uint64(1) < _RANKS and not (rest >> rank) & np.uint64(1):
                rank += np.uint64(1)
            registers[place] = rank + np.uint64(1)


@compile_loop
def _close_run(open_run: np.ndarray, text: int, spans: np.ndarray, n: int) -> int:
    """Write the run that ends before the present gram as span n; returns how many spans there are."""
    spans[0, n], spans[1, n], spans[2, n], spans[3, n] = text, open_run[0], open_run[1], open_run[2]
    spans[4, n] = open_run[3] - open_run[2]
    open_run[0] = -1
    return n + 1


@compile_loop
def runs(
    members: np.ndarray,
    counts: np.ndarray,
    firsts: np.ndarray,
    lasts: np.ndarray,
    open_run: np.ndarray,
    is_last_open: bool,
    spans: np.ndarray,
) -> int:
    """Maximal runs of member grams, one a column of `spans`; returns how many were found.

    `spans`: int64[5, room]: text, first character, character after the last, number of the first gram in its text, and
    how many grams. `counts`: int64[n], the grams of each text in `found`. `open_run`: int64[4], the start, end and first
    gram of a run that may go on in the first text (start -1: none), and the grams of this text that came before; where
    `is_last_open`, the last text's are left there in turn.
    """
    n, gram = 0, 0
    for text in range(len(counts)):
        is_last = text == len(counts) - 1
        for _ in range(counts[text]):
            if members[gram]:
                if open_run[0] < 0:
                    open_run[0], open_run[2] = firsts[gram], open_run[3]
                open_run[1] = lasts[gram] + 1
            elif open_run[0] >= 0:
                n = _close_run(open_run, text, spans, n)
            open_run[3] += 1
            gram += 1
        if not (is_last_open and is_last):
            if open_run[0] >= 0:
                n = _close_run(open_run, text, spans, n)
            open_run[3] = 0
    return n
