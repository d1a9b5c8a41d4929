"""SPEC §9 word by word, one step after the other: what the compiled loops are compared with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from longtail.grounding.portrait import WIDTH, Corpus, Texts


def normalised(text: str) -> str:
    """Runs of line ends, other white space, white space after a line end, both ends: in this order."""
    text = re.sub(r"[\r\n]+", "\n", text)
    text = re.sub(r"[^\S\n]+", " ", text)
    text = re.sub(r"\n\s+", "\n", text)
    return text.strip()


def grams(text: str) -> list[str]:
    """All 25-grams of the normalised text."""
    text = normalised(text)
    return [text[i : i + WIDTH] for i in range(len(text) - WIDTH + 1)]


def texts_of(texts: Sequence[str]) -> Texts:
    """Texts of Python, also those with lone surrogates, which Arrow cannot hold."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return Texts(np.frombuffer(b"".join(encoded), np.uint8), offsets)


def corpus_of(texts: Sequence[str], at_once: int = 100) -> Corpus:
    """The texts in batches."""
    return lambda: [texts_of(texts[i : i + at_once]) for i in range(0, len(texts), at_once)]


def share_in(corpus: Iterable[str]) -> Callable[[str], float | None]:
    """The exact QUIP of a text; None where it is undefined."""
    known = {gram for text in corpus for gram in grams(text)}

    def share(text: str) -> float | None:
        own = grams(text)
        return sum(gram in known for gram in own) / len(own) if own else None

    return share
