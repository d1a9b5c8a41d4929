"""The sandbox's world as Wikimedia's dumps: truthy facts, monthly page views and articles, plain, gzip or multi-stream
bzip2; and as triples for a query service.

As in the real dumps, the truthy dump has terms and redirects but no articles. A page view dump also has lines of other
projects, several lines per article, and pages without an entity.
"""

from __future__ import annotations

import bz2
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from longtail.parsing.rdf import ABOUT, ALIAS, DATA, DESCRIPTION, DIRECT, ENTITY, INTEGER, LABEL, SITELINKS
from longtail.sandbox.population import mix
from longtail.sandbox.world import Pages, World, WorldEntity

TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
ARTICLE = "http://schema.org/Article"
PART_OF = "http://schema.org/isPartOf"
NAME = "http://schema.org/name"
IN_LANGUAGE = "http://schema.org/inLanguage"
WIKI = "https://en.wikipedia.org/"
_PREFERRED = "http://www.w3.org/2004/02/skos/core#prefLabel"
_ITEM = "http://wikiba.se/ontology#Item"
SAVED_AT = "2026-10-01T00:00:00Z"
SUFFIXES = ("", ".gz", ".bz2")
_BZIP2_STREAM = 900_000  # bytes of text per stream
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")

_ESCAPES = {ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


def literal(text: str, suffix: str = "@en") -> str:
    """A quoted N-Triples literal."""
    return f'"{text.translate(_ESCAPES)}"{suffix}'


def entity_lines(entity: WorldEntity) -> Iterator[str]:
    """Label, aliases, description, number of site links, and the English article's links."""
    subject = f"<{ENTITY}{entity.entity_id}>"
    yield f"{subject} <{LABEL}> {literal(entity.label)} .\n"
    for alias in entity.aliases:
        yield f"{subject} <{ALIAS}> {literal(alias)} .\n"
    yield f"{subject} <{DESCRIPTION}> {literal(entity.description)} .\n"
    yield f"{subject} <{SITELINKS}> {literal(str(entity.sitelinks), f'^^<{INTEGER}>')} .\n"
    if entity.article_title is not None:
        path = quote(entity.article_title.replace(" ", "_"), safe="~!*()@;:/,-._")  # as MediaWiki escapes
        article = f"<{WIKI}wiki/{path}>"
        yield f"{article} <{TYPE}> <{ARTICLE}> .\n"
        yield f"{article} <{ABOUT}> {subject} .\n"
        yield f"{article} <{IN_LANGUAGE}> {literal('en', '')} .\n"
        yield f"{article} <{PART_OF}> <{WIKI}> .\n"
        yield f"{article} <{NAME}> {literal(entity.article_title)} .\n"


def triple_lines(world: World) -> Iterator[str]:
    """Every line of the world's RDF as a stream: entities first, then facts."""
    for entity in world.entities():
        yield from entity_lines(entity)
    for triple in world.triples():
        yield (
            f"<{ENTITY}{triple.subject_id}> <{DIRECT}{triple.property_id}> <{ENTITY}{triple.object_id}> .\n"
        )


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
        subject = f"<{ENTITY}{entity.entity_id}>"
        data = f"<{DATA}{entity.entity_id}>"
        yield f"{data} <{ABOUT}> {subject} .\n"
        yield f"{subject} <{TYPE}> <{_ITEM}> .\n"
        for name in (LABEL, _PREFERRED, NAME):
            yield f"{subject} <{name}> {literal(entity.label)} .\n"
        yield f"{subject} <{_PREFERRED}> {literal(entity.label, '@de')} .\n"
        yield f"{subject} <{DESCRIPTION}> {literal(entity.description)} .\n"
        for alias in entity.aliases:
            yield f"{subject} <{ALIAS}> {literal(alias)} .\n"
        for fact in world.facts_about(entity.entity_id):
            for object_id in fact.object_ids:
                yield f"{subject} <{DIRECT}{fact.relation.property_id}> <{ENTITY}{object_id}> .\n"


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
