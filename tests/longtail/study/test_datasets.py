"""A study's own relations: every key arrives, and a fault in a file of relations is named in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.errors import StudyError
from longtail.relations.relation import Relation, add_source_set, by_name, relation_names
from longtail.study.datasets import parse_relations

EMPLOYER = {"name": "employer", "property": "P108", "question": "Who does [subj] work for?"}
MINE = Path("mine.yaml")


def test_a_file_gives_every_key_and_takes_the_place_of_popqas_relation_of_its_name() -> None:
    more = {"statement": "[subj] works for [obj].", "wordings": ["Which employer has [subj]?"]}
    child = {"name": "father", "property": "P22", "question": "Whose child is [subj]?"}
    employer, father = parse_relations(MINE, [EMPLOYER | more, child])
    assert employer == Relation(
        "employer", "P108", EMPLOYER["question"], more["statement"], (more["wordings"][0],)
    )
    known = add_source_set([employer, father])
    assert [relation.name for relation in known] == [*relation_names("popqa"), "employer"]
    assert by_name(known)["father"] == father


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"property": "^P50"}, "property: '^P50' is an inverse property, which cannot be asked; name a plain one"),
        ({"property": "P39/P580"}, "property: 'P39/P580' is a qualified property, which cannot be asked; name a plain"),
        ({"property": "Q5"}, "property: 'Q5' is no property of Wikidata; expected P and a number, as in P108"),
        ({"question": "Who?"}, "question: must have [subj] once, not 'Who?'"),
        ({"question": ["Who is [subj]?"]}, "question: must be a text in one line, of at most 500 characters, without"),
        ({"question": "[subj]\n?"}, "question: must be a text in one line"),
        ({"statement": "[subj] works."}, "statement: must have [obj] once"),
        ({"wordings": "Who employs [subj]?"}, "wordings: must be a list with at least one value"),
        ({"wordings": ["Who employs?"]}, "wordings.0: must have [subj] once"),
        ({"wordings": [EMPLOYER["question"]]}, "wordings: 'Who does [subj] work for?' is key question already"),
        ({"wording": []}, "wording: unknown key; did you mean wordings? allowed: name"),
    ],
)  # fmt: skip
def test_a_fault_names_file_relation_and_key(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError) as error:
        parse_relations(MINE, [EMPLOYER | changes])
    assert str(error.value).startswith(f"mine.yaml: relation employer.{message}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"employer": {}}, "must be a list of relations, each with name, property, question"),
        ([], "must be a list of relations"),
        ([EMPLOYER, "award"], "relation 2 must be a mapping of keys, not str 'award'"),
        ([{"name": "employer"}], "relation employer.property: is missing; it must be a property of Wikidata, as in P108"),
        ([{**EMPLOYER, "name": "all"}], "relation all.name: 'all' is what tables call all relations together"),
        ([{**EMPLOYER, "name": " a"}], "relation  a.name: must be a text in one line"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_list_of_relations_is_refused(raw: object, message: str) -> None:
    with pytest.raises(StudyError) as error:
        parse_relations(MINE, raw)
    assert str(error.value).startswith(f"mine.yaml: {message}")


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=9)
    | st.sampled_from(["Who is [subj]?", "P1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*EMPLOYER, "statement", "wordings", "x", "\n"]), inner, max_size=6)
    ),
    max_leaves=12,
)


@given(_VALUES)
def test_any_values_are_relations_or_refused_in_one_line(raw: object) -> None:
    try:
        relations = parse_relations(MINE, raw)
    except StudyError as error:
        message = str(error)
    else:
        message = "mine.yaml: " + " ".join(relation.question("Ada") for relation in relations)
    assert message.startswith("mine.yaml: ")
    assert message.isprintable()
