"""Sentences: the first one of an answer, for models that ramble (SPEC §3), and all of a text.

A sentence ends with `.`, `!`, `?` or `…` if white space without a following lower-case letter comes next, or the end
of the text. Several such marks count as one; closing quotes and brackets belong to the sentence. A single full stop
does not end a sentence after a title or abbreviation that needs a name (`St.`, `Dr.`) or a number (`No.`). After an
initial or dotted letters (`J.`, `U.S.`), and after abbreviations that may end a sentence (`Jr.`, `Inc.`), it ends one
only before a word that opens sentences (`He`, `The`). A text without letters is not a sentence: `1. Paris` continues.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

SPLITTER = "longtail-1"
"""The name of these rules, recorded with the rows: it changes whenever a text would be split differently."""

_END = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s|$)")
_LAST_WORD = re.compile(r"(?:^|[\s(\[\"'“‘«])([^\s(\[\"'“‘«]*)$")
_DOTTED = re.compile(r"(?:[^\W\d_][-.]+)*[^\W\d_]|ph\.d|m\.sc|b\.sc", re.IGNORECASE)
_NO_MORE = re.compile(r"\s*\Z")
_NEXT_WORD = re.compile(r"[\s\"'“‘«(\[]*(\w*)(\.?)")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_EXPECTS_MORE = _words(
    """
    adm approx brig ca capt cf cmdr cmte col cpl dr e.g fr gen gov hon i.e insp lt maj messrs mlle mme mr
    mrs ms mt pres prof rep rev sen sgt st ste supt viz vs
    """
)
_NUMBERED = _words(
    """
    art ch fig no nos nr op p pp pt sec vol vols
    """
)
_MAY_END = _words(
    """
    al apr assn aug ave bldg blvd bros co corp dec dept dist esq est etc feb ft inc jan jr jul jun ltd mar
    mfg nov oct rd sep sept sq sr univ
    """
)
_OPENERS = _words(
    """
    a after an and as at before both but during for from he her his however i if in it its many my one
    others our she since some that the their then there these they this those to two was we when while who
    you your
    """
)


def first_sentence(text: str) -> str:
    """The text up to the end of its first sentence, with leading white space; without an end, the whole text."""
    return next(sentences(text), text)


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, none of them empty: joined, they are the text."""
    start = 0
    for end in _END.finditer(text):
        if _ends_sentence(text, start, end):
            yield text[start : end.end()]
            start = end.end()
    if start < len(text):
        yield text[start:]


def has_final_sentence(text: str) -> bool:
    """Whether text that is appended can no longer change the first sentence: the word after it is complete."""
    following = _NEXT_WORD.match(text, len(first_sentence(text)))
    return following is not None and bool(following[1]) and following.end() < len(text)


def _ends_sentence(text: str, start: int, end: re.Match[str]) -> bool:
    before = text[start : end.start()]
    if not any(char.isalpha() for char in before):
        return False
    if _NO_MORE.match(text, end.end()):
        return True
    following = _NEXT_WORD.match(text, end.end())
    word, stop = following.groups() if following else ("", "")
    if word[:1].islower():
        return False
    if not end[0].startswith(".") or end[0].startswith(".."):
        return True
    last = _LAST_WORD.search(before)
    abbreviation = last[1].lower() if last else ""
    if abbreviation in _EXPECTS_MORE or (abbreviation in _NUMBERED and word[:1].isdigit()):
        return False
    if abbreviation in _MAY_END or _DOTTED.fullmatch(abbreviation):
        is_initial = len(word) == 1 and stop
        return word.lower() in _OPENERS and not is_initial
    return True
