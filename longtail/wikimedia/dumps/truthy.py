"""Facts from Wikidata's truthy dump (`latest-truthy.nt`), or any N-Triples file of its form.

A dump has thousands of millions of lines, of which few count. Lines in the form that Wikidata writes are recognised by
a few bytes and read by arithmetic on arrays of lines: eight bytes are compared at once, as one number, and eight digits
are parsed at once, from the number that their bytes form (the first digit in the lowest byte). A strict parser reads
lines in another form that may count. For all other lines only the beginning and the end are checked; a line that fails
is put aside under its number. Properties must be written without escapes, as in all canonical N-Triples.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyoxigraph as ox

from longtail.errors import SourceError
from longtail.parsing.line_files import Chunk, DumpFile, RejectedRows

ENTITY = "http://www.wikidata.org/entity/"
ITEM = f"<{ENTITY}Q".encode()
_WORD = 8
_HIGH_BITS, _ONE_LESS = np.uint64(0x8080808080808080), np.uint64(0x7F7F7F7F7F7F7F7F)
_ZEROS, _PAST_NINE = np.uint64(0x3030303030303030), np.uint64(0x7676767676767676)
_MOST_DIGITS = 16
_DOT, _BLANK, _TAB, _CARRIAGE, _NEWLINE, _LESS, _UNDERSCORE = b". \t\r\n<_"

DIRECT = "http://www.wikidata.org/prop/direct/"
_TO_PREDICATE = b"> <http:"
_TO_PROPERTY = f"> <{DIRECT}P".encode()
_TO_OBJECT = b"> " + ITEM
_ITEM_ID = re.compile(r"http://www\.wikidata\.org/entity/Q([1-9][0-9]{0,14})")
_PROPERTY_ID = re.compile(r"http://www\.wikidata\.org/prop/direct/(P[1-9][0-9]{0,8})")
_FEW = 16  # at most one line in this many
_SURELY_NO_DUMP = 100_000  # lines without any triple


class Lines:
    """The lines of a chunk. `starts` and `ends` hold each line's limits without its line break (CR LF is one)."""

    def __init__(self, chunk: Chunk) -> None:
        self.bytes = chunk.array
        self._last_word = max(0, len(self.bytes) - _WORD)
        padded = chunk.view if len(self.bytes) >= _WORD else bytes(chunk.view) + bytes(_WORD)
        self._words = np.ndarray((max(1, len(self.bytes) - _WORD + 1),), "<u8", padded, 0, (1,))
        self.breaks = chunk.line_breaks
        self.starts = np.concatenate(([0], self.breaks[:-1] + 1)) if len(self.breaks) else self.breaks
        self.ends = self.breaks
        before = self.bytes[np.maximum(self.breaks - 1, 0)]
        if (has_return := (before == _CARRIAGE) & (self.breaks > self.starts)).any():
            self.ends = self.breaks - has_return

    def words(self, at: np.ndarray) -> np.ndarray:
        """The eight bytes from each position on, as a number; near the end of the chunk, its last eight bytes."""
        return self._words[np.minimum(at, self._last_word)]

    def holds(self, at: np.ndarray, text: bytes, last_only: bool = False) -> np.ndarray:
        """Whether `text`, of at least eight bytes, is at each position; `last_only`: compare only its last eight
        bytes."""
        found = at + len(text) <= len(self.bytes)
        for offset in (*(() if last_only else range(0, len(text) - _WORD, _WORD)), len(text) - _WORD):
            found &= self.words(at + offset) == int.from_bytes(text[offset : offset + _WORD], "little")
        return found

    def end_with(self, text: bytes, which: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Whether each line, or each of `which`, ends with `text`, of at most eight bytes."""
        ends = self.ends[which]
        shift = np.uint64(8 * (_WORD - len(text)))
        tails = self._words[np.clip(ends - _WORD, 0, self._last_word)] >> shift
        return (tails == int.from_bytes(text, "little")) & (ends - self.starts[which] >= _WORD)

    def numbers(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(number, count of its digits) at each position. The count is 0 for no number, a leading 0, or too many
        digits."""
        first = self.words(at) ^ _ZEROS
        n_first = _leading_digits(first)
        values, widths = _value(first, n_first), n_first
        longer = np.flatnonzero(n_first == _WORD)
        if len(longer):
            second = self.words(at[longer] + _WORD) ^ _ZEROS
            n_second = _leading_digits(second)
            values[longer] = values[longer] * 10**n_second + _value(second, n_second)
            widths[longer] += n_second
        is_number = ((first & np.uint64(0xFF)) != 0) & (widths < _MOST_DIGITS)
        is_number &= at + _MOST_DIGITS <= len(self.bytes)  # beyond this, the bytes belong to another position
        return values, np.where(is_number, widths, 0)

    def odd(self) -> np.ndarray:
        """Indexes of the lines that do not start like a triple or do not end in a blank and a dot."""
        if not len(self.starts):
            return self.starts
        begins = self.bytes[self.starts]
        last = self.bytes[np.maximum(self.ends - 1, 0)]
        blank = self.bytes[np.maximum(self.ends - 2, 0)]
        before = self.bytes[np.maximum(self.ends - 3, 0)]
        is_plain = (begins == _LESS) | (begins == _UNDERSCORE)
        is_plain &= (last == _DOT) & (blank == _BLANK) & (before != _BLANK) & (before != _TAB)
        is_plain &= self.ends - self.starts > _WORD
        return np.flatnonzero(~is_plain)


def _leading_digits(words: np.ndarray) -> np.ndarray:
    """The number of leading bytes that are 0 to 9."""
    no_digit = (((words & _ONE_LESS) + _PAST_NINE) | words) & _HIGH_BITS
    lowest = no_digit & (~no_digit + np.uint64(1))
    return (np.bitwise_count(lowest - np.uint64(1)) >> 3).astype(np.int64)


def _value(words: np.ndarray, n_digits: np.ndarray) -> np.ndarray:
    """The number in the first `n_digits` bytes of each word."""
    digits = words << (np.uint64(8) * (_WORD - n_digits).astype(np.uint64))
    pairs = digits * np.uint64(10) + (digits >> np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)
    fours = pairs * np.uint64(100) + (pairs >> np.uint64(16)) & np.uint64(0x0000FFFF0000FFFF)
    eights = fours * np.uint64(10_000) + (fours >> np.uint64(32)) & np.uint64(0x00000000FFFFFFFF)
    return eights.astype(np.int64)


@dataclass(frozen=True)
class Checked:
    """A chunk and its lines. `odd`: the indexes of strictly parsed lines; `triples`: their triples."""

    chunk: Chunk
    lines: Lines
    odd: np.ndarray
    triples: list[tuple[int, ox.Quad]]

    def line(self, index: int) -> bytes:
        return bytes(self.chunk.view[self.lines.starts[index] : self.lines.breaks[index] + 1])

    def each(self, which: np.ndarray) -> Iterator[tuple[int, memoryview]]:
        """(index, line) of lines, without a copy."""
        starts, breaks = self.lines.starts[which].tolist(), self.lines.breaks[which].tolist()
        for index, start, end in zip(which.tolist(), starts, breaks, strict=True):
            yield index, self.chunk.view[start:end]


@dataclass
class Statements:
    """Statements between two items as rows of numbers (subject, property, object), without Q and P; some rows repeat."""

    parts: list[np.ndarray] = field(default_factory=list)  # each of shape (n, 3)

    def of(self, property_id: str) -> pa.Table:
        """Columns subject_id, property_id and object_id of one property: distinct, sorted as texts."""
        number = int(property_id[1:])
        rows = np.concatenate(
            [np.empty((0, 3), np.int64), *(part[part[:, 1] == number] for part in self.parts)]
        )
        pairs = pa.table({"subject_id": rows[:, 0], "object_id": rows[:, 2]})
        distinct = pairs.group_by(["subject_id", "object_id"]).aggregate([])
        subjects, objects = (_ids(distinct[name]) for name in ("subject_id", "object_id"))
        properties = pa.array([property_id]).take(pa.array(np.zeros(len(subjects), np.int64)))
        table = pa.table({"subject_id": subjects, "property_id": properties, "object_id": objects})
        return table.sort_by([("subject_id", "ascending"), ("object_id", "ascending")])


def _ids(numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise("Q", numbers.cast(pa.string()), "")


def read_statements(
    dump: DumpFile, property_ids: Sequence[str], rejected: RejectedRows, log: logging.Logger
) -> Statements:
    """The truthy statements of `property_ids` between two items; their other statements are put aside with the reason.

    Errors: `SourceError` where the file cannot be read or has no triple.
    """
    wanted = frozenset(property_ids)
    numbers = np.array(sorted(int(one[1:]) for one in wanted), dtype=np.int64)
    anywhere = re.compile(rf"/prop/direct/P(?:{'|'.join(one[1:] for one in wanted)})>".encode())
    found = Statements()
    for part in check_chunks(dump, rejected, log):
        direct, unusual = _direct_statements(part)
        rows, odd = _plain_statements(part.lines, direct, numbers)
        found.parts.append(rows)
        strict = np.sort(np.concatenate([odd, _lines_with(part, unusual, anywhere)]))
        triples = [*part.triples, *strictly_read(part, strict, rejected)]
        statements = (_statement(part.line(i), triple, wanted, rejected) for i, triple in triples)
        if few := [row for row in statements if row]:
            found.parts.append(np.array(few, dtype=np.int64))
    return found


def _direct_statements(part: Checked) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of indexes: lines that begin as Wikidata writes a direct property of an item; and lines that do not
    begin as Wikidata writes any triple about an item.

    Only a few bytes of a line are read, each at a known position: this is faster than any search. Neighbouring lines
    have ids of the same width, so that most lines need no counting. Later steps check on fewer lines that an id is a
    number.
    """
    lines = part.lines
    first = lines.starts + len(ITEM)
    _, widths = lines.numbers(first[len(first) // 2 :][:1])
    at = first + int(widths.max(initial=1))
    other = np.flatnonzero(lines.words(at) != int.from_bytes(_TO_PREDICATE, "little"))
    at[other] = first[other] + lines.numbers(first[other])[1]
    is_usual = lines.holds(lines.starts, ITEM, last_only=True)
    is_usual[other] &= lines.words(at[other]) == int.from_bytes(_TO_PREDICATE, "little")
    is_direct = is_usual & lines.holds(at, _TO_PROPERTY, last_only=True)
    is_usual[part.odd], is_direct[part.odd] = True, False  # these are parsed already
    return np.flatnonzero(is_direct), np.flatnonzero(~is_usual)


def _lines_with(part: Checked, which: np.ndarray, pattern: re.Pattern[bytes]) -> np.ndarray:
    """The lines of `which` that contain the pattern: tested one by one if they are few, else by one search of the
    chunk."""
    if len(which) < len(part.lines.breaks) // _FEW:
        return np.array([index for index, line in part.each(which) if pattern.search(line)], np.int64)
    found = np.fromiter((match.start() for match in pattern.finditer(part.chunk.view)), np.int64)
    return np.intersect1d(np.searchsorted(part.lines.breaks, found), which)


def _plain_statements(lines: Lines, which: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the lines in `which` that are statements of wanted properties between two items. Then the indexes of
    other lines of wanted properties, and of lines whose numbers could not be read (as in the last bytes of a chunk)."""
    subjects, widths = lines.numbers(lines.starts[which] + len(ITEM))
    at = lines.starts[which] + len(ITEM) + widths
    is_item = (widths > 0) & lines.holds(at, _TO_PROPERTY, last_only=True)
    at += len(_TO_PROPERTY)
    properties, widths = lines.numbers(at)
    ours = np.flatnonzero(~is_item | (widths == 0) | np.isin(properties, wanted))
    which, columns, at = which[ours], [subjects[ours], properties[ours]], at[ours]
    is_plain = is_item[ours] & (widths[ours] > 0) & lines.holds(lines.starts[which], ITEM)
    is_plain &= lines.holds(at - len(_TO_PROPERTY), _TO_PROPERTY)
    at = at + widths[ours]
    is_plain &= lines.holds(at, _TO_OBJECT)
    objects, widths = lines.numbers(at + len(_TO_OBJECT))
    at = at + len(_TO_OBJECT) + widths
    is_plain &= (widths > 0) & lines.end_with(b"> .", which) & (at + len(b"> .") == lines.ends[which])
    return np.stack([*columns, objects], axis=1)[is_plain], which[~is_plain]


def strictly_read(part: Checked, which: np.ndarray, rejected: RejectedRows) -> Iterator[tuple[int, ox.Quad]]:
    """(index, triple) of lines; lines that are not triples are put aside."""
    lines = [part.line(index) for index in which.tolist()]
    try:
        triples: list[ox.Quad | None] = list(ox.parse(b"".join(lines), format=ox.RdfFormat.N_TRIPLES))
    except SyntaxError:
        triples = []
    if len(triples) != len(lines):  # some line is not a triple: find out which
        numbers = part.chunk.first_line + which
        triples = [parse_line(*one, rejected) for one in zip(lines, numbers.tolist(), strict=True)]
    for index, triple in zip(which.tolist(), triples, strict=True):
        if triple is not None:
            yield index, triple


def _statement(
    line: bytes, triple: ox.Quad, wanted: frozenset[str], rejected: RejectedRows
) -> tuple[int, int, int] | None:
    """A triple's statement between two items; put aside if only the property is wanted."""
    predicate = _PROPERTY_ID.fullmatch(triple.predicate.value)
    if predicate is None or predicate[1] not in wanted:
        return None
    subject, obj = (_number(term) for term in (triple.subject, triple.object))
    if subject and obj:
        return subject, int(predicate[1][1:]), obj
    node = triple.subject
    name = node.value.removeprefix(ENTITY) if isinstance(node, ox.NamedNode) else str(node)
    reason = f"object is no item but {_describe(triple.object)}" if subject else "subject is no item"
    rejected.add(f"{name} {predicate[1]}", reason, line)
    return None


def _number(term: object) -> int | None:
    match = _ITEM_ID.fullmatch(term.value) if isinstance(term, ox.NamedNode) else None
    return int(match[1]) if match else None


def _describe(term: object) -> str:
    if isinstance(term, ox.BlankNode) or "/.well-known/genid/" in str(term):
        return "an unknown value"
    return "a literal" if isinstance(term, ox.Literal) else "another resource"


def parse_line(line: bytes, number: int, rejected: RejectedRows) -> ox.Quad | None:
    """The triple of line `number`, strictly parsed; None, and the line put aside, if it is not a triple."""
    try:
        triples = list(ox.parse(line, format=ox.RdfFormat.N_TRIPLES))
        return triples[0] if triples else None
    except SyntaxError as error:
        text = str(error.msg or error)
        reason = text.split(": ", 1)[-1].strip() if text.startswith("Parser error") else text
        rejected.add(str(number), f"not N-Triples: {reason}", line)
        return None


def check_chunks(dump: DumpFile, rejected: RejectedRows, log: logging.Logger) -> Iterator[Checked]:
    """The chunks. Lines that do not begin and end like triples are parsed, and put aside if they are not triples.

    Errors: `SourceError` where the file cannot be read or has no triple.
    """
    n_without = 0
    for chunk in dump.chunks(log):
        lines = Lines(chunk)
        part = Checked(chunk, lines, lines.odd(), [])
        part.triples.extend(strictly_read(part, part.odd, rejected))
        n_without += len(part.odd) - len(part.triples)
        if dump.n_lines == n_without > _SURELY_NO_DUMP:
            break
        yield part
    if dump.n_lines == n_without and not dump.cut:
        raise SourceError(f"{dump.path}: holds no triple in the N-Triples format")
