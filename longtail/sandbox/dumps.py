"""The sandbox's world as Wikimedia's dumps: truthy facts, monthly page views and articles, plain, gzip or multi-stream
bzip2.

As in the real dumps, the truthy dump has terms and redirects but no articles. A page view dump also has lines of other
projects, several lines per article, and pages without an entity.
"""

from __future__ import annotations

import bz2
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from longtail.sandbox import rdf
from longtail.sandbox.pages import Pages
from longtail.sandbox.randomness import mix
from longtail.sandbox.world import World, WorldEntity

SAVED_AT = "2026-10-01T00:00:00Z"
SUFFIXES = ("", ".gz", ".bz2")
_BZIP2_STREAM = 900_000  # bytes of text per stream
_DATA = "https://www.wikidata.org/wiki/Special:EntityData/"
_PREFERRED = "http://www.w3.org/2004/02/skos/core#prefLabel"
_ITEM = "http://wikiba.se/ontology#Item"
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_NAMES = (rdf.LABEL, _PREFERRED, rdf.NAME)


def truthy_lines(world: World) -> Iterator[str]:
    """For each entity: lines about its data, its terms, its statements. ASCII, as in Wikidata's dumps."""
    return map(in_ascii, _truthy_lines(world))


def in_ascii(line: str) -> str:
    """A line of N-Triples with every non-ASCII character escaped."""
    return line if line.isascii() else _NOT_ASCII.sub(_escape, line)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _truthy_lines(world: World) -> Iterator[str]:
    for entity in world.entities():
        subject = f"<{rdf.ENTITY}{entity.entity_id}>"
        data = f"<{_DATA}{entity.entity_id}>"
        yield f"{data} <{rdf.ABOUT}> {subject} .\n"
        yield f"{subject} <{rdf.TYPE}> <{_ITEM}> .\n"
        for name in _NAMES:
            yield f"{subject} <{name}> {rdf.literal(entity.label)} .\n"
        yield f"{subject} <{_PREFERRED}> {rdf.literal(entity.label, '@de')} .\n"
        yield f"{subject} <{rdf.DESCRIPTION}> {rdf.literal(entity.description)} .\n"
        for alias in entity.aliases:
            yield f"{subject} <{rdf.ALIAS}> {rdf.literal(alias)} .\n"
        for fact in world.facts_about(entity.entity_id):
            for object_id in fact.object_ids:
                yield f"{subject} <{rdf.DIRECT}{fact.relation.property_id}> <{rdf.ENTITY}{object_id}> .\n"


def page_view_lines(world: World, month: str) -> Iterator[str]:
    """The month's lines of agent user, sorted by project as in the real dumps; redirects have their own lines."""
    pages = Pages(world)
    for project, factor in (
        ("de.wikipedia", 3),
        ("en.m.wikipedia", 5),
        ("en.wikipedia", 1),
        ("en.wikipedia.m", 7),
    ):
        yield f"{project} - null desktop 17 A9B8\n"
        for entity in world.entities():
            for title, views in pages.counted(entity, month):
                yield from _article_lines(project, entity, title, views, factor)
    yield "en.wiktionary water 100 desktop 12 C12\n"


def _article_lines(project: str, entity: WorldEntity, name: str, views: int, factor: int) -> Iterator[str]:
    number, title = int(entity.entity_id[1:]), name.replace(" ", "_")
    app, desktop = views // 20, views * 2 // 5
    of_no_page = mix(number, 811) % 3 * (desktop // 9)  # counted before the page had its id
    for page_id, device, part in (
        ("null", "desktop", of_no_page),
        (str(number % 10**8), "desktop", desktop - of_no_page),
        (str(number % 10**8), "mobile-app", app),
        (str(number % 10**8), "mobile-web", views - app - desktop),
    ):
        if part or (views == 0 and device == "mobile-web"):
            yield f"{project} {title} {page_id} {device} {part * factor} A{part * factor - part}M{part}\n"


def article_lines(world: World) -> Iterator[str]:
    """Two lines of JSON for each article, as in CirrusSearch's dumps of content."""
    for number, (entity_id, article) in enumerate(world.articles(), 1):
        document = {
            "title": article.title,
            "text": article.text,
            "wikibase_item": entity_id,
            "timestamp": SAVED_AT,
            "namespace": 0,
            "language": "en",
        }
        yield json.dumps({"index": {"_type": "_doc", "_id": str(number)}}) + "\n"
        yield json.dumps(document, ensure_ascii=False) + "\n"


def compress(lines: Iterable[str], suffix: str) -> Iterator[bytes]:
    """The lines as the bytes of a file whose name ends in `suffix`, piece by piece."""
    if suffix == ".gz":
        compressor = zlib.compressobj(6, zlib.DEFLATED, zlib.MAX_WBITS | 16)
        yield from filter(None, map(compressor.compress, _pieces(lines)))
        yield compressor.flush()
    else:
        yield from (bz2.compress(piece) if suffix == ".bz2" else piece for piece in _pieces(lines))


def _pieces(lines: Iterable[str]) -> Iterator[bytes]:
    held, size = [], 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= _BZIP2_STREAM:
            yield "".join(held).encode()
            held, size = [], 0
    yield "".join(held).encode()


def write_dump(lines: Iterable[str], path: Path) -> Path:
    """Write a dump; `path` ends in .gz, .bz2 or neither. Return it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        for piece in compress(lines, path.suffix if path.suffix in SUFFIXES else ""):
            out.write(piece)
    return path
