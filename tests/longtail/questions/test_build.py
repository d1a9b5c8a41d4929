"""Questions, gold answers and paraphrases from a hand-made lake."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.errors import LakeError
from longtail.questions.build import build_questions, draw, gold_answers
from longtail.questions.paraphrases import build_paraphrases
from longtail.relations.relation import SUBJECT, by_name, fill, relation_set
from longtail.storage.lake import Lake
from longtail.study.study import Study

TEMPLATES = [r.template for r in relation_set("popqa")] + [
    t for r in relation_set("popqa") for t in r.wordings
]


def questions_of(lake: Lake) -> dict[str, dict[str, Any]]:
    return {row["question_id"]: row for row in lake.read("questions").to_pylist()}


def test_one_question_per_subject_and_relation(
    hand_study: Study, hand_lake: Lake, log: logging.Logger
) -> None:
    outcome = build_questions(hand_study, hand_lake, log)
    assert list(questions_of(hand_lake)) == ["Q1-P106", "Q2-P106", "Q1-P19", "Q6-P19", "Q5-P136"]
    assert outcome.notes == {"objects_without_label": 2}
    assert outcome.stamp.n_quarantined == 2


def test_gold_answers_are_labels_and_aliases_of_all_objects(
    hand_study: Study, hand_lake: Lake, log: logging.Logger
) -> None:
    build_questions(hand_study, hand_lake, log)
    question = questions_of(hand_lake)["Q1-P106"]
    assert question["object_ids"] == ["Q3", "Q7"]
    assert question["objects"] == ["Weaver", "Painter and more"]
    assert question["gold_answers"] == ["Weaver", "weaver", "cloth-maker", "Painter and more"]
    assert question["subject_aliases"] == ["A. Quill"]
    assert questions_of(hand_lake)["Q2-P106"]["object_ids"] == ["Q7"]


def test_quarantine_says_why(hand_study: Study, hand_lake: Lake, log: logging.Logger) -> None:
    build_questions(hand_study, hand_lake, log)
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


@given(st.sampled_from(TEMPLATES), st.text(max_size=60))
def test_fill_puts_any_label_in_whole(template: str, label: str) -> None:
    before, after = template.split(SUBJECT)
    assert fill(template, label) == before + label + after


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


def test_missing_table_says_what_to_materialise(hand_study: Study, log: logging.Logger) -> None:
    with pytest.raises(LakeError, match="lake/triples"):
        build_questions(hand_study, Lake(hand_study.home.lake), log)
