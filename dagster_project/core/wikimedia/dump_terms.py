"""Labels, aliases, descriptions and, where it carries them, site links of chosen entities, from a dump.

What belongs here: which lines tell of an entity, and their form as wbgetentities has it. What does not: facts
(`truthy`), what a document means and how terms are cleaned (`entities`).

Wikimedia's truthy dump carries terms and redirects, but neither articles nor numbers of site links; the dump of
everything, and other files in its shapes, carry both.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyoxigraph as ox

from dagster_project.core.wikimedia.dump_files import Aside, Chunk, DumpFile
from dagster_project.core.wikimedia.truthy import ENTITY, checked, parse_line

_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_ALIAS = "http://www.w3.org/2004/02/skos/core#altLabel"
_DESCRIPTION = "http://schema.org/description"
_SITELINKS = "http://wikiba.se/ontology#sitelinks"
_REDIRECT = "http://www.w3.org/2002/07/owl#sameAs"
_ABOUT = "http://schema.org/about"
_ARTICLE = "https://en.wikipedia.org/wiki/"
_DATA = "https://www.wikidata.org/wiki/Special:EntityData/"
_LANGUAGES = ("en", "mul")


def _iri(text: str) -> str:
    return re.escape(text)


# What stands in every line that counts and in few others: found fast; the line's head then says whether it counts.
_TERM_MARK = re.compile(rb"@(?:en|mul)[ \t.]")
_OTHER_MARKS = (b"ontology#sitelinks>", b"owl#sameAs>", b"schema.org/about>")
_PREDICATES = "|".join(_iri(name) for name in (_LABEL, _ALIAS, _DESCRIPTION, _SITELINKS, _REDIRECT))
_HEAD = re.compile(
    rf"<{_iri(ENTITY)}(?P<subject>Q[1-9]\d*)>[ \t]*<(?:{_PREDICATES})>"
    rf"|<(?:{_iri(_ARTICLE)}[^>\n]*|{_iri(_DATA)}Q[1-9]\d*)>[ \t]*<{_iri(_ABOUT)}>"
    rf"[ \t]*<{_iri(ENTITY)}(?P<object>Q[1-9]\d*)>".encode()
)


@dataclass
class DumpTerms:
    """What a dump tells of chosen entities: JSON as wbgetentities has it by id, numbers of site links, redirects.

    `has_sitelinks`: whether the dump carries articles and numbers of site links at all. `lists_all`: whether it
    names every entity that there is, as Wikidata's do, so that who is not among `documents` does not exist.
    """

    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    sitelinks: dict[str, int] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    has_sitelinks: bool = False
    lists_all: bool = False

    def _document(self, entity_id: str) -> dict[str, Any]:
        return self.documents.setdefault(
            entity_id, {"labels": {}, "aliases": {}, "descriptions": {}, "sitelinks": {}}
        )

    def add(self, triple: ox.Quad) -> None:
        """Take in one line; what is none of ours is passed by."""
        predicate, obj = triple.predicate.value, triple.object
        if not isinstance(triple.subject, ox.NamedNode) or isinstance(obj, ox.Triple):
            return
        entity_id = triple.subject.value.removeprefix(ENTITY)
        if predicate == _ABOUT:
            self._add_article(triple.subject.value, obj.value.removeprefix(ENTITY))
            return
        if predicate == _REDIRECT:
            self.redirects[entity_id] = obj.value.removeprefix(ENTITY)
        elif predicate == _SITELINKS:
            self._add_count(entity_id, obj.value)
        elif isinstance(obj, ox.Literal) and obj.language in _LANGUAGES:
            self._add_term(self._document(entity_id), predicate, obj.language, obj.value)

    def _add_article(self, article: str, entity_id: str) -> None:
        document = self._document(entity_id)
        self.lists_all = self.lists_all or article.startswith(_DATA)
        if article.startswith(_ARTICLE):
            self.has_sitelinks = True
            title = unquote(article.removeprefix(_ARTICLE)).replace("_", " ")
            document["sitelinks"]["enwiki"] = {"title": title}

    def _add_count(self, entity_id: str, number: str) -> None:
        self.has_sitelinks = True
        self._document(entity_id)
        if number.isascii() and number.isdecimal() and len(number) < 10:
            self.sitelinks[entity_id] = max(int(number), self.sitelinks.get(entity_id, 0))

    @staticmethod
    def _add_term(document: dict[str, Any], predicate: str, language: str, value: str) -> None:
        if predicate == _ALIAS:
            aliases = document["aliases"].setdefault(language, [])
            if {"value": value} not in aliases:
                aliases.append({"value": value})
        else:
            terms = document["labels" if predicate == _LABEL else "descriptions"]
            # A language has one label; of a broken file's several the first in order of the alphabet stays.
            terms[language] = {"value": min(value, terms.get(language, {"value": value})["value"])}


def read_terms(dump: DumpFile, ids: Sequence[str], aside: Aside, log: logging.Logger) -> DumpTerms:
    """What the dump tells of the entities `ids`; unreadable lines of theirs are put aside. Errors: `SourceError`."""
    wanted = frozenset(entity_id.encode() for entity_id in ids)
    terms = DumpTerms()
    unchecked = Aside()  # lines of other entities: put aside with the facts already
    for chunk in checked(dump, unchecked, log):
        for triple in _triples(chunk, sorted(_wanted_lines(chunk.data, wanted)), aside):
            terms.add(triple)
    return terms


def _wanted_lines(data: bytes, wanted: frozenset[bytes]) -> set[tuple[int, int]]:
    spans = set()
    for position in _marked(data):
        start = data.rfind(b"\n", 0, position) + 1
        head = _HEAD.match(data, start)
        if head and (head["subject"] or head["object"]) in wanted:
            spans.add((start, data.find(b"\n", position) + 1))
    return spans


def _marked(data: bytes) -> Iterator[int]:
    yield from (match.start() for match in _TERM_MARK.finditer(data))
    for mark in _OTHER_MARKS:
        position = data.find(mark)
        while position >= 0:
            yield position
            position = data.find(mark, position + 1)


def _triples(chunk: Chunk, spans: list[tuple[int, int]], aside: Aside) -> Iterator[ox.Quad]:
    lines = [chunk.data[start:end] for start, end in spans]
    try:
        yield from list(ox.parse(b"".join(lines), format=ox.RdfFormat.N_TRIPLES))
    except SyntaxError:
        for (start, _), line in zip(spans, lines, strict=True):
            triple = parse_line(line, chunk, start, aside)
            if triple is not None:
                yield triple
