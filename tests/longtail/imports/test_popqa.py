"""PopQA's TSV: what a row becomes, which rows are put aside and why, whatever the order of rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.errors import SourceError
from longtail.imports.formats.questions.popqa import ImportedDataset, read_popqa
from longtail.imports.lines import clean
from tests.imported_files import popqa_rows, write_popqa

ROWS = popqa_rows(("occupation", "capital"), 4)


def read(tmp_path: Path, rows: list[dict[str, str]]) -> ImportedDataset:
    return read_popqa(write_popqa(tmp_path / "popqa.tsv", rows))


def changed(index: int, **columns: str) -> list[dict[str, str]]:
    return [{**row, **columns} if i == index else row for i, row in enumerate(ROWS)]


def reasons(found: ImportedDataset) -> dict[str, str]:
    return {row.row_key: row.reason for row in found.rejected}


def test_a_row_becomes_a_question_two_entities_a_fact_and_popularity(tmp_path: Path) -> None:
    found = read(tmp_path, ROWS)
    assert found.questions["400000"] == {
        "question_id": "400000", "relation": "occupation", "property_id": "P106", "subject_id": "Q50000",
        "subject": "Subject 0", "subject_aliases": ["S-0"], "question": "What is Subject 0's occupation?",
        "object_ids": ["Q90000"], "objects": ["Answer 0"], "gold_answers": ["Answer 0", "A. 0"],
    }  # fmt: skip
    subject = found.entities["Q50000"]
    assert (subject.label, subject.aliases, subject.article_title) == ("Subject 0", ("S-0",), "Subject 0")
    assert (subject.popularity, found.entities["Q90000"].popularity) == (10.0, 1_000.0)
    assert ("Q50000", "P106", "Q90000", "occupation") in found.facts
    assert found.notes == {"put_aside": 0, "reasons": {}, "says": []}


@pytest.mark.parametrize("value", ["", "-1", "NaN", "nan", "-0.5"])
def test_missing_popularity_is_not_zero(tmp_path: Path, value: str) -> None:
    found = read(tmp_path, changed(0, s_pop=value))
    assert found.entities["Q50000"].popularity is None
    assert read(tmp_path, changed(0, s_pop="0")).entities["Q50000"].popularity == 0.0


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"id": ""}, "column id: a number or short name was expected"),
        ({"id": "400001"}, "column id: asked already in row 2; that row is kept"),
        ({"prop": "shoe size"}, "column prop: one of the sixteen relations was expected: 'shoe size'"),
        ({"s_uri": "Q50000"}, "column s_uri: a Wikidata address was expected"),
        ({"possible_answers": '["a"'}, "column possible_answers: a JSON list of texts was expected"),
        ({"possible_answers": "[]"}, "column possible_answers: at least one answer was expected"),
        ({"question": ""}, "column question: a text was expected"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_used_is_put_aside(tmp_path: Path, columns: dict[str, str], reason: str) -> None:
    rows = changed(0, **columns)
    rows = rows[1:] + rows[:1]
    found = read(tmp_path, rows)
    shifted = reason.replace("row 2", "row 1")
    assert list(reasons(found)) == ["popqa.tsv row 8"]
    assert shifted in reasons(found)["popqa.tsv row 8"]
    assert len(found.questions) == 7
    assert found.notes["put_aside"] == 1
    assert len(found.facts) == 7
    assert json.loads(found.rejected[0].raw)["subj_id"]


@pytest.mark.parametrize(("column", "text"), [("s_pop", "1,234"), ("s_pop", "inf"), ("s_aliases", "['a']")])
def test_a_fault_in_an_optional_column_is_told_and_its_question_stays(
    tmp_path: Path, column: str, text: str
) -> None:
    more = [{**ROWS[7], "id": str(n)} for n in range(8)]
    found = read(tmp_path, [*changed(0, **{column: text}), *more])
    assert (len(found.questions), found.rejected) == (16, [])
    assert found.says == [
        f"column {column}: 1 of 16 values cannot be read: {text!r} (row 1); they count as unknown"
    ]
    entity = found.entities["Q50000"]
    assert (entity.aliases, entity.popularity) == ((), 10.0) if column == "s_aliases" else (("S-0",), None)
    with pytest.raises(SourceError, match=rf"column {column}: 1 of 8 values cannot be read"):
        read(tmp_path, changed(0, **{column: text}))


def test_the_popularity_of_the_first_row_that_names_an_entity_counts(tmp_path: Path) -> None:
    rows = changed(7, o_pop="5", o_uri=ROWS[3]["o_uri"], obj_id=ROWS[3]["obj_id"])
    found = read(tmp_path, rows)
    assert (len(found.questions), found.rejected) == (8, [])
    assert found.entities["Q90003"].popularity == float(ROWS[3]["o_pop"])
    assert found.says == [
        "1 times an entity has another popularity than in an earlier row, whose number counts"
    ]


def test_every_row_is_a_question_also_where_another_row_asks_the_same(tmp_path: Path) -> None:
    again = {
        **ROWS[0],
        "id": "7",
        "obj": "Answer 9",
        "obj_id": "9009",
        "o_uri": "http://www.wikidata.org/entity/Q90009",
    }
    found = read(tmp_path, [*ROWS, again])
    assert found.rejected == []
    first, second = found.questions["400000"], found.questions["7"]
    assert second == {**first, "question_id": "7", "object_ids": ["Q90009"], "objects": ["Answer 9"]}
    assert {object_id for subject_id, _, object_id, _ in found.facts if subject_id == "Q50000"} == {
        "Q90000",
        "Q90009",
    }


def test_a_later_row_adds_what_an_earlier_one_lacks_and_changes_nothing_else(tmp_path: Path) -> None:
    lacking = changed(0, s_pop="", s_wiki_title="", obj="Answer")
    again = {**ROWS[0], "id": "7", "subj": "Another name", "s_aliases": '["Other"]'}
    for rows in ([*lacking, again], [*ROWS, {**lacking[0], "id": "7"}]):
        found = read(tmp_path, rows)
        assert found.rejected == []
        subject = found.entities["Q50000"]
        assert (subject.label, subject.aliases) == ("Subject 0", ("S-0",))
        assert (subject.popularity, subject.article_title) == (10.0, "Subject 0")
    zero = read(tmp_path, [*changed(0, s_pop="0"), {**again, "s_pop": "0"}])
    assert zero.entities["Q50000"].popularity == 0


def test_a_row_without_the_names_of_its_entities_is_a_question(tmp_path: Path) -> None:
    """The real file has "What is the capital of ?". The subject is known by its address, and has popularity."""
    rows = changed(0, subj=" ", question="What is 's occupation?", s_wiki_title="Subject_0_(poet)")
    rows[1] = {**rows[1], "subj": "Nan", "question": "What is Nan's occupation?"}
    rows[2] = {
        **rows[2],
        "obj": "",
        "o_wiki_title": "",
        "obj_id": "1",
        "o_uri": "http://www.wikidata.org/entity/Q1",
    }
    found = read(tmp_path, rows)
    assert found.rejected == []
    assert (found.questions["400000"]["subject"], found.questions["400001"]["subject"]) == (None, "Nan")
    assert found.questions["400000"]["subject_id"] == "Q50000"
    assert (found.entities["Q50000"].label, found.entities["Q50000"].popularity) == ("Subject 0 (poet)", 10.0)
    assert found.entities["Q1"].label == "Q1"


def test_nothing_to_use_is_an_error_with_the_first_reason(tmp_path: Path) -> None:
    rows = [{**row, "prop": "x"} for row in ROWS]
    with pytest.raises(
        SourceError, match=r"popqa.tsv: holds no question that can be used; popqa.tsv row 1: column prop"
    ):
        read(tmp_path, rows)


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


@settings(max_examples=60, deadline=None)
@given(names=st.lists(NAMES, min_size=1, max_size=5), answers=st.lists(NAMES, max_size=3), data=st.data())
def test_any_text_is_kept_as_it_is_cleaned_or_its_row_put_aside(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], answers: list[str], data: Any
) -> None:
    rows = [
        {**ROWS[i % 4], "id": str(i), "subj_id": str(i), "s_uri": f"http://www.wikidata.org/entity/Q{i + 1}",
         "subj": name, "possible_answers": json.dumps(answers)}
        for i, name in enumerate(names)
    ]  # fmt: skip
    path = write_popqa(
        tmp_path_factory.mktemp("popqa") / "popqa.tsv", data.draw(st.permutations([*rows, ROWS[0]]))
    )
    found = read_popqa(path)
    golds = list(dict.fromkeys(gold for answer in answers if (gold := clean(answer))))
    for i, name in enumerate(names):
        assert (str(i) in found.questions) is bool(golds)
        if golds:
            assert found.questions[str(i)]["subject"] == (clean(name) or None)
            assert found.questions[str(i)]["gold_answers"] == golds
    assert len(found.questions) + len(found.rejected) == len(names) + 1
