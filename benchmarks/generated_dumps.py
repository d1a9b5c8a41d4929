"""Large dumps for the ingest benchmark: a sandbox world among lines of the kinds in Wikimedia's own dumps.

The lines of the world come first. Then 64 MB of filler are compressed once, and their bzip2 streams are repeated until
the file has its size. Decompressing and reading repeated streams is the same work as for other streams.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from benchmarks.harness import say
from longtail.parsing import rdf
from longtail.sandbox.dumps import NAME, compress, in_ascii, page_view_lines, truthy_lines
from longtail.sandbox.world import World

MONTH = "2026-10"
_PART = 32_000_000  # bytes of filler text that a process makes
_LANGUAGES = (
    "de", "fr", "es", "it", "nl", "sv", "pl", "pt", "ru", "uk", "zh", "ja", "ko", "ar", "fa", "he", "tr",
    "cs", "fi", "da", "nb", "hu", "ro", "ca", "eu", "gl", "id", "vi", "ast", "sl",
)  # fmt: skip
_PROJECTS = ("de.wikipedia", "en.wikipedia", "en.wiktionary", "fr.wikipedia", "ja.wikipedia", "ru.wikipedia")
_WANTED = (17, 106, 19, 136, 57, 462)
_WANTED_STATEMENTS = tuple(f"> <{rdf.DIRECT}P{number}> <{rdf.ENTITY}Q" for number in _WANTED)
_OTHERS = (31, 21, 27, 735, 279, 361, 131, 569)
_ABOUT = f"<{rdf.ABOUT}>"
_PREFERRED = "<http://www.w3.org/2004/02/skos/core#prefLabel>"

Filler = tuple[bytes, int, int]


@dataclass(frozen=True)
class Dump:
    """A file: its bytes uncompressed, the number of repetitions of the filler, and the filler's distinct statements.

    `filler_statements` counts those of the relations that are read. The writer counts them, not a reader.
    """

    path: Path
    n_bytes: int
    repeats: int
    filler_statements: int


def truthy_dump(world: World, path: Path, n_bytes: int) -> Dump:
    """A truthy dump with the world and filler."""
    return _write(path, truthy_lines(world), truthy_filler, n_bytes)


def page_view_dump(world: World, path: Path, n_bytes: int) -> Dump:
    """The page view dump of the world for `MONTH`, and filler."""
    return _write(path, page_view_lines(world, MONTH), page_view_filler, n_bytes)


def _write(path: Path, lines: Iterable[str], filler: Callable[[int], Filler], n_bytes: int) -> Dump:
    path.parent.mkdir(parents=True, exist_ok=True)
    say(f"making {path.name}, {n_bytes / 1e6:,.0f} MB uncompressed …")
    written, repeats = 0, 0
    with path.open("wb") as out, ProcessPoolExecutor(2) as pool:
        parts = list(pool.map(filler, (1, 2)))
        text = list(lines)
        written = sum(len(line.encode()) for line in text)
        for piece in compress(text, ".bz2"):
            out.write(piece)
        while written < n_bytes:
            repeats += 1
            for part, size, _ in parts:
                out.write(part)
                written += size
    return Dump(path, written, repeats, sum(n for *_, n in parts) if repeats else 0)


def _streams(lines: Iterator[str]) -> Filler:
    """Whole lines that almost fill a part, as bzip2 streams; their bytes; statements of wanted relations."""
    text, size = [], 0
    for line in lines:
        n = len(line.encode())
        if size + n > _PART - 200:
            break
        text.append(line)
        size += n
    n_statements = sum(any(wanted in line for wanted in _WANTED_STATEMENTS) for line in text)
    return b"".join(compress(text, ".bz2")), size, n_statements


def truthy_filler(seed: int) -> Filler:
    """Entities like those of Wikidata: names in thirty languages, identifiers, statements, some in our relations."""
    return _streams(map(in_ascii, _entities(random.Random(seed), 200_000_000 + 40_000_000 * seed)))


def _entities(draw: random.Random, first: int) -> Iterator[str]:
    for number in range(first, first + 10_000_000):
        subject = f"<{rdf.ENTITY}Q{number}>"
        name = f"{_word(draw)} {_word(draw)}"
        yield f"<https://www.wikidata.org/wiki/Special:EntityData/Q{number}> {_ABOUT} {subject} .\n"
        for language in ("en", *islice(draw.sample(_LANGUAGES, 30), draw.randrange(3, 20))):
            for predicate in (f"<{rdf.LABEL}>", _PREFERRED, f"<{NAME}>"):
                yield f'{subject} {predicate} "{name}"@{language} .\n'
        for language in draw.sample(_LANGUAGES, 6):
            text = f"{_word(draw)} {_word(draw)} ({draw.randrange(1800, 2020)})"
            yield f'{subject} <{rdf.DESCRIPTION}> "{text}"@{language} .\n'
        yield f'{subject} <{rdf.DESCRIPTION}> "{_word(draw)} of {_word(draw)}"@en .\n'
        for property_number in draw.sample(range(200, 9000), 8):
            yield f'{subject} <{rdf.DIRECT}P{property_number}> "{draw.randrange(10**9)}" .\n'
        for property_number in (*draw.sample(_OTHERS, 5), draw.choice(_WANTED)):
            yield f"{subject} <{rdf.DIRECT}P{property_number}> <{rdf.ENTITY}Q{draw.randrange(1, 90_000)}> .\n"


def page_view_filler(seed: int) -> Filler:
    """Lines of several projects, sorted by project. Two fifths of them belong to the English Wikipedia."""
    draw = random.Random(seed)
    shares = (4, 8, 1, 3, 3, 3)
    n_lines = _PART // 48

    def lines() -> Iterator[str]:
        for project, share in zip(_PROJECTS, shares, strict=True):
            for _ in range(n_lines * share // sum(shares)):
                views = int(draw.paretovariate(0.7))
                title = f"{_word(draw)}_{_word(draw)}_{draw.randrange(10**4)}"
                device = draw.choice(("desktop", "mobile-web", "mobile-app"))
                yield f"{project} {title} {draw.randrange(10**8)} {device} {views} A{views // 2}C{views - views // 2}\n"

    return _streams(lines())


def _word(draw: random.Random) -> str:
    return "".join(draw.choice(_SYLLABLES) for _ in range(draw.randrange(2, 4))).capitalize()


_SYLLABLES = (
    "ka", "ri", "to", "mel", "an", "dor", "vi", "sé", "lun", "gar", "ö", "th", "wen", "bra", "co", "pi",
)  # fmt: skip
