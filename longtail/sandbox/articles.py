"""The sandbox's articles: a few plain sentences that state every fact of their subject.

The first sentence names the subject; later sentences mostly use pronouns, as in encyclopaedias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from longtail.sandbox.population import mix


@dataclass(frozen=True)
class Article:
    """One article: `title` is unique in its world, `text` is a few sentences, mostly under 100 words."""

    title: str
    text: str


# {s} subject, {p} its possessive, {m} its object form, {o} the object's label.
_CLAUSES: dict[str, tuple[str, ...]] = {
    "occupation": ("{s} worked as {a} {o}", "{p} occupation was {a} {o}", "{s} became known as {a} {o}"),
    "place of birth": ("{s} was born in {o}", "{p} birthplace is {o}", "{s} came into the world in {o}"),
    "father": ("{p} father is {o}", "{o} is {p} father", "{s} is the child of a father named {o}"),
    "mother": ("{p} mother is {o}", "{o} is {p} mother", "{s} is the child of a mother named {o}"),
    "religion": ("{s} follows {o}", "{p} religion is {o}", "{s} belongs to {o}"),
    "sport": ("{s} competes in {o}", "{p} sport is {o}", "{s} took up {o} early"),
    "genre": ("{p} genre is {o}", "{s} belongs to the genre {o}", "{s} is a work of {o}"),
    "director": ("{s} was directed by {o}", "{o} directed {m}", "{p} director was {o}"),
    "producer": ("{s} was produced by {o}", "{o} produced {m}", "{p} producer was {o}"),
    "screenwriter": ("{p} screenplay was written by {o}", "{o} wrote {p} script", "{p} screenwriter was {o}"),
    "composer": ("{p} music was composed by {o}", "{o} composed {p} music", "{p} composer was {o}"),
    "author": ("{s} was written by {o}", "{o} wrote {m}", "{p} author is {o}"),
    "country": ("{s} is in {o}", "{s} lies in {o}", "{p} country is {o}"),
    "capital of": ("{s} is the capital of {o}", "{s} serves as the capital of {o}", "{s} is the seat of {o}"),
    "capital": ("{p} capital is {o}", "{o} is {p} capital", "{s} has {o} as its capital"),
    "color": ("{p} color is {o}", "{s} is {o}", "{p} flowers are {o}"),
}

_FILLERS: dict[str, tuple[str, ...]] = {
    "person": ("{s} kept a diary from {year} on", "{s} moved house in {year}"),
    "film": ("{s} runs for {number} minutes", "{s} was first shown in {year}"),
    "book": ("{s} has {number} pages", "{s} was first printed in {year}"),
    "city": ("{s} has {number} streets", "{s} was first mentioned in {year}"),
    "region": ("{s} has {number} villages", "{p} borders were drawn in {year}"),
    "cultivar": ("{s} grows to {number} centimetres", "{s} was first grown in {year}"),
}

_NOUNS = {
    "person": "person",
    "film": "film",
    "book": "book",
    "city": "city",
    "region": "region",
    "cultivar": "garden flower",
    "country": "country",
    "occupation": "occupation",
    "genre": "genre",
    "color": "color",
    "religion": "religion",
    "sport": "sport",
}


@dataclass(frozen=True)
class _Words:
    """The names for a subject in a sentence: its label, or a pronoun."""

    subject: str
    possessive: str
    oblique: str

    def fill(self, clause: str, **values: object) -> str:
        return clause.format(s=self.subject, p=self.possessive, m=self.oblique, **values)


def _pronouns(kind: str, is_female: bool) -> _Words:
    if kind != "person":
        return _Words("it", "its", "it")
    return _Words("she", "her", "her") if is_female else _Words("he", "his", "him")


def enumerate_names(labels: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(labels) == 1:
        return labels[0]
    return f"{', '.join(labels[:-1])} and {labels[-1]}"


def article_text(
    label: str,
    kind: str,
    is_female: bool,
    facts: Sequence[tuple[str, Sequence[str]]],
    draw: int,
    noun: str | None = None,
) -> str:
    """Three to five sentences on `label`; `facts` are (relation name, object labels).

    `draw` decides the wording; `noun` names what the subject is, if its kind alone does not.
    """
    noun = noun or _NOUNS[kind]
    name = _Words(label, f"{label}'s", label)
    pronoun = _pronouns(kind, is_female)
    sentences = [f"{label} is {_article(noun)} {noun}"]
    clauses = [
        _clause(relation, objects, name if mix(draw, place, 1) % 4 == 0 else pronoun, mix(draw, place, 2))
        for place, (relation, objects) in enumerate(facts)
    ]
    if kind in _FILLERS and len(facts) < 4:
        filler = _FILLERS[kind][mix(draw, 3) % 2]
        clauses.insert(
            mix(draw, 4) % (len(clauses) + 1),
            pronoun.fill(filler, year=1900 + mix(draw, 5) % 110, number=20 + mix(draw, 6) % 400),
        )
    if kind not in _FILLERS:
        clauses = ["it is known in many countries", "many people care about it"]
    step = 2 if len(clauses) > 4 else 1
    for start in range(0, len(clauses), step):
        sentence = " and ".join(clauses[start : start + step])
        sentences.append(sentence[0].upper() + sentence[1:])
    return " ".join(f"{sentence}." for sentence in sentences)


def _clause(relation: str, objects: Sequence[str], words: _Words, draw: int) -> str:
    shapes = _CLAUSES[relation]
    return words.fill(shapes[draw % len(shapes)], o=enumerate_names(objects), a=_article(objects[0]))


def _article(word: str) -> str:
    return "an" if word[0].lower() in "aeiou" else "a"
