"""Cloze queries: sentences that name a subject and leave a place for the object (SPEC §8)."""

from __future__ import annotations

import re

SUBJECT, OBJECT = "[X]", "[Y]"
SENTINEL = "<extra_id_0>"
"""Stands for the object in what a T5 reads, and before it in what a T5 writes."""
WORD_START = "\u2581"
"""The piece with which a word begins in a vocabulary of SentencePiece; alone it is token 3 of T5's."""
_END = re.compile(r"\s*\.?\s*")
_ARTICLE = re.compile(r"(?:\A|\s)(an?)\s+\Z", re.IGNORECASE)


def prefix_of(cloze: str) -> str | None:
    """What a decoder-only model reads: the words before [Y]; None unless [Y] ends the text, but for a full stop."""
    before, _, behind = cloze.partition(OBJECT)
    return before.rstrip(" ") if OBJECT in cloze and _END.fullmatch(behind) else None


def with_sentinel(cloze: str) -> str:
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
    found = _ARTICLE.search(pattern.partition(OBJECT)[0])
    return found[1].lower() if found else None


def filled(pattern: str, subject: str) -> str:
    """The pattern with its subject. The object's place stays."""
    before, after = pattern.split(SUBJECT)
    return before + subject + after
