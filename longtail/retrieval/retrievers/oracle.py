"""The oracle: the first passage of the subject's own article that holds a gold answer, else none (SPEC §4).

An upper bound for retrieval, not a retriever that could be used: it knows the subject and the answers. For a question
without a subject it finds nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from longtail.methods import BOUND, RETRIEVAL, Method
from longtail.retrieval.base import Context, Hit, Query, Retriever

if TYPE_CHECKING:
    from longtail.retrieval.stored_passages import Passage

RETRIEVER = Method(
    "oracle",
    "the first passage of the subject's article with a gold answer stands before the question",
    RETRIEVAL,
    retriever=f"{__name__}:Oracle",
    may_find_nothing=True,
    passages=BOUND,
    is_default=True,
)


class Oracle(Retriever):
    """The oracle as a `Retriever` without an index; at most one hit a question, without a score."""

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        articles: dict[str, list[Passage]] = defaultdict(list)
        for passage in context.passages.about({query.subject_id for query in queries if query.subject_id}):
            articles[passage.entity_id or ""].append(passage)
        for article in articles.values():
            article.sort(key=lambda passage: passage.position)
        return [_first_with_answer(articles.get(query.subject_id or "", []), query) for query in queries]


def _first_with_answer(article: Sequence[Passage], query: Query) -> list[Hit]:
    from longtail.scoring.match import has_answer

    for passage in article:
        if has_answer(passage.text, query.gold_answers):
            return [Hit(passage.passage_id, None)]
    return []
