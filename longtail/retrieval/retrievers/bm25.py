"""BM25, in the variants of bm25s, over title and text."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.methods import RETRIEVAL, Method, key
from longtail.study.reader import Reader

VARIANTS = ("lucene", "robertson", "atire", "bm25l", "bm25+")
WITH_DELTA = ("bm25l", "bm25+")
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
class Bm25Settings:
    """A `variant` of bm25s with its `k1` and `b`, and with `delta` if it is one of `WITH_DELTA`.

    `tokens` says what a token is. Tokens that are `stop_words` of a language do not count; then the others are stemmed by
    the `stemmer` of a language.
    """

    k1: float = key("", 1.5)
    b: float = key("", 0.75)
    variant: str = key("or `robertson`, `atire`, `bm25l`, `bm25+`", "lucene")
    delta: float = key("of bm25l and bm25+", 0.5)
    stop_words: str | None = key("a language", None)
    stemmer: str | None = key("a language", None)
    tokens: str = key(
        "or `cjk_bigrams`: pairs of characters where words have no boundaries, as in Chinese, Japanese, Thai",
        WORDS,
    )


def _read(read: Reader) -> Bm25Settings:
    variant = read.choice("variant", VARIANTS, Bm25Settings.variant)
    if "delta" in read.raw and variant not in WITH_DELTA:
        raise read.fail("delta", f"goes with variant: {' or '.join(WITH_DELTA)}")
    return Bm25Settings(
        k1=read.real("k1", Bm25Settings.k1, 0, 100),
        b=read.share("b", Bm25Settings.b),
        variant=variant,
        delta=read.real("delta", Bm25Settings.delta, 0, 100),
        stop_words=read.optional("stop_words", lambda key: read.choice(key, STOP_WORDS)),
        stemmer=read.optional("stemmer", lambda key: read.choice(key, STEMMERS)),
        tokens=read.choice("tokens", (WORDS, CJK_BIGRAMS), WORDS),
    )


RETRIEVER = Method(
    "bm25",
    "the best passage by BM25 stands before the question",
    RETRIEVAL,
    retriever="longtail.retrieval.bm25:Bm25",
    index="bm25s",
    settings=Bm25Settings(),
    read=_read,
    is_default=True,
)
