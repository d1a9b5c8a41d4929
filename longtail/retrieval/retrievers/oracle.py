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
        from longtail.scoring.match import has_answer

        articles: dict[str, list[Passage]] = defaultdict(list)
        for passage in context.passages.about({query.subject_id for query in queries if query.subject_id}):
            articles[passage.entity_id or ""].append(passage)
        for article in articles.values():
            article.sort(key=lambda passage: passage.position)
        hits = []
        for query in queries:
            article = articles.get(query.subject_id or "", [])
            first = next(
                (passage for passage in article if has_answer(passage.text, query.gold_answers)), None
            )
            hits.append([Hit(first.passage_id, None)] if first else [])
        return hits
