"""Prompts: their texts, and the demonstrations before a question."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.generation.prompts.build import (
    Demonstrations,
    Passage,
    Passages,
    Question,
    bare_prompt,
    block,
    build_prompt,
    is_blank,
    text_as_read,
)
from longtail.methods import METHODS, VERBALISED
from longtail.prompt_formats import FORMATS
from longtail.study.prompts import DEMONSTRATION_POOLS, PROMPT_FORMATS, Prompt

ASKED = Question("Q1-P36", "capital", "What is the capital of Utopia?", "Amaurot")
SHOWN = Question("Q2-P50", "author", "Who is the author of Emma?", "Jane Austen")
BARE = Question("Q3-P22", "father", "Who is the father of Ann?", "Bo")
QA, LONG = FORMATS["qa"], FORMATS["question_answer"]
FOUND = {
    "Q1-P36": Passage("Q1-0", "Utopia is far. Its capital is"),
    "Q2-P50": Passage("Q2-0", "Emma. A book"),
}
PASSAGES = Passages(FOUND, FOUND)


def test_every_format_of_a_study_has_its_template() -> None:
    assert set(FORMATS) == set(PROMPT_FORMATS)
    assert bare_prompt("Why?", QA) == "Q: Why? A:"
    assert bare_prompt("Why?", LONG) == "Question: Why?\nAnswer:"
    assert bare_prompt("Why?", FORMATS["question"]) == "Why?"


def test_labels_that_look_like_templates_are_left_alone() -> None:
    assert bare_prompt("Who is {question} {0} \\1?", QA) == "Q: Who is {question} {0} \\1? A:"


def test_few_shot_with_and_without_passages() -> None:
    assert build_prompt(ASKED, QA, [SHOWN, BARE]) == (
        "Q: Who is the author of Emma? A: Jane Austen\n\nQ: Who is the father of Ann? A: Bo\n\n"
        "Q: What is the capital of Utopia? A:"
    )
    assert build_prompt(ASKED, QA, [SHOWN, BARE], PASSAGES) == (
        "Emma. A book\n\nQ: Who is the author of Emma? A: Jane Austen\n\n"
        "Q: Who is the father of Ann? A: Bo\n\n"
        "Utopia is far. Its capital is\n\nQ: What is the capital of Utopia? A:"
    )
    assert build_prompt(ASKED, LONG, [SHOWN], Passages(FOUND, {})) == (
        "Question: Who is the author of Emma?\nAnswer: Jane Austen\n\n"
        "Utopia is far. Its capital is\n\nQuestion: What is the capital of Utopia?\nAnswer:"
    )


@pytest.mark.parametrize("blank", ["", " ", "   "])
def test_a_question_with_a_blank_passage_appears_alone(blank: str) -> None:
    assert is_blank(blank)
    assert block(QA, "Why?", blank) == "Q: Why? A:"
    assert block(QA, "Why?", blank, "So") == "Q: Why? A: So"
    assert block(QA, "Why?", "x") == "x\n\nQ: Why? A:"
    assert not is_blank("\t")


@pytest.mark.parametrize("method", ["bm25", "dense", "oracle"])
def test_verbalised_passages_stay_whole(method: str) -> None:
    text = "Ada's occupation is writer. Ada was born in Rome."
    assert text_as_read(text, VERBALISED, METHODS[method]) == text


@given(st.text(alphabet="a. ", max_size=30))
def test_dense_passages_lose_their_last_piece(text: str) -> None:
    kept = ". ".join(text.split(". ")[:-1]) + "."
    assert text_as_read(text, "sandbox", METHODS["dense"]) == (kept if kept.strip(" ") != "." else text)
    others = (METHODS[name] for name in ("bm25", "oracle", "genread"))
    assert all(text_as_read(text, "sandbox", method) == text for method in others)


def pool(sizes: list[int], namesakes: bool = False) -> list[Question]:
    return [
        Question(f"Q{i}-P{r}", f"r{r}", f"{r}: who is {i // 2 if namesakes else i}?", f"answer {i}")
        for r, size in enumerate(sizes)
        for i in range(size)
    ]


def shots(n: int, draw: str | None, demonstrations_from: str = "other_relations") -> Prompt:
    return Prompt("p", shots=n, draw=draw, demonstrations_from=demonstrations_from)


def test_per_relation_shares_a_draw_and_per_question_does_not() -> None:
    questions = pool([30] * 16)
    demonstrations = Demonstrations("d", questions, seed=1)
    shared = {demonstrations.draw(q, shots(15, "per_relation")) for q in questions[:30]}
    own = {demonstrations.draw(q, shots(15, "per_question")) for q in questions[:30]}
    assert (len(shared), len(own)) == (1, 30)
    first = Counter(demonstrations.draw(q, shots(15, "per_question"))[0].relation for q in questions[:30])
    assert len(first) > 5


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=5).filter(lambda sizes: sum(sizes) > 0),
    st.integers(0, 12),
    st.sampled_from(["per_question", "per_relation"]),
    st.sampled_from(DEMONSTRATION_POOLS),
    st.integers(0, 3),
    st.booleans(),
)
def test_draws(
    sizes: list[int], n: int, draw: str, demonstrations_from: str, seed: int, namesakes: bool
) -> None:
    questions = pool(sizes, namesakes)
    shuffled = list(questions)
    random.Random(seed).shuffle(shuffled)
    prompt = shots(n, draw if n else None, demonstrations_from)
    one, other = Demonstrations("d", questions, seed), Demonstrations("d", shuffled, seed)
    expected = {question.question_id: one.draw(question, prompt) for question in questions}
    for question in shuffled:
        drawn = other.draw(question, prompt)
        assert drawn == expected[question.question_id]
        usable = [q for q in questions if q.question != question.question]
        assert len(drawn) == min(n, len(usable))
        assert len({d.question_id for d in drawn}) == len(drawn)
        assert not any(d.question == question.question for d in drawn)
        if demonstrations_from == "other_relations":
            check_spread(question, usable, drawn)


def check_spread(question: Question, usable: list[Question], drawn: tuple[Question, ...]) -> None:
    """By turns of each other relation; of its own only when the others are used up."""
    elsewhere = Counter(q.relation for q in usable if q.relation != question.relation)
    counts = Counter(d.relation for d in drawn)
    if counts[question.relation]:
        assert all(counts[name] == n for name, n in elsewhere.items())
    fewest = min((counts[name] for name, n in elsewhere.items() if counts[name] < n), default=99)
    assert all(counts[name] <= fewest + 1 for name in elsewhere)


@pytest.mark.parametrize("draw", ["per_question", "per_relation"])
def test_a_simple_random_sample_of_all_questions(draw: str) -> None:
    questions = pool([20, 20, 60])
    demonstrations = Demonstrations("d", questions, seed=5)
    drawn = [demonstrations.draw(q, shots(15, draw, "all_questions")) for q in questions]
    relations = Counter(d.relation for shown in drawn for d in shown)
    if draw == "per_relation":
        usual = Counter(drawn[40:]).most_common(1)[0][0]
        assert all(
            shown == usual for q, shown in zip(questions[40:], drawn[40:], strict=True) if q not in usual
        )
        assert all(len(set(usual) - set(shown)) <= 1 for shown in drawn[40:])
    else:
        assert len(set(drawn)) == 100
        counts = Counter(d.question_id for shown in drawn for d in shown)
        chi_squared = sum((counts[q.question_id] - 15) ** 2 / 15 for q in questions)
        assert (
            chi_squared < 149.4
        )  # p = 0.001 at 99 degrees of freedom, too wide for draws without repetition
        assert 0.5 < relations["r2"] / 1500 < 0.7


def test_seed_and_dataset_change_the_draw() -> None:
    questions = pool([30] * 16)
    draws = {
        Demonstrations(dataset, questions, seed).draw(questions[0], shots(15, "per_question"))
        for dataset in ("a", "b")
        for seed in (0, 1)
    }
    assert len(draws) == 4


@pytest.mark.parametrize("draw", ["per_question", "per_relation"])
@pytest.mark.parametrize("demonstrations_from", DEMONSTRATION_POOLS)
def test_a_question_without_a_relation_draws_from_all_others(draw: str, demonstrations_from: str) -> None:
    unrelated = [Question(f"open {i}", None, f"Who is number {i}?", "Gold") for i in range(4)]
    questions = [*pool([2, 3]), *unrelated]
    demonstrations = Demonstrations("d", questions, seed=1)
    for question in unrelated:
        drawn = demonstrations.draw(question, shots(20, draw, demonstrations_from))
        assert {d.question_id for d in drawn} == {q.question_id for q in questions} - {question.question_id}
    few = Counter(
        demonstrations.draw(question, shots(1, "per_question", demonstrations_from))[0].relation
        for question in (Question(f"x{i}", None, f"Is it {i}?", "") for i in range(300))
    )
    assert few["r0"] < few["r1"] < few[None]  # 2, 3 and 4 of 9: each question as often as any other


def test_questions_without_a_relation_count_as_one_more_relation_in_the_draws_of_others() -> None:
    questions = [*pool([1, 5]), *(Question(f"open {i}", None, f"Who is {i}th?", "Gold") for i in range(9))]
    drawn = Demonstrations("d", questions, seed=1).draw(questions[0], shots(4, "per_question"))
    assert Counter(d.relation for d in drawn) == {"r1": 2, None: 2}


def test_per_relation_questions_without_a_relation_share_a_draw() -> None:
    unrelated = [Question(f"open {i}", None, f"Who is number {i}?", "Gold") for i in range(40)]
    demonstrations = Demonstrations("d", unrelated, seed=1)
    drawn = [demonstrations.draw(question, shots(3, "per_relation")) for question in unrelated]
    assert len(set(drawn)) == 1 + 3  # each of the three that are shown gets a draw of its own
