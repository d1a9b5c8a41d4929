"""Questions of any relation, or of none, and without a subject: they are asked, worded, compared, looked up."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.embedding.lake_tables import compare_paraphrases
from longtail.errors import SourceError
from longtail.generation.prompts.build import read_questions
from longtail.imports.datasets import select_questions
from longtail.imports.format import ImportedDataset, QuestionFormat
from longtail.questions.build import (
    Choice,
    build_paraphrases,
    build_questions,
    choose_questions,
    relation_order,
)
from longtail.relations.relation import relation_set
from longtail.retrieval.retrieve import retrieve_passages
from longtail.storage.lake import Lake
from longtail.study.datasets import Dataset
from longtail.study.imports import FORMATS, QUESTIONS, Import, Place
from longtail.study.study import Study
from longtail.study.tables import STUDY_TABLES, describe_study
from tests.lakes import LakePlan
from tests.lakes import make_study as make_synthetic_study

OPEN_STUDY = """
name: open
description: Questions that have a text and answers
datasets: [{name: open, import: {format: lines, path: questions.csv}}]
prompts: [{name: zero_shot, generations: [questions, paraphrases]}]
models: [{name: tiny, path: nowhere, backend: fake}]
methods: [closed_book, oracle]
popularity: {measure: imported}
"""
NAMES = st.one_of(st.none(), st.text(max_size=20), st.sampled_from(["all", "", "capital", "tune", "ALL"]))


def asked(relation: str | None, number: int, **columns: Any) -> dict[str, Any]:
    """A question of a file that gives a text and an answer alone."""
    blank = {"dataset": "open", "property_id": None, "subject_id": None, "subject": None}
    lists = {"subject_aliases": [], "object_ids": [], "objects": [], "gold_answers": ["Gold"]}
    own = {"question_id": str(number), "relation": relation, "question": f"Who is number {number}?"}
    return {**blank, **lists, **own, **columns}


def read_lines(place: Path, *_: object) -> ImportedDataset:
    """A format of the tests: lines of a number and the name of a relation, if there is one."""
    rows = [line.split(",") for line in place.read_text(encoding="utf-8").splitlines()]
    questions = {number: asked(name or None, int(number)) for number, name in rows}
    return ImportedDataset(questions={number: without(row, "dataset") for number, row in questions.items()})


def without(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}


FORMAT = QuestionFormat(read=read_lines)


def dataset_of(
    limit: int | None = None, relations: tuple[str, ...] = (), path: str = "questions.csv"
) -> Dataset:
    return Dataset("open", relations, limit, imported=Import("lines", Place(path)))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return make_synthetic_study(tmp_path_factory.mktemp("study"), LakePlan())


def drawn_by(study: Study, relations: Sequence[str | None], limit: int | None) -> Counter[str | None]:
    rows = [asked(relation, number) for number, relation in enumerate(relations)]
    kept, rejected = select_questions(rows)
    assert {row.row_key for row in rejected} == {row["question_id"] for row in rows} - {
        row["question_id"] for row in kept
    }
    chosen, _ = choose_questions(Choice.of(study), dataset_of(limit), kept, logging.getLogger(__name__))
    return Counter(row["relation"] for row in chosen)


@settings(max_examples=200)
@given(st.lists(NAMES, max_size=12), st.one_of(st.none(), st.integers(1, 3)))
def test_a_dataset_without_a_set_asks_every_relation_but_all(
    study: Study, relations: list[str | None], limit: int | None
) -> None:
    expected = Counter(name for name in relations if name not in ("", "all"))
    if not expected:
        with pytest.raises(SourceError, match="its file has no question of any relation; it has: none"):
            drawn_by(study, relations, limit)
        return
    assert drawn_by(study, relations, limit) == Counter(
        {name: min(n, limit or n) for name, n in expected.items()}
    )


@given(st.lists(NAMES, max_size=8))
def test_any_relations_have_an_order_and_none_comes_last(relations: list[str | None]) -> None:
    ordered = sorted([*relations, "mother", "occupation", None], key=relation_order(relation_set("popqa")))
    assert ordered.index("occupation") < ordered.index("mother")
    assert ordered[-1] is None


def test_a_file_without_the_relation_that_is_asked_for_is_refused_by_what_it_has(hand_study: Study) -> None:
    rows = [asked(None, 1), asked("tune", 2)]
    with pytest.raises(SourceError, match="no question of sport; it has: tune, questions without a relation"):
        choose_questions(
            Choice.of(hand_study), dataset_of(relations=("sport",)), rows, logging.getLogger(__name__)
        )


@pytest.fixture
def open_study(make_study: Callable[[str], Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A study of one dataset, of a format that this module holds."""
    monkeypatch.setitem(FORMATS[QUESTIONS], "lines", __name__)
    (tmp_path / "questions.csv").write_text("1,tune\n2,\n3,all\n4,\n", encoding="utf-8")
    return make_study(OPEN_STUDY)


@pytest.fixture
def open_lake(hand_lake: Lake) -> Lake:
    """A lake whose questions lack a subject, a relation or both; one has the subject of an article."""
    rows = [
        asked(None, 1),
        asked("occupation", 2),
        asked("tune", 3, subject="Ada Quill"),
        asked("occupation", 4, subject="Ada Quill", subject_id="Q1", gold_answers=["Weaver"]),
    ]
    hand_lake.write("questions", rows, fingerprint="open")
    return hand_lake


def test_a_format_without_a_set_of_relations_is_asked_whole_and_what_lacks_is_counted(
    open_study: Study, open_lake: Lake, log: logging.Logger
) -> None:
    assert open_study.datasets[0].relations == ()
    outcome = build_questions(open_study, open_lake, log)
    rows = [(row["question_id"], row["relation"]) for row in open_lake.read("questions").to_pylist()]
    assert rows == [("1", "tune"), ("2", None), ("4", None)]
    read = {"put_aside": 0, "reasons": {}, "says": []}
    assert outcome.notes["open"] == read | {"not_asked": 1, "without_subject": 3, "without_relation": 2}
    (rejected,) = open_lake.read_all("quarantine").to_pylist()
    assert (rejected["row_key"], rejected["reason"]) == (
        "3",
        "relation 'all': a name other than that of all relations together was expected",
    )
    described = {outcome.table for outcome in describe_study(open_study, open_lake)}
    assert described == set(STUDY_TABLES)
    assert open_lake.read("relations").num_rows == 0
    (dataset,) = open_lake.read("datasets").to_pylist()
    assert (dataset["relation_set"], dataset["relations"], dataset["source"]) == (None, [], "lines")


def test_a_question_without_subject_or_templates_has_paraphrase_0_alone(
    open_study: Study, open_lake: Lake, log: logging.Logger
) -> None:
    build_paraphrases(open_study, open_lake, log)
    wordings = open_lake.read("paraphrases").to_pylist()
    numbers = {
        str(i): [row["paraphrase_id"] for row in wordings if row["question_id"] == str(i)]
        for i in range(1, 5)
    }
    assert numbers == {
        "1": [0],
        "2": [0],
        "3": [0],
        "4": list(range(len(relation_set("popqa")[0].wordings) + 1)),
    }
    assert all(
        row["template"] == row["paraphrase"] for row in wordings if row["question_id"] in ("1", "2", "3")
    )
    compare_paraphrases(open_study, open_lake, log)
    compared = open_lake.read("paraphrase_similarities").to_pylist()
    assert {row["question_id"] for row in compared} == {"4"}


def test_the_oracle_finds_nothing_without_a_subject(
    open_study: Study, open_lake: Lake, log: logging.Logger
) -> None:
    passage = {
        "passage_id": "Q1-0",
        "entity_id": "Q1",
        "title": "Ada Quill",
        "position": 0,
        "source": "sandbox",
    }
    nobody = {**passage, "passage_id": "x-0", "entity_id": None, "text": "Gold is here."}
    open_lake.write("passages", [{**passage, "text": "A Weaver."}, nobody], fingerprint="passages")
    retrieve_passages(open_study, open_lake, "oracle", log)
    found = open_lake.read("retrieved_passages", "oracle").to_pylist()
    assert [(row["question_id"], row["passage_id"]) for row in found] == [("4", "Q1-0")]


def test_an_answer_shown_is_a_gold_answer_where_there_are_no_objects(
    open_study: Study, open_lake: Lake
) -> None:
    questions = read_questions(open_study, open_lake)["open"]
    assert [(question.relation, question.answer) for question in questions] == [
        (None, "Gold"), ("occupation", "Gold"), ("tune", "Gold"), ("occupation", "Weaver"),
    ]  # fmt: skip
