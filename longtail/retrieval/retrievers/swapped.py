"""Swapped passages: right but for their object, replaced by another one of the relation (SPEC §11, conflicts)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from longtail.methods import CONDITION, RETRIEVAL, Method
from longtail.relations.relation import Relation
from longtail.retrieval.base import Context, Hit, Query, Retriever, Written
from longtail.retrieval.retrievers.random import draws
from longtail.retrieval.retrievers.relevant import group_by_fact, hits_of
from longtail.scoring.match import has_answer, has_answer_popqa

RETRIEVER = Method(
    "swapped",
    "a passage on the fact, whose object is replaced by that of another fact of its relation, stands before the question",
    RETRIEVAL,
    retriever=f"{__name__}:SwappedPassages",
    may_find_nothing=True,
    is_borrower=True,
    is_seeded=True,
    passages=CONDITION,
)
_Names = tuple[str, ...]
"""All names of what a question asks for; the first one is its label."""


class SwappedPassages(Retriever):
    """The first passage of `relevant` that names the object, else the fact's own sentence, with another object.

    The other object is drawn among those of the dataset and relation. It is none of the right answers, and it has digits
    where the right one has. A question has no hit where there is no such object, where the subject's name contains an
    answer, or where neither a passage names the object nor the relation has a sentence.
    """

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        found = group_by_fact(context.others or {})
        hits = [hits_of(context, found, query) for query in queries]
        ids = {hit.passage_id for own in hits for hit in own}
        texts = {passage_id: written.text for passage_id, written in context.from_elsewhere.items()}
        texts |= context.passages.texts(ids - texts.keys())
        objects: dict[tuple[str, str | None], set[_Names]] = defaultdict(set)
        for query in queries:
            if query.gold_answers:
                objects[query.dataset, query.relation].add(query.gold_answers)
        ordered = {key: sorted(names) for key, names in objects.items()}
        return [
            _hits(
                context.seed,
                query,
                own,
                texts,
                ordered.get((query.dataset, query.relation), []),
                context.relations.get(query.relation or ""),
            )
            for query, own in zip(queries, hits, strict=True)
        ]


def _hits(
    seed: int,
    query: Query,
    found: Sequence[Hit],
    texts: Mapping[str, str],
    objects: Sequence[_Names],
    relation: Relation | None,
) -> list[Hit]:
    other = _other_object(seed, query, objects)
    if other is None or has_answer(query.subject, query.gold_answers):
        return []
    originals: list[tuple[str | None, str]] = [(hit.passage_id, texts[hit.passage_id]) for hit in found]
    if relation is not None and relation.statement:
        originals.append((None, relation.sentence(query.subject, query.gold_answers[0])))
    for original, text in originals:
        written = swap(text, query.gold_answers, other[0])
        if written is not None:
            passage_id = f"swapped:{query.dataset}:{query.question_id}"
            return [Hit(passage_id, None, Written(written, original, other, query.subject))]
    return []


def _other_object(seed: int, query: Query, objects: Sequence[_Names]) -> _Names | None:
    if query.relation is not None and query.gold_answers:
        for row in draws(seed, query.dataset, query.question_id, len(objects)):
            names = objects[row]
            has_digits, wanted = (any(map(str.isdigit, name)) for name in (names[0], query.gold_answers[0]))
            is_right = any(  # by some rule
                has_answer(name, query.gold_answers) or has_answer_popqa(name, query.gold_answers)
                for name in names
            )
            if has_digits == wanted and not is_right:
                return names
    return None


def swap(text: str, answers: _Names, replacement: str) -> str | None:
    """The text with `replacement` for each of the answers, whole words in any case, the longest name first.

    None where no answer stands in the text, or where one is left, since it is spelt in another way.
    """
    names = "|".join(re.escape(name) for name in sorted(answers, key=len, reverse=True) if name.strip())
    changed, n = re.subn(rf"(?<!\w)(?:{names})(?!\w)", lambda _: replacement, text, flags=re.IGNORECASE)
    return changed if n and not has_answer(changed, answers) else None
