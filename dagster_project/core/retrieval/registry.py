"""The retrievers by name, as import strings: listing them imports neither torch nor faiss."""

from __future__ import annotations

import importlib

from dagster_project.core.errors import IndexMissingError
from dagster_project.core.retrieval.base import Retriever

RETRIEVER_CLASSES: dict[str, str] = {
    "bm25": "dagster_project.core.retrieval.bm25:Bm25",
    "dense": "dagster_project.core.retrieval.dense:Dense",
    "oracle": "dagster_project.core.retrieval.oracle:Oracle",
}
INDEXED = ("bm25", "dense")
"""The retrievers that search a stored index."""


def load_retriever(name: str) -> Retriever:
    """The retriever called `name`. Errors: `IndexMissingError` listing the names there are."""
    if name not in RETRIEVER_CLASSES:
        raise IndexMissingError(f"unknown retriever {name!r}: use one of {', '.join(RETRIEVER_CLASSES)}")
    module, _, attribute = RETRIEVER_CLASSES[name].partition(":")
    retriever: Retriever = getattr(importlib.import_module(module), attribute)()
    return retriever
