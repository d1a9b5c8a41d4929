"""Cloze queries: sentences that name a subject and leave a place for the object (SPEC §8); and the patterns of those of
the sandbox (`pararel.yaml`).
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from dataclasses import dataclass

import yaml

SUBJECT, OBJECT = "[X]", "[Y]"
SENTINEL = "<extra_id_0>"
"""Stands for the object in what a T5 reads, and before it in what a T5 writes."""
WORD_START = "\u2581"
"""The piece with which a word begins in a vocabulary of SentencePiece; alone it is token 3 of T5's."""
_END = re.compile(r"\s*\.?\s*")
_ARTICLE = re.compile(r"(?:\A|\s)(an?)\s+\Z", re.IGNORECASE)


@dataclass(frozen=True)
class Pattern:
    """A line of a file of patterns, as ParaRel has them: a sentence with [X] and [Y], and what its words are."""

    pattern: str
    lemma: str
    extended_lemma: str
    tense: str


@functools.cache
def pararel_patterns() -> dict[str, tuple[Pattern, ...]]:
    """Property → the patterns of the sandbox's cloze queries, the first of which is the question."""
    file = importlib.resources.files(__package__) / "pararel.yaml"
    relations = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return {
        relation["property"]: tuple(Pattern(**pattern) for pattern in relation["patterns"])
        for relation in relations
    }


def prefix_of(cloze: str) -> str | None:
    """What a decoder-only model reads: the words before [Y]; None unless [Y] ends the text, but for a full stop."""
    before, _, behind = cloze.partition(OBJECT)
    return before.rstrip(" ") if OBJECT in cloze and _END.fullmatch(behind) else None


def put_sentinel(cloze: str) -> str:
    """What a T5 reads: the sentinel for [Y], and no space before it."""
    before, _, behind = cloze.partition(OBJECT)
    return f"{before.rstrip(' ')}{SENTINEL}{behind}"


def search_text(cloze: str) -> str:
    """What a retriever reads: the words around [Y], without the sign and the space before it (chosen).

    Atlas's retriever reads the reader's text, whose sentinel was never a token of its own vocabulary
    (facebookresearch/atlas, `src/atlas.py`, `retriever_tokenize`). docs/pararel.md compares what retrievers find.
    """
    before, _, behind = cloze.partition(OBJECT)
    return f"{before.rstrip(' ')}{behind}".lstrip(" ")


def article_before_object(pattern: str) -> str | None:
    """`a` or `an`, if it stands right before [Y]."""
    match = _ARTICLE.search(pattern.partition(OBJECT)[0])
    return match[1].lower() if match else None


def fill_subject(pattern: str, subject: str) -> str:
    """The pattern with its subject. The object's place stays."""
    before, after = pattern.split(SUBJECT)
    return before + subject + after
