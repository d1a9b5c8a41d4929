"""Passages fixed per fact: those found for one wording of the fact, or of another fact of its relation (SPEC §8).

What belongs here: which wording, and which other fact. Both are seeded draws. What does not: which retriever found the
passages (`Study.results_read_by`), reading its results (`retrieve`), and passages of no fact (`random_passages`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from dagster_project.core.retrieval.base import Context, Hit, Query, Results, Retriever
from dagster_project.core.retrieval.random_passages import draws

Found = Mapping[tuple[str, str], Sequence[Sequence[str]]]
"""From (dataset, question id) to the passage ids found for each of its wordings, in the order of paraphrase_id."""


class RelevantPassages(Retriever):
    """The passages of one wording, drawn among the wordings that passages were found for; without a score."""

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        found = found_by_fact(context.others or {})
        return [_hits(context, found, query) for query in queries]


class CohesivePassages(Retriever):
    """The passages that `RelevantPassages` gives another fact, drawn among the facts of the same dataset and relation.

    A fact with the same subject is not another one, nor is one with the same question (of a namesake, or listed twice),
    since its passages would be relevant, nor one without passages. All `queries` are its facts: a question without a
    relation, or alone in it, has no hit.
    """

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        found = found_by_fact(context.others or {})
        facts: dict[tuple[str, str | None], list[Query]] = defaultdict(list)
        for query in sorted(queries, key=lambda query: query.key):
            if (query.dataset, query.question_id) in found:
                facts[query.dataset, query.relation].append(query)
        return [_of_another(context, found, query, facts[query.dataset, query.relation]) for query in queries]


def found_by_fact(results: Mapping[str, Results]) -> Found:
    """The results of one retriever, gathered by question."""
    found: dict[tuple[str, str], list[Sequence[str]]] = defaultdict(list)
    for of_retriever in results.values():
        for (dataset, question_id, _), passage_ids in sorted(of_retriever.items(), key=lambda item: item[0]):
            found[dataset, question_id].append(passage_ids)
    return found


def _hits(context: Context, found: Found, query: Query) -> list[Hit]:
    wordings = found.get((query.dataset, query.question_id))
    if not wordings:
        return []
    row = next(draws(context.seed, query.dataset, query.question_id, len(wordings)))
    return [Hit(passage_id, None) for passage_id in wordings[row][: context.k]]


def _of_another(context: Context, found: Found, query: Query, facts: Sequence[Query]) -> list[Hit]:
    if query.relation is not None:
        for row in draws(context.seed, query.dataset, query.question_id, len(facts)):
            if _is_another(facts[row], query):
                return _hits(context, found, facts[row])
    return []


def _is_another(fact: Query, query: Query) -> bool:
    same_subject = query.subject_id is not None and fact.subject_id == query.subject_id
    return fact.text != query.text and not same_subject
