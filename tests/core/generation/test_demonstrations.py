"""The draw of demonstrations: spread, seeded, independent of order, never the question itself."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_project.core.generation.demonstrations import Demonstrations
from dagster_project.core.generation.prompts import Question


def pool(sizes: list[int], namesakes: bool = False) -> list[Question]:
    return [
        Question(f"Q{i}-P{r}", f"r{r}", f"{r}: who is {i // 2 if namesakes else i}?", f"answer {i}")
        for r, size in enumerate(sizes)
        for i in range(size)
    ]


@pytest.mark.parametrize("draw", ["per_question", "per_relation"])
def test_fifteen_shots_are_one_of_each_other_relation(draw: str) -> None:
    questions = pool([30] * 16)
    demonstrations = Demonstrations("d", questions, seed=1)
    for question in questions[::17]:
        drawn = demonstrations.draw(question, 15, draw)
        others = {f"r{r}" for r in range(16)} - {question.relation}
        assert sorted(d.relation for d in drawn) == sorted(others)


def test_per_relation_shares_a_draw_and_per_question_does_not() -> None:
    questions = pool([30] * 16)
    demonstrations = Demonstrations("d", questions, seed=1)
    shared = {demonstrations.draw(q, 15, "per_relation") for q in questions[:30]}
    own = {demonstrations.draw(q, 15, "per_question") for q in questions[:30]}
    assert (len(shared), len(own)) == (1, 30)
    first = Counter(demonstrations.draw(q, 15, "per_question")[0].relation for q in questions[:30])
    assert len(first) > 5


def test_every_question_is_drawn_about_as_often() -> None:
    questions = pool([600, 6])
    demonstrations = Demonstrations("d", questions, seed=3)
    counts = Counter(demonstrations.draw(q, 1, "per_question")[0].question_id for q in questions[:600])
    assert set(counts) == {f"Q{i}-P1" for i in range(6)}
    chi_squared = sum((n - 100) ** 2 / 100 for n in counts.values())
    assert chi_squared < 20.5  # p = 0.001 at 5 degrees of freedom


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=5).filter(lambda sizes: sum(sizes) > 0),
    st.integers(0, 12),
    st.sampled_from(["per_question", "per_relation"]),
    st.integers(0, 3),
    st.booleans(),
)
def test_draws(sizes: list[int], shots: int, draw: str, seed: int, namesakes: bool) -> None:
    questions = pool(sizes, namesakes)
    shuffled = list(questions)
    random.Random(seed).shuffle(shuffled)
    one, other = Demonstrations("d", questions, seed), Demonstrations("d", shuffled, seed)
    for question in questions:
        drawn = one.draw(question, shots, draw)
        assert drawn == other.draw(question, shots, draw)
        usable = [q for q in questions if q.question != question.question]
        assert len(drawn) == min(shots, len(usable))
        assert len({d.question_id for d in drawn}) == len(drawn)
        assert not any(d.question == question.question for d in drawn)
        elsewhere = Counter(q.relation for q in usable if q.relation != question.relation)
        counts = Counter(d.relation for d in drawn)
        if counts[question.relation]:
            assert all(counts[name] == n for name, n in elsewhere.items())
        fewest = min((counts[name] for name, n in elsewhere.items() if counts[name] < n), default=99)
        assert all(counts[name] <= fewest + 1 for name in elsewhere)


def test_seed_and_dataset_change_the_draw() -> None:
    questions = pool([30] * 16)
    draws = {
        Demonstrations(dataset, questions, seed).draw(questions[0], 15, "per_question")
        for dataset in ("a", "b")
        for seed in (0, 1)
    }
    assert len(draws) == 4
