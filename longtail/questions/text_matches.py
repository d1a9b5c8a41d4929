"""Names in texts, found by Aho-Corasick: how often they occur in text files of any size, and which questions they name.

In files, the UTF-8 bytes of a name match the same bytes in the text, with the same case and accents; a space matches
only a space. Every occurrence counts, also one that overlaps another. Two numbers are counted: matches `anywhere`, and
matches as `whole_words`, where no word of the text goes on beyond the name (a letter, mark, digit or underscore at the
name's edge has none beside it): "pol" is in "Interpol" anywhere, but not as a whole word.

The names and answers of questions (`Phrases`) are compared word by word, as DPR's rule compares answers
(`scoring.match`).
"""

from __future__ import annotations

import json
import logging
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO

import ahocorasick_rs
import numpy as np

from longtail.errors import SourceError
from longtail.parsing.line_files import MOST_LINES, RejectedRows, open_file
from longtail.progress import Progress
from longtail.scoring.match import dpr_tokens

_BLOCK = 1 << 20
_LONGEST_LINE = 64 << 20  # of JSON lines: what is longer is no line of such a file
_CHARACTER = 4  # bytes that a character takes at most
_MARKS_OF_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_IS_WORD = np.array([chr(byte).isalnum() or byte == ord("_") for byte in range(128)] + [False] * 128)


@dataclass
class NameCounts:
    """Occurrences of each name (int64), bytes of text read, and broken lines of JSON files."""

    whole_words: np.ndarray
    anywhere: np.ndarray
    n_bytes: int
    rejected: RejectedRows


def text_files(place: Path) -> list[Path]:
    """The file `place`, or all files below the folder `place` except hidden ones, sorted. Errors: `SourceError`."""
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise SourceError(f"{place}: there is no such file or folder of text")
    files = sorted(p for p in place.rglob("*") if p.is_file() and not p.name.startswith("."))
    if not files:
        raise SourceError(f"{place}: the folder holds no file of text")
    return files


def count_names(
    files: Sequence[Path], names: Sequence[bytes], log: logging.Logger, block: int = _BLOCK
) -> NameCounts:
    """Occurrences of `names` (distinct, none empty) in `files`: plain or compressed text, or JSON lines (key `text`).

    Text comes in pieces of `block` bytes. Errors: `SourceError` where a file cannot be read, is damaged or UTF-16, or all
    files are empty.
    """
    counts = NameCounts(
        np.zeros(len(names), np.int64), np.zeros(len(names), np.int64), 0, RejectedRows(most=MOST_LINES)
    )
    if not names:
        return counts
    finder = _Finder(names)
    with Progress(log, f"MB of text searched for {len(names):,} names") as progress:
        for file in files:
            for window, low, high in _windows(_blocks(file, counts.rejected, block), finder.longest):
                whole, every = finder.find(window, low, high)
                counts.whole_words += whole
                counts.anywhere += every
                counts.n_bytes += high - low
                progress.add(counts.n_bytes // 10**6 - (counts.n_bytes - high + low) // 10**6)
    if not counts.n_bytes:
        raise SourceError(f"{files[0]}: the text sample is empty: nothing can be counted in it")
    return counts


def articles(files: Sequence[Path], rejected: RejectedRows) -> Iterator[Iterator[str]]:
    """The articles of `files`, each as its lines: the text of a line of JSON, or a whole file of plain text.

    Errors: `SourceError`, as for `count_names`.
    """
    for file in files:
        if _is_json(file):
            for text in _blocks(file, rejected, 1):
                yield _lines([text])
        else:
            yield _lines(_blocks(file, rejected, _BLOCK))


def _lines(blocks: Iterable[bytes]) -> Iterator[str]:
    held = b""
    for block in blocks:
        *whole, held = (held + block).split(b"\n")
        if len(held) > _LONGEST_LINE:
            whole, held = [*whole, held], b""
        yield from (line.decode("utf-8", "replace") for line in whole)
    yield held.decode("utf-8", "replace")


class _Finder:
    """One automaton of names, and at which of their edges a word of the text may go on."""

    def __init__(self, names: Sequence[bytes]) -> None:
        from ahocorasick_rs import BytesAhoCorasick

        self._automaton = BytesAhoCorasick(list(names))
        self._n = len(names)
        self.longest = max(map(len, names))
        texts = [name.decode("utf-8", "replace") for name in names]
        self._edges = tuple(np.array([is_word(text[edge]) for text in texts]) for edge in (0, -1))

    def find(self, window: bytes, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        """Occurrences of each name as whole words, and anywhere, that end in (low, high] of `window`."""
        matches = self._automaton.find_matches_as_indexes(window, overlapping=True)
        flat = np.fromiter(chain.from_iterable(matches), np.int64, 3 * len(matches))
        name, start, end = flat.reshape(-1, 3).T
        counted = (end > low) & (end <= high)
        name, start, end = name[counted], start[counted], end[counted]
        goes_on = self._edges[0][name] & _are_of_words(window, start, before=True)
        goes_on |= self._edges[1][name] & _are_of_words(window, end, before=False)
        every = np.bincount(name, minlength=self._n)
        return np.bincount(name[~goes_on], minlength=self._n), every


def is_word(character: str) -> bool:
    """Whether a character is part of words: letter, mark, number or underscore."""
    return character == "_" or unicodedata.category(character)[0] in "LMN"


def _are_of_words(window: bytes, at: np.ndarray, before: bool) -> np.ndarray:
    """Whether the character that begins at each place (with `before`, ends there) is part of a word; bytes that are not
    UTF-8 are not."""
    exists = np.flatnonzero(at > 0 if before else at < len(window))
    bytes_ = np.frombuffer(window, np.uint8)[at[exists] - before]
    is_part = np.zeros(len(at), np.bool_)
    is_part[exists] = _IS_WORD[bytes_]
    for place in exists[bytes_ >= 128].tolist():
        end = int(at[place]) + (0 if before else _CHARACTER)
        around = window[max(0, end - _CHARACTER) : end].decode("utf-8", "replace")
        is_part[place] = is_word(around[-1 if before else 0])
    return is_part


def _windows(blocks: Iterator[bytes], longest: int) -> Iterator[tuple[bytes, int, int]]:
    """(window, low, high) over a text: each place where a name may end lies once in (low, high] of a window.

    A window also has what the longest such name, and the characters on its sides, may need.
    """
    window, low = b"", 0
    for block in blocks:
        window += block
        high = len(window) - _CHARACTER
        if high > low:
            yield window, low, high
            cut = max(0, high - longest - _CHARACTER)
            window, low = window[cut:], high - cut
    if len(window) > low:
        yield window, low, len(window)


def _blocks(path: Path, rejected: RejectedRows, size: int) -> Iterator[bytes]:
    """The text of a file in pieces. Errors: `SourceError`."""
    n_bytes = 0
    with open_file(path) as stream:
        plain = iter(partial(stream.read, size), b"")
        for block in _json_texts(stream, path, rejected, size) if _is_json(path) else plain:
            if not n_bytes and block.startswith(_MARKS_OF_UTF_16):
                raise SourceError(f"{path}: is UTF-16, not UTF-8: convert it, as iconv does")
            n_bytes += len(block)
            yield block


def _is_json(path: Path) -> bool:
    return path.name.removesuffix(".gz").removesuffix(".bz2").endswith((".json", ".jsonl"))


def _json_texts(stream: IO[bytes], path: Path, rejected: RejectedRows, least: int) -> Iterator[bytes]:
    """Key `text` of each line, as in C4, in pieces of `least` bytes or more. Lines without it are put aside."""
    held, size, number = [], 0, 0
    while line := stream.readline(_LONGEST_LINE):
        number += 1
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            document = None
        text = document.get("text") if isinstance(document, dict) else None
        if isinstance(text, str):
            held.append(text.encode("utf-8", "replace") + b"\n")
            size += len(held[-1])
        elif line.strip():
            rejected.put(f"{path.name} line {number}", "line is no JSON object with a text", line)
        if size >= least:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


@dataclass(frozen=True)
class Asked:
    """A question: names of its entity and its gold answers, each as words joined by spaces, and how it is named."""

    names: frozenset[str]
    answers: frozenset[str]
    named_by: str | None


def as_words(texts: Iterable[str]) -> frozenset[str]:
    """Each text as words joined by spaces; those without a word are left out."""
    return frozenset(words for text in texts if (words := dpr_tokens(text)))


class Phrases:
    """The names and answers of n questions, to be found in texts."""

    def __init__(self, asked: Sequence[Asked]) -> None:
        self._asked = asked
        self._of_name: dict[str, list[int]] = defaultdict(list)
        for place, question in enumerate(asked):
            for name in question.names:
                self._of_name[name].append(place)
        self._phrases = sorted(
            {*self._of_name, *(answer for question in asked for answer in question.answers)}
        )
        self._automaton = ahocorasick_rs.AhoCorasick([f" {phrase} " for phrase in self._phrases])

    def find(self, words: str) -> set[str]:
        """The phrases in a text, which is given as words joined by spaces."""
        matches = self._automaton.find_matches_as_indexes(f" {words} ", overlapping=True)
        return {self._phrases[number] for number, _, _ in matches}

    def questions_of(self, phrases: Iterable[str]) -> set[int]:
        """The places, in 0 … n - 1, of the questions with a name among these phrases."""
        return {place for phrase in phrases for place in self._of_name.get(phrase, ())}

    def filter_by_answer(self, named: Iterable[int], phrases: set[str]) -> list[int]:
        """Those of the places `named` whose question also has an answer among these phrases."""
        return [place for place in named if not self._asked[place].answers.isdisjoint(phrases)]
