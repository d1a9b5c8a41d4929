"""Passages fixed per fact: those found for one wording of the fact (SPEC §8)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from longtail.methods import CONDITION, RETRIEVAL, Method
from longtail.retrieval.base import Context, Hit, Query, Results, Retriever
from longtail.retrieval.retrievers.random import draws

RETRIEVER = Method(
    "relevant",
    "the best passage for one wording of the fact, drawn at random, stands before all its wordings",
    RETRIEVAL,
    retriever=f"{__name__}:RelevantPassages",
    is_borrower=True,
    is_seeded=True,
    passages=CONDITION,
)
Found = Mapping[tuple[str, str], Sequence[Sequence[str]]]
"""From (dataset, question id) to the passage ids found for each of its wordings, in the order of paraphrase_id."""


class RelevantPassages(Retriever):
    """The passages of one wording, drawn among the wordings that passages were found for; without a score."""

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        found = group_by_fact(context.others or {})
        return [hits_of(context, found, query) for query in queries]


def group_by_fact(results: Mapping[str, Results]) -> Found:
    """The results of one retriever, gathered by question."""
    found: dict[tuple[str, str], list[Sequence[str]]] = defaultdict(list)
    for of_retriever in results.values():
        for (dataset, question_id, _), passage_ids in sorted(of_retriever.items(), key=lambda item: item[0]):
            found[dataset, question_id].append(passage_ids)
    return found


def hits_of(context: Context, found: Found, query: Query) -> list[Hit]:
    """The passages of one wording of a question, as hits; none if none of its wordings has any."""
    wordings = found.get((query.dataset, query.question_id))
    if not wordings:
        return []
    row = next(draws(context.seed, query.dataset, query.question_id, len(wordings)))
    return [Hit(passage_id, None) for passage_id in wordings[row][: context.k]]
