"""Passages fixed per fact: those found for another fact of its relation (SPEC §8)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from longtail.methods import CONDITION, RETRIEVAL, Method
from longtail.retrieval.base import Context, Hit, Query, Retriever
from longtail.retrieval.retrievers.random import draws
from longtail.retrieval.retrievers.relevant import Found, group_by_fact, hits_of

RETRIEVER = Method(
    "irrelevant_cohesive",
    "the best passage for another fact of the same relation, drawn at random, stands before the question",
    RETRIEVAL,
    retriever=f"{__name__}:CohesivePassages",
    may_find_nothing=True,
    is_borrower=True,
    is_seeded=True,
    passages=CONDITION,
)


class CohesivePassages(Retriever):
    """The passages that `RelevantPassages` gives another fact, drawn among the facts of the same dataset and relation.

    A fact with the same subject is not another one, nor is one with the same question (of a namesake, or listed twice),
    since its passages would be relevant, nor one without passages. All `queries` are its facts: a question without a
    relation, or alone in it, has no hit.
    """

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        found = group_by_fact(context.others or {})
        facts: dict[tuple[str, str | None], list[Query]] = defaultdict(list)
        for query in sorted(queries, key=lambda query: query.key):
            if (query.dataset, query.question_id) in found:
                facts[query.dataset, query.relation].append(query)
        return [_of_another(context, found, query, facts[query.dataset, query.relation]) for query in queries]


def _of_another(context: Context, found: Found, query: Query, facts: Sequence[Query]) -> list[Hit]:
    if query.relation is not None:
        for row in draws(context.seed, query.dataset, query.question_id, len(facts)):
            fact = facts[row]
            same_subject = query.subject_id is not None and fact.subject_id == query.subject_id
            if fact.text != query.text and not same_subject:
                return hits_of(context, found, fact)
    return []
