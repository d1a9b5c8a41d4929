"""Which questions stand, answered, before a question: SPEC §3.

What belongs here: the draw. What does not: how a demonstration is written down (`prompts`).

A draw is a function of (seed, dataset, key) and the pool alone, never of the order in which questions come:
`key` is the question's id under `per_question`, its relation's name under `per_relation`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from dagster_project.core.generation.prompts import Question


class Demonstrations:
    """The pool of one dataset's questions, and draws from it."""

    def __init__(self, dataset: str, questions: Iterable[Question], seed: int) -> None:
        self._stem = f"{seed}\n{dataset}"
        self._pool: dict[str, list[Question]] = {}
        for question in sorted(questions, key=lambda q: q.question_id):
            self._pool.setdefault(question.relation, []).append(question)

    def draw(self, question: Question, shots: int, draw: str | None) -> tuple[Question, ...]:
        """`shots` demonstrations for a question, shuffled; fewer only where the dataset holds no more.

        They are spread evenly over the other relations (15 shots and 16 relations: one each), and come from
        the question's own relation only when the others are used up. Never the question itself, nor one of
        its wording.
        """
        if not shots:
            return ()
        key = question.question_id if draw == "per_question" else question.relation
        others = [name for name in self._pool if name != question.relation]
        chosen = self._spread(self._shuffled_names(key, others), shots, key, question)
        if len(chosen) < shots:
            chosen += self._spread([question.relation], shots - len(chosen), key, question)
        return tuple(sorted(chosen, key=lambda q: self._hash(key, "order", q.question_id)))

    def _spread(self, relations: Sequence[str], n: int, key: str, question: Question) -> list[Question]:
        """Up to `n` questions, by turns one of each relation."""
        streams = [self._stream(name, key, question) for name in relations]
        chosen: list[Question] = []
        while streams and len(chosen) < n:
            for stream in list(streams):
                drawn = next(stream, None)
                if drawn is None:
                    streams.remove(stream)
                elif len(chosen) < n:
                    chosen.append(drawn)
        return chosen

    def _stream(self, relation: str, key: str, question: Question) -> Iterator[Question]:
        """The relation's questions in random order, without repetition (Fisher-Yates on demand)."""
        pool = self._pool.get(relation, [])
        moved: dict[int, int] = {}
        for i in range(len(pool)):
            j = i + self._hash(key, relation, str(i)) % (len(pool) - i)
            drawn = pool[moved.get(j, j)]
            moved[j] = moved.get(i, i)
            if drawn.question_id != question.question_id and drawn.question != question.question:
                yield drawn

    def _shuffled_names(self, key: str, names: Iterable[str]) -> list[str]:
        return sorted(names, key=lambda name: self._hash(key, "relations", name))

    def _hash(self, *parts: str) -> int:
        text = "\n".join((self._stem, *parts))
        return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")
