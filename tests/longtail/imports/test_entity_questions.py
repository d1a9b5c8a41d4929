"""EntityQuestions: every question is kept; mentions cut out by templates are linked where they name one entity."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.errors import SourceError
from longtail.imports.format import LinkingCounts, by_name
from longtail.imports.formats.questions.entity_questions import mention, read_entity_questions
from longtail.relations.relation import Relation, relation_names, relation_set
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


@given(name=st.text(min_size=1).filter(str.strip), relation=st.sampled_from(relation_set("entity_questions")))
def test_a_mention_is_what_was_filled_in(name: str, relation: Relation) -> None:
    assert mention(relation.question(name), relation.template) == name.strip()


def test_every_question_is_kept_and_linked_where_it_names_exactly_one_entity(tmp_path: Path) -> None:
    folder = write_entity_questions(
        tmp_path, "test", {"P19": BORN, "P40": [item("Who is Ash's's child?", "Cy")]}
    )
    found = read_entity_questions(folder, "test", NAMES, ENTITIES)
    assert found.questions["P19-1"] == {
        "question_id": "P19-1", "relation": "place of birth", "property_id": "P19", "subject_id": "Q1",
        "subject": "Ann Ash", "subject_aliases": [], "question": "Where was Ann Ash born?", "object_ids": [],
        "objects": ["Oslo", "Kristiania"], "gold_answers": ["Oslo", "Kristiania"],
    }  # fmt: skip
    assert {key: (q["subject"], q["subject_id"]) for key, q in found.questions.items()} == {
        "P19-1": ("Ann Ash", "Q1"),
        "P19-2": ("A. Ash", "Q1"),
        "P19-3": ("Annie", None),  # two entities are called so
        "P19-4": ("Nobody", None),
        "P19-5": (None, None),  # not of the relation's template
        "P40-1": ("Ash's", "Q3"),
    }
    assert {row.row_key: row.reason for row in found.rejected} == {
        "P19.test.json row 6": "column answers: at least one answer was expected"
    }
    assert (found.notes["linked_share"], found.notes["put_aside"]) == (0.4286, 1)
    assert found.linking["place of birth"] == LinkingCounts(6, 2, 2, 1, 1)


@pytest.mark.parametrize(
    ("popularity", "linked_to"),
    [({}, None), ({"Q1": 5.0, "Q2": 7.0}, "Q2"), ({"Q1": 0.0}, "Q1"), ({"Q1": 5.0, "Q2": 5.0}, None)],
)
def test_of_several_entities_the_most_popular_is_linked_and_both_are_counted(
    tmp_path: Path, popularity: dict[str, float], linked_to: str | None
) -> None:
    folder = write_entity_questions(tmp_path, "test", {"P19": BORN})
    found = read_entity_questions(folder, "test", NAMES, ENTITIES, popularity)
    assert found.questions["P19-3"]["subject_id"] == linked_to
    is_chosen = linked_to is not None
    expected = LinkingCounts(6, 2 + is_chosen, 2, 1 - is_chosen, 1, int(is_chosen))
    assert found.linking["place of birth"] == expected


def test_files_may_be_gzip(tmp_path: Path) -> None:
    folder = write_entity_questions(tmp_path, "test", {"P19": BORN[:1], "P20": []}) / "dataset/test"
    plain, packed = folder / "P19.test.json", folder / "P19.test.json.gz"
    packed.write_bytes(gzip.compress(json.dumps(BORN[:3]).encode()))
    assert len(read_entity_questions(folder, "test", NAMES, {}).questions) == 1  # the plain file goes first
    plain.unlink()
    assert len(read_entity_questions(folder, "test", NAMES, {}).questions) == 3
    packed.write_bytes(packed.read_bytes()[:-12])
    with pytest.raises(SourceError, match=r"P19\.test\.json\.gz: damaged gzip file"):
        read_entity_questions(folder, "test", NAMES, {})


def test_split_and_relations_choose_files(tmp_path: Path) -> None:
    write_entity_questions(
        tmp_path, "test", {"P19": BORN[:1], "P20": [item("Where did Bob Beech die?", "Rome")]}
    )
    write_entity_questions(tmp_path, "dev", {"P19": [item("Where was Bob Beech born?", "Rome")]})
    assert set(read_entity_questions(tmp_path, "dev", NAMES, ENTITIES).questions) == {"P19-1"}
    only = read_entity_questions(tmp_path, "test", ["place of death"], ENTITIES)
    assert set(only.questions) == {"P20-1"}
    folder = tmp_path / "dataset" / "test"
    assert set(read_entity_questions(folder, "test", NAMES, ENTITIES).questions) == {"P19-1", "P20-1"}


def test_a_property_without_a_template_is_put_aside_question_by_question(tmp_path: Path) -> None:
    write_entity_questions(
        tmp_path, "test", {"P19": BORN[:1], "P999": [item("Huh?", "x"), item("What?", "y")]}
    )
    found = read_entity_questions(tmp_path, "test", NAMES, ENTITIES)
    assert [row.reason for row in found.rejected] == ["no template is known of property P999"] * 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[{]", "cannot be read as a JSON list"),
        (b'[{"question": "caf\xe9"}]', "cannot be read as a JSON list"),
        (
            b'[{"question": "Who?"}]',
            "holds no question of split test that can be used; P19.test.json row 1: column answers",
        ),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    write_entity_questions(tmp_path, "test", {"P19": []})
    (tmp_path / "dataset/test/P19.test.json").write_bytes(content)
    with pytest.raises(SourceError, match=words):
        read_entity_questions(tmp_path, "test", NAMES, ENTITIES)


@pytest.mark.parametrize(
    "broken", [5, {}, {"question": 1, "answers": []}, {"question": "x", "answers": [[1]]}]
)
def test_items_that_are_no_questions(tmp_path: Path, broken: Any) -> None:
    write_entity_questions(tmp_path, "test", {"P19": [broken, *BORN[:1]]})
    found = read_entity_questions(tmp_path, "test", NAMES, ENTITIES)
    assert len(found.rejected) == 1
    assert list(found.questions) == ["P19-2"]


def test_a_folder_without_files_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError,
        match=r"holds no file P\*.test.json \(or .json.gz\), nor do its folders test and dataset/test",
    ):
        read_entity_questions(tmp_path, "test", NAMES, ENTITIES)
