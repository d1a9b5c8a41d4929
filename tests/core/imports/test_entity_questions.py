"""EntityQuestions: mentions cut out by templates, linked where they name exactly one entity."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_project.core.errors import SourceError
from dagster_project.core.imports.dataset import LinkingCounts
from dagster_project.core.imports.entity_questions import by_name, mention, read_entity_questions
from dagster_project.core.relations.entity_questions import RELATIONS
from dagster_project.core.relations.relation import Relation
from dagster_project.core.relations.sets import relation_names
from tests.imported_files import write_entity_questions

ENTITIES = by_name(
    [
        {"entity_id": "Q1", "label": "Ann Ash", "aliases": ["A. Ash", "Annie"]},
        {"entity_id": "Q2", "label": "Bob Beech", "aliases": ["Annie"]},
        {"entity_id": "Q3", "label": "Ash's", "aliases": []},
    ]
)

NAMES = relation_names("entity_questions")


def item(question: str, *answers: str) -> dict[str, Any]:
    return {"question": question, "answers": list(answers)}


BORN = [
    item("Where was Ann Ash born?", "Oslo", "Kristiania", "Oslo"),
    item("Where was A. Ash born?", "Oslo"),
    item("Where was Annie born?", "Oslo"),
    item("Where was Nobody born?", "Oslo"),
    item("Where is Ann Ash from?", "Oslo"),
    item("Where was Bob Beech born?"),
]


@given(name=st.text(min_size=1).filter(str.strip), relation=st.sampled_from(RELATIONS))
def test_a_mention_is_what_was_filled_in(name: str, relation: Relation) -> None:
    assert mention(relation.question(name), relation.template) == name.strip()


def test_mentions_of_exactly_one_entity_are_kept(tmp_path: Path) -> None:
    folder = write_entity_questions(
        tmp_path, "test", {"P19": BORN, "P40": [item("Who is Ash's's child?", "Cy")]}
    )
    found = read_entity_questions(folder, "test", NAMES, ENTITIES)
    assert found.questions["Q1-P19"]["gold_answers"] == ["Oslo", "Kristiania"]
    assert (found.questions["Q1-P19"]["relation"], found.questions["Q1-P19"]["subject"]) == (
        "place of birth",
        "Ann Ash",
    )
    assert found.questions["Q3-P40"]["objects"] == ["Cy"]
    assert {row.row_key: row.reason for row in found.aside} == {
        "P19.test.json row 2": "asked already: another question is about P19 of Q1; that one is kept",
        "P19.test.json row 3": "subject matches several entities",
        "P19.test.json row 4": "subject matches no entity",
        "P19.test.json row 5": "key question: not of the relation's template, Where was [subj] born?",
        "P19.test.json row 6": "key answers: at least one was expected",
    }
    assert found.notes | {"reasons": 0} == {
        "read": 7, "no_entity": 1, "several_entities": 1, "linked": 2, "linked_share": 0.2857, "put_aside": 5,
        "reasons": 0, "linked_share_by_relation": {"place of birth": 0.1667, "child": 1.0},
    }  # fmt: skip
    assert found.linking["place of birth"] == LinkingCounts(6, 1, 1, 1, 3)


def test_split_and_relations_choose_files(tmp_path: Path) -> None:
    write_entity_questions(
        tmp_path, "test", {"P19": BORN[:1], "P20": [item("Where did Bob Beech die?", "Rome")]}
    )
    write_entity_questions(tmp_path, "dev", {"P19": [item("Where was Bob Beech born?", "Rome")]})
    assert set(read_entity_questions(tmp_path, "dev", NAMES, ENTITIES).questions) == {"Q2-P19"}
    only = read_entity_questions(tmp_path, "test", ["place of death"], ENTITIES)
    assert set(only.questions) == {"Q2-P20"}
    folder = tmp_path / "dataset" / "test"
    assert set(read_entity_questions(folder, "test", NAMES, ENTITIES).questions) == {
        "Q1-P19",
        "Q2-P20",
    }


def test_a_property_without_a_template_is_put_aside_question_by_question(tmp_path: Path) -> None:
    write_entity_questions(
        tmp_path, "test", {"P19": BORN[:1], "P999": [item("Huh?", "x"), item("What?", "y")]}
    )
    found = read_entity_questions(tmp_path, "test", NAMES, ENTITIES)
    assert [row.reason for row in found.aside] == ["no template is known of property P999"] * 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{}", "a JSON list of questions was expected"),
        (b"[{]", "is not JSON in UTF-8"),
        (b'[{"question": "caf\xe9"}]', "is not JSON in UTF-8"),
        (json.dumps([item("Where was Ann born?", "Oslo")]).encode(), "none of 1 questions could be linked"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    write_entity_questions(tmp_path, "test", {"P19": []})
    (tmp_path / "dataset/test/P19.test.json").write_bytes(content)
    with pytest.raises(SourceError, match=words):
        read_entity_questions(tmp_path, "test", NAMES, ENTITIES)


@pytest.mark.parametrize("broken", [5, {}, {"question": 1, "answers": []}, {"question": "x", "answers": [1]}])
def test_items_that_are_no_questions(tmp_path: Path, broken: Any) -> None:
    write_entity_questions(tmp_path, "test", {"P19": [broken, *BORN[:1]]})
    found = read_entity_questions(tmp_path, "test", NAMES, ENTITIES)
    assert len(found.aside) == 1
    assert list(found.questions) == ["Q1-P19"]


def test_a_folder_without_files_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError, match=r"holds no file P\*.test.json, nor do its folders test and dataset/test"
    ):
        read_entity_questions(tmp_path, "test", NAMES, ENTITIES)
