"""BM25 over title and text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from longtail.methods import RETRIEVAL, Method
from longtail.study.parts import Part
from longtail.study.values import Share, number, one_of

WORDS, CJK_BIGRAMS = "words", "cjk_bigrams"
"""What a token is."""
STOP_WORDS = (
    *("english", "english_plus", "chinese", "danish", "dutch", "french", "german", "italian", "korean"),
    *("norwegian", "portuguese", "russian", "spanish", "swedish", "turkish"),
)  # fmt: skip
"""The lists of bm25s."""
STEMMERS = (
    *("arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian", "italian"),
    *("norwegian", "porter", "portuguese", "romanian", "russian", "spanish", "swedish", "turkish"),
)  # fmt: skip
"""Algorithms of Snowball (package PyStemmer)."""


@dataclass(frozen=True)
class Bm25Settings(Part):
    """Lucene's BM25 with its `k1` and `b`.

    `tokens` says what a token is. Tokens that are `stop_words` of a language do not count; then the others are stemmed by
    the `stemmer` of a language.
    """

    k1: Annotated[float, number(0, 100)] = 1.5
    """how slowly repetitions of a word lose weight"""
    b: Share = 0.75
    """how much long passages lose"""
    stop_words: Annotated[str, one_of(STOP_WORDS)] | None = None
    """a language"""
    stemmer: Annotated[str, one_of(STEMMERS)] | None = None
    """a language"""
    tokens: Annotated[str, one_of((WORDS, CJK_BIGRAMS))] = WORDS
    """or `cjk_bigrams`: pairs of characters where words have no boundaries, as in Chinese, Japanese, Thai"""


RETRIEVER = Method(
    "bm25",
    "the best passage by BM25 stands before the question",
    RETRIEVAL,
    retriever="longtail.retrieval.bm25:Bm25",
    index="bm25s",
    settings=Bm25Settings(),
    is_default=True,
)
