"""Names of Wikidata's RDF, and a reader of local files in N-Triples (plain, gzip or bzip2)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO

import pyoxigraph as ox

from longtail.errors import SourceError
from longtail.parsing.line_files import RejectedRows, open_file

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


def read_triples(path: Path, rejected: RejectedRows) -> Iterator[list[ox.Quad]]:
    """The triples of a file, some thousand lines at a time; broken lines go to `rejected` by their numbers.

    Errors: `SourceError` where the file cannot be read, its gzip stream is damaged, or no line is a triple.
    """
    n_lines = n_triples = 0
    with open_file(path) as stream:
        lines = _lines(stream)
        while chunk := list(islice(lines, _LINES_AT_ONCE)):
            triples = _parse(chunk, n_lines + 1, rejected)
            n_lines += len(chunk)
            n_triples += len(triples)
            yield triples
    if n_triples == 0:
        first = f"; line {rejected.rows[0].row_key}: {rejected.rows[0].reason}" if rejected.rows else ""
        raise SourceError(f"{path}: holds no triple in the N-Triples format{first}")


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Lines of at most a mebibyte. A longer line comes as one overlong line without its rest."""
    first = True
    while line := stream.readline(_LONGEST_LINE + 1):
        if not line.endswith(b"\n") and len(line) > _LONGEST_LINE:
            while (rest := stream.readline(_LONGEST_LINE)) and not rest.endswith(b"\n"):
                pass
        yield line.removeprefix(b"\xef\xbb\xbf") if first else line
        first = False


def _parse(lines: list[bytes], first_number: int, rejected: RejectedRows) -> list[ox.Quad]:
    try:
        if all(len(line) <= _LONGEST_LINE for line in lines):
            return list(ox.parse(b"".join(lines), format=ox.RdfFormat.N_TRIPLES))
    except SyntaxError:
        pass  # some line is broken: find out which
    triples: list[ox.Quad] = []
    for number, line in enumerate(lines, first_number):
        if len(line) > _LONGEST_LINE:
            rejected.put(number, "not N-Triples: longer than 1 MiB", line)
        else:
            triples += parse_line(line, number, rejected)
    return triples


def parse_line(line: bytes, number: int, rejected: RejectedRows) -> list[ox.Quad]:
    """The triple of line `number`, strictly parsed; none, and the line put aside, if it is not a triple."""
    try:
        return list(ox.parse(line, format=ox.RdfFormat.N_TRIPLES))
    except SyntaxError as error:
        text = str(error.msg or error)  # its line count restarts for every line
        reason = text.split(": ", 1)[-1].strip() if text.startswith("Parser error") else text
        rejected.put(number, f"not N-Triples: {reason}", line)
        return []
