"""BM25 over a world's articles: what a Fusion-in-Decoder reader gets for a query."""

from __future__ import annotations

from collections.abc import Sequence

from longtail.relations.cloze import SENTINEL
from longtail.sandbox.world import World


def passage_of(title: str, text: str) -> str:
    """A passage as a Fusion-in-Decoder reader gets it."""
    return f"title: {title} context: {text}"


def title_of(passage: str) -> str:
    """A passage's beginning, up to its title."""
    return passage.partition(" context: ")[0]


def name_of(passage: str) -> str:
    """The name in a passage's title, without what tells namesakes apart: `Ada Kul` of `title: Ada Kul (athlete) …`."""
    return title_of(passage).removeprefix("title: ").partition(" (")[0]


class Search:
    """BM25 over the passages of one world."""

    def __init__(self, world: World) -> None:
        import bm25s

        self._passages = [passage_of(one.title, one.text) for _, one in world.articles()]
        self._index = bm25s.BM25()
        self._index.index(bm25s.tokenize(self._passages, show_progress=False), show_progress=False)

    def find(self, queries: Sequence[str], n_passages: int) -> list[tuple[str, ...]]:
        """The first passages of each query, best first."""
        import bm25s

        tokens = bm25s.tokenize([query.replace(SENTINEL, "") for query in queries], show_progress=False)
        hits, _ = self._index.retrieve(tokens, k=n_passages, show_progress=False)
        return [tuple(self._passages[int(place)] for place in row) for row in hits]
