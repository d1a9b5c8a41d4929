"""The sandbox's world as N-Triples, in the form of Wikidata's RDF dumps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from longtail.sandbox.world import World, WorldEntity

ENTITY = "http://www.wikidata.org/entity/"
DIRECT = "http://www.wikidata.org/prop/direct/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
ALIAS = "http://www.w3.org/2004/02/skos/core#altLabel"
DESCRIPTION = "http://schema.org/description"
SITELINKS = "http://wikiba.se/ontology#sitelinks"
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
ARTICLE = "http://schema.org/Article"
ABOUT = "http://schema.org/about"
PART_OF = "http://schema.org/isPartOf"
NAME = "http://schema.org/name"
IN_LANGUAGE = "http://schema.org/inLanguage"
WIKI = "https://en.wikipedia.org/"

_ESCAPES = {ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


def article_url(title: str) -> str:
    """The address of an article, escaped as in MediaWiki."""
    return f"{WIKI}wiki/{quote(title.replace(' ', '_'), safe='~!*()@;:/,-._')}"


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
        article = f"<{article_url(entity.article_title)}>"
        yield f"{article} <{TYPE}> <{ARTICLE}> .\n"
        yield f"{article} <{ABOUT}> {subject} .\n"
        yield f"{article} <{IN_LANGUAGE}> {literal('en', '')} .\n"
        yield f"{article} <{PART_OF}> <{WIKI}> .\n"
        yield f"{article} <{NAME}> {literal(entity.article_title)} .\n"


def lines(world: World) -> Iterator[str]:
    """Every line of the world's RDF as a stream: entities first, then facts."""
    for entity in world.entities():
        yield from entity_lines(entity)
    for triple in world.triples():
        yield (
            f"<{ENTITY}{triple.subject_id}> <{DIRECT}{triple.property_id}> <{ENTITY}{triple.object_id}> .\n"
        )
