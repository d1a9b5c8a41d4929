"""Questions, gold answers and paraphrases from a hand-made lake, and which questions of a file a dataset asks."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.errors import LakeError, SourceError
from longtail.questions.build import (
    Choice,
    build_paraphrases,
    build_questions,
    choose_questions,
    draw,
    gold_answers,
)
from longtail.relations.relation import by_name, relation_set
from longtail.storage.lake import Lake
from longtail.study.datasets import Dataset
from longtail.study.imports import QUESTIONS, Import, Place
from longtail.study.study import Study


def questions_of(lake: Lake) -> dict[str, dict[str, Any]]:
    return {row["question_id"]: row for row in lake.read("questions").to_pylist()}


def test_one_question_per_subject_and_relation_with_all_objects_as_answers(
    hand_study: Study, hand_lake: Lake, log: logging.Logger
) -> None:
    outcome = build_questions(hand_study, hand_lake, log)
    assert list(questions_of(hand_lake)) == ["Q1-P106", "Q2-P106", "Q1-P19", "Q6-P19", "Q5-P136"]
    assert outcome.notes == {"objects_without_label": 2}
    question = questions_of(hand_lake)["Q1-P106"]
    assert question["object_ids"] == ["Q3", "Q7"]
    assert question["objects"] == ["Weaver", "Painter and more"]
    assert question["gold_answers"] == ["Weaver", "weaver", "cloth-maker", "Painter and more"]
    assert question["subject_aliases"] == ["A. Quill"]
    assert questions_of(hand_lake)["Q2-P106"]["object_ids"] == ["Q7"]
    rejected = {r["row_key"]: r["reason"] for r in hand_lake.read_all("quarantine").to_pylist()}
    assert rejected == {
        "Q6-P106": "no object has an English label, so there is no gold answer",
        "Q405-P19": "the subject has no English label",
    }


def test_hostile_labels_are_only_text(hand_study: Study, hand_lake: Lake, log: logging.Logger) -> None:
    build_questions(hand_study, hand_lake, log)
    build_paraphrases(hand_study, hand_lake, log)
    found = questions_of(hand_lake)
    assert found["Q5-P136"]["question"] == "What genre is The [subj] {0} \\1 %s?"
    assert found["Q6-P19"]["question"] == "In what city was Nun\x00Mark \u200f العربية 👩‍🚀 born?"
    filled = [
        r["paraphrase"] for r in hand_lake.read("paraphrases").to_pylist() if r["question_id"] == "Q5-P136"
    ]
    assert all(text.count("The [subj] {0} \\1 %s") == 1 for text in filled)


def test_paraphrase_0_is_the_question(hand_study: Study, hand_lake: Lake, log: logging.Logger) -> None:
    build_questions(hand_study, hand_lake, log)
    build_paraphrases(hand_study, hand_lake, log)
    rows = hand_lake.read("paraphrases").to_pylist()
    for question_id, question in questions_of(hand_lake).items():
        own = [row for row in rows if row["question_id"] == question_id]
        assert [row["paraphrase_id"] for row in own] == list(
            range(len(by_name(relation_set("popqa"))[question["relation"]].wordings) + 1)
        )
        assert own[0]["paraphrase"] == question["question"]
        assert len({row["paraphrase"] for row in own}) == len(own)


def test_second_build_computes_nothing_and_changed_input_does(
    hand_study: Study, hand_lake: Lake, log: logging.Logger
) -> None:
    assert not build_questions(hand_study, hand_lake, log).was_current
    assert not build_paraphrases(hand_study, hand_lake, log).was_current
    assert build_questions(hand_study, hand_lake, log).was_current
    assert build_paraphrases(hand_study, hand_lake, log).was_current
    entities = hand_lake.read("entities").to_pylist()
    entities[0]["label"] = "Ada Feather"
    hand_lake.write("entities", entities, fingerprint="changed")
    assert not build_questions(hand_study, hand_lake, log).was_current
    assert questions_of(hand_lake)["Q1-P19"]["question"] == "In what city was Ada Feather born?"
    assert not build_paraphrases(hand_study, hand_lake, log).was_current


def test_draw_takes_the_smallest_hashes(
    make_study: Callable[[str], Study], hand_text: str, hand_lake: Lake, log: logging.Logger
) -> None:
    capped = "[{name: facts, max_questions_per_relation: 1}, {name: births, relations: [place of birth]}]"
    study = make_study(hand_text.replace("[{name: facts}]", capped))
    build_questions(study, hand_lake, log)
    rows = [(r["dataset"], r["question_id"]) for r in hand_lake.read("questions").to_pylist()]
    assert rows[:2] == [("births", "Q1-P19"), ("births", "Q6-P19")]

    def smallest(*question_ids: str) -> str:
        return min(
            question_ids, key=lambda q: hashlib.sha256(json.dumps([0, "facts", q]).encode()).hexdigest()
        )

    expected = [smallest("Q1-P106", "Q2-P106"), smallest("Q1-P19", "Q6-P19"), "Q5-P136"]
    assert rows[2:] == [("facts", question_id) for question_id in expected]


@given(st.permutations([f"Q{i}-P19" for i in range(30)]), st.integers(0, 5), st.integers(1, 40))
def test_draw_does_not_hang_on_the_order(order: list[str], seed: int, limit: int) -> None:
    def drawn(ids: list[str], k: int | None) -> list[str]:
        return [str(row["question_id"]) for row in draw([{"question_id": i} for i in ids], k, seed, "d")]

    assert drawn(order, limit) == drawn(sorted(order), limit)
    assert set(drawn(order, limit)) <= set(drawn(order, limit + 1))  # a larger draw holds the smaller one
    assert len(drawn(order, limit)) == min(limit, 30)
    assert drawn(order, None) == order


@given(st.lists(st.text(max_size=12), max_size=12))
def test_gold_answers_are_distinct_stripped_and_not_empty(texts: list[str]) -> None:
    golds = gold_answers(texts)
    assert len(set(golds)) == len(golds)
    assert all(gold == gold.strip() != "" and len(gold.splitlines()) == 1 for gold in golds)
    assert {g.strip() for g in texts if g.strip() and len(g.strip().splitlines()) == 1} <= set(golds)


def test_no_question_at_all_is_an_error(hand_study: Study, hand_lake: Lake, log: logging.Logger) -> None:
    hand_lake.write("triples", [], fingerprint="none")
    with pytest.raises(LakeError, match="no question can be asked"):
        build_questions(hand_study, hand_lake, log)


FILE = [
    {"question_id": str(number), "relation": "common" if number % 10 else "rare"} for number in range(200)
]


def ask(study: Study, log: logging.Logger, **keys: Any) -> tuple[list[str], list[str]]:
    """The ids that are asked, and the rows put aside."""
    dataset = Dataset("open", (), imported=Import(QUESTIONS, "table", Place("x")), **keys)
    choice = Choice.of(dataclasses.replace(study, datasets=(dataset,)))
    rows, rejected = choose_questions(choice, dataset, FILE, log)
    return [row["question_id"] for row in rows], [row.row_key for row in rejected]


@pytest.fixture
def ids(tmp_path: Path) -> Place:
    (tmp_path / "ids.txt").write_text(
        "\ufeff# chosen by others\r\n7\r\n\r\n 10 \r\n7\r\n150\r\n", encoding="utf-8"
    )
    return Place("ids.txt")


def test_the_first_rows_and_a_file_of_ids_choose_together(
    hand_study: Study, log: logging.Logger, ids: Place
) -> None:
    assert sorted(ask(hand_study, log, ids=ids)[0]) == ["10", "150", "7"]
    assert sorted(ask(hand_study, log, ids=ids, first_rows=100)[0]) == ["10", "7"]
    assert ask(hand_study, log, ids=ids, first_rows=9)[0] == ["7"]
    with pytest.raises(
        SourceError, match="any relation among those that first_rows and ids leave; it has: none"
    ):
        ask(hand_study, log, ids=ids, first_rows=5)


def test_a_dataset_that_is_drawn_as_another_asks_the_same_questions(
    hand_study: Study, log: logging.Logger
) -> None:
    limits = {"max_questions_per_relation": 15, "max_questions": 20}
    datasets = [
        Dataset(name, (), drawn_as=other, **limits) for name, other in (("a", None), ("b", None), ("b", "a"))
    ]
    choice = Choice.of(hand_study)
    first, other, same = ([*map(str, choose_questions(choice, one, FILE, log)[0])] for one in datasets)
    assert same == first != other


def test_a_draw_over_all_relations_keeps_their_shares_and_grows_with_the_limit(
    hand_study: Study, log: logging.Logger
) -> None:
    few, more = (ask(hand_study, log, max_questions=n)[0] for n in (30, 60))
    assert (len(few), len(more)) == (30, 60)
    assert set(few) < set(more)
    relations = Counter(FILE[int(question)]["relation"] for question in more)
    assert 1 <= relations["rare"] <= 15  # a tenth of the file
    both, _ = ask(hand_study, log, max_questions_per_relation=15, max_questions=20)
    assert set(both) < set(ask(hand_study, log, max_questions_per_relation=15)[0])
    assert (
        Counter(FILE[int(question)]["relation"] for question in both)["rare"] >= 5
    )  # half of what was drawn before


def test_ids_of_no_question_are_one_line_and_put_aside(
    hand_study: Study, log: logging.Logger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ids.txt"
    path.write_text("7\nx1\nx2\nx3\nx4\n", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert ask(hand_study, log, ids=Place("ids.txt")) == (["7"], [f"ids.txt x{n}" for n in (1, 2, 3, 4)])
    assert caplog.messages == [
        f"dataset open: 4 of 5 ids in {path} are of no question: x1, x2, x3; they go to quarantine"
    ]
    path.write_text("x1\nx2\n", encoding="utf-8")
    with pytest.raises(SourceError, match=r"2 of 2 ids in .*ids.txt are of no question: x1, x2$"):
        ask(hand_study, log, ids=Place("ids.txt"))
    path.write_text("# nothing\n", encoding="utf-8")
    with pytest.raises(SourceError, match=r"dataset open: .*ids.txt holds no id$"):
        ask(hand_study, log, ids=Place("ids.txt"))


def test_a_file_of_ids_may_be_of_objects(hand_study: Study, log: logging.Logger, tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    path.write_text('{"id": 7, "said": "a"}\n{"id": "10"}\n', encoding="utf-8")
    assert sorted(ask(hand_study, log, ids=Place("ids.txt"))[0]) == ["10", "7"]
    for line in ('{"id": 7', '{"key": 7}'):
        path.write_text(line, encoding="utf-8")
        with pytest.raises(SourceError, match=r"ids.txt: an object with key id was expected, not \{"):
            ask(hand_study, log, ids=Place("ids.txt"))
