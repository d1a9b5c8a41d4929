"""Which answered questions stand before a question: SPEC §3.

A draw is a function of (seed, dataset, key) and the pool alone, never of the order in which questions come: `key` is
the question's id under `per_question`, and its relation's name under `per_relation`. The question itself and questions
of the same wording are never drawn.

The demonstrations of a question without a relation are drawn from all other questions of its dataset. Under
`per_relation` such questions share one draw. In the draws of the others they count as questions of one more relation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from longtail.generation.prompts.build import Question
from longtail.study.prompts import Prompt

_WHOLE_POOL = "all questions"
_NO_RELATION = ""


class Demonstrations:
    """The pool of one dataset's questions, and draws from it."""

    def __init__(self, dataset: str, questions: Iterable[Question], seed: int) -> None:
        self._stem = f"{seed}\n{dataset}"
        self._all = sorted(questions, key=lambda q: q.question_id)
        self._by_relation: dict[str, list[Question]] = {}
        for question in self._all:
            self._by_relation.setdefault(question.relation or _NO_RELATION, []).append(question)
        self._shared: dict[tuple[str, int, str], tuple[Question, ...]] = {}

    def draw(self, question: Question, prompt: Prompt) -> tuple[Question, ...]:
        """The prompt's `shots` demonstrations for a question, shuffled; fewer only where the dataset holds no more.

        From `other_relations` they are spread evenly over them (15 shots and 16 relations: one each), and come from
        the question's own relation only when the others are used up. From `all_questions`, and for a question without
        a relation, they are a simple random sample of the dataset.
        """
        if not prompt.shots:
            return ()
        relation = question.relation or _NO_RELATION
        if prompt.draw == "per_question":
            return self._draw(question.question_id, relation, prompt, question)
        shared = self._shared_draw(relation, prompt)
        if any(_is_same(drawn, question) for drawn in shared):
            return self._draw(relation, relation, prompt, question)
        return shared

    def _shared_draw(self, relation: str, prompt: Prompt) -> tuple[Question, ...]:
        """The draw for all questions of a relation, except those that are drawn themselves."""
        key = (relation, prompt.shots, prompt.demonstrations_from)
        if key not in self._shared:
            self._shared[key] = self._draw(relation, relation, prompt, None)
        return self._shared[key]

    def _draw(self, key: str, relation: str, prompt: Prompt, barred: Question | None) -> tuple[Question, ...]:
        chance = _Chance(f"{self._stem}\n{key}")
        if prompt.demonstrations_from == "all_questions" or relation == _NO_RELATION:
            chosen = list(islice(_stream(self._all, chance, _WHOLE_POOL, barred), prompt.shots))
        else:
            others = [name for name in self._by_relation if name != relation]
            others.sort(key=lambda name: chance.number("relations", name))
            chosen = self._spread(others, prompt.shots, chance, barred)
            chosen += self._spread([relation], prompt.shots - len(chosen), chance, barred)
        return tuple(sorted(chosen, key=lambda q: chance.number("order", q.question_id)))

    def _spread(
        self, relations: Sequence[str], n: int, chance: _Chance, barred: Question | None
    ) -> list[Question]:
        """Up to `n` questions, in turn one of each relation."""
        streams = [_stream(self._by_relation.get(name, []), chance, name, barred) for name in relations]
        chosen: list[Question] = []
        while streams and len(chosen) < n:
            for stream in list(streams):
                if len(chosen) == n:
                    break
                drawn = next(stream, None)
                if drawn is None:
                    streams.remove(stream)
                else:
                    chosen.append(drawn)
        return chosen


class _Chance:
    """Random numbers that follow from a key and the numbers' own names."""

    def __init__(self, key: str) -> None:
        self._begun = hashlib.sha256(key.encode("utf-8", "surrogatepass"))

    def number(self, kind: str, name: str) -> int:
        """A number of 64 bits."""
        digest = self._begun.copy()
        digest.update(f"\n{kind}\n{name}".encode("utf-8", "surrogatepass"))
        return int.from_bytes(digest.digest()[:8], "big")


def _stream(
    pool: Sequence[Question], chance: _Chance, pool_name: str, barred: Question | None
) -> Iterator[Question]:
    """The pool in random order, without repetition (Fisher-Yates on demand), without what is `barred`."""
    moved: dict[int, int] = {}
    for i in range(len(pool)):
        j = i + chance.number(pool_name, str(i)) % (len(pool) - i)
        drawn = pool[moved.get(j, j)]
        moved[j] = moved.get(i, i)
        if barred is None or not _is_same(drawn, barred):
            yield drawn


def _is_same(one: Question, other: Question) -> bool:
    return one.question_id == other.question_id or one.question == other.question
