"""Names of Wikidata's RDF, and a reader of local files in N-Triples (plain, gzip or bzip2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO

import pyoxigraph as ox

from longtail.errors import SourceError
from longtail.parsing.line_files import open_file
from longtail.storage.lake import QuarantinedRow

ENTITY = "http://www.wikidata.org/entity/"
DIRECT = "http://www.wikidata.org/prop/direct/"
DATA = "https://www.wikidata.org/wiki/Special:EntityData/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
ALIAS = "http://www.w3.org/2004/02/skos/core#altLabel"
DESCRIPTION = "http://schema.org/description"
SITELINKS = "http://wikiba.se/ontology#sitelinks"
REDIRECT = "http://www.w3.org/2002/07/owl#sameAs"
ABOUT = "http://schema.org/about"
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
_LINES_AT_ONCE = 2_000
_LONGEST_LINE = 1 << 20


@dataclass
class Reading:
    """What was read; complete after the last triple."""

    path: Path
    n_triples: int = 0
    broken: list[QuarantinedRow] = field(default_factory=list)


def read_triples(reading: Reading) -> Iterator[list[ox.Quad]]:
    """The triples of `reading.path`, some thousand lines at a time; broken lines go to `reading.broken`.

    Errors: `SourceError` where the file cannot be read, its gzip stream is damaged, or no line is a triple.
    """
    n_lines = 0
    with open_file(reading.path) as stream:
        lines = _lines(stream)
        while chunk := list(islice(lines, _LINES_AT_ONCE)):
            triples = list(_parse(chunk, n_lines + 1, reading.broken))
            n_lines += len(chunk)
            reading.n_triples += len(triples)
            yield triples
    if reading.n_triples == 0:
        first = f"; line {reading.broken[0].row_key}: {reading.broken[0].reason}" if reading.broken else ""
        raise SourceError(f"{reading.path}: holds no triple in the N-Triples format{first}")


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Lines of at most a mebibyte. A longer line comes as one overlong line without its rest."""
    first = True
    while line := stream.readline(_LONGEST_LINE + 1):
        if not line.endswith(b"\n") and len(line) > _LONGEST_LINE:
            while (rest := stream.readline(_LONGEST_LINE)) and not rest.endswith(b"\n"):
                pass
        yield line.removeprefix(b"\xef\xbb\xbf") if first else line
        first = False


def _parse(lines: list[bytes], first_number: int, broken: list[QuarantinedRow]) -> Iterable[ox.Quad]:
    try:
        if all(len(line) <= _LONGEST_LINE for line in lines):
            return list(ox.parse(b"".join(lines), format=ox.RdfFormat.N_TRIPLES))
    except SyntaxError:
        pass  # some line is broken: find out which
    return list(_line_by_line(lines, first_number, broken))


def _line_by_line(lines: list[bytes], first_number: int, broken: list[QuarantinedRow]) -> Iterator[ox.Quad]:
    for number, line in enumerate(lines, first_number):
        try:
            if len(line) > _LONGEST_LINE:
                raise SyntaxError("longer than 1 MiB")
            yield from list(ox.parse(line, format=ox.RdfFormat.N_TRIPLES))
        except SyntaxError as error:
            raw = line[:4_000].decode("utf-8", "backslashreplace").rstrip("\r\n")
            broken.append(QuarantinedRow(str(number), fault_of(error), raw))


def fault_of(error: SyntaxError) -> str:
    """Why a line is no triple: the parser's message without its line count, which restarts for every line."""
    text = str(error.msg or error)
    return f"not N-Triples: {text.split(': ', 1)[-1].strip() if text.startswith('Parser error') else text}"
