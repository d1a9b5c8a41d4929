"""Passages that a search outside Longtail found: for answers that were given elsewhere, with passages that nobody names.

No model here can be asked with them, since they are not known.
"""

from __future__ import annotations

from collections.abc import Sequence

from longtail.errors import BackendError
from longtail.methods import RETRIEVAL, Method
from longtail.retrieval.base import Context, Hit, Query, Retriever

RETRIEVER = Method(
    "elsewhere",
    "passages that a search outside Longtail found stand before the question: imported answers alone",
    RETRIEVAL,
    retriever=f"{__name__}:Elsewhere",
    may_find_nothing=True,
)


class Elsewhere(Retriever):
    """It finds nothing: its passages are known to those alone who asked the model."""

    def check(self) -> None:
        raise BackendError("its passages are not known here: leave it to studies whose models are all imported")

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        return [[] for _ in queries]
