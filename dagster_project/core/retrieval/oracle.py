"""The oracle: the first passage of the subject's own article that holds a gold answer, else none (SPEC §4).

An upper bound for retrieval, not a retriever that could be used: it knows the subject and the answers.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from dagster_project.core.retrieval.base import Hit, Passage, Query
from dagster_project.core.scoring.match import has_answer


class Oracle:
    """The oracle as a `Retriever` without an index; at most one hit a question, without a score."""

    def version(self) -> str:
        return ""

    def build(self, passages: Sequence[Passage], folder: Path, log: logging.Logger) -> None:
        raise NotImplementedError("the oracle reads the passages themselves: it has no index")

    def search(
        self, passages: Sequence[Passage], folder: Path, queries: Sequence[Query], k: int, log: logging.Logger
    ) -> list[list[Hit]]:
        articles: dict[str, list[Passage]] = defaultdict(list)
        for passage in passages:
            if passage.entity_id is not None:
                articles[passage.entity_id].append(passage)
        for article in articles.values():
            article.sort(key=lambda passage: passage.position)
        return [_first_with_answer(articles.get(query.subject_id, []), query) for query in queries]


def _first_with_answer(article: Sequence[Passage], query: Query) -> list[Hit]:
    for passage in article:
        if has_answer(passage.text, query.gold_answers):
            return [Hit(passage.passage_id, None)]
    return []
