"""The package's relations keep the published counts and wordings; a fault in a file of relations is named."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from longtail.errors import StudyError
from longtail.relations.relation import (
    ALL,
    OBJECT,
    RELATION_SETS,
    Relation,
    add_source_set,
    by_name,
    parse_relations,
    relation_names,
    relation_set,
)
from tools.reference_models.forms import HELD_OUT

POPQA = relation_set("popqa")
EMPLOYER = {"name": "employer", "property": "P108", "question": "Who does [subj] work for?"}


def test_counts_are_those_of_popqa_and_popqa_tp() -> None:
    assert len(POPQA) == 16
    assert sum(relation.published_questions for relation in POPQA) == 14_267
    assert sum(one.published_questions * (1 + len(one.wordings)) for one in POPQA) == 118_643
    assert sum(len(relation.wordings) for relation in POPQA) == 100


def test_published_wordings_and_properties_stay_as_they_are() -> None:
    """What was published is data: a change of one letter asks another question. Then this digest changes too."""
    published = [[relation_set(name) for name in RELATION_SETS], HELD_OUT]
    digest = hashlib.sha256(repr(published).encode()).hexdigest()
    assert digest[:16] == "e74435e2fbfbf32c"


@pytest.mark.parametrize("name", RELATION_SETS)
def test_no_relation_of_a_set_is_called_all(name: str) -> None:
    assert not {ALL, ""} & {*relation_names(name)}


def test_entity_questions_has_24_relations_and_no_set_has_none() -> None:
    assert len(relation_names("entity_questions")) == 24
    assert relation_names(None) == ()


@pytest.mark.parametrize("relation", POPQA, ids=lambda relation: relation.property_id)
def test_popqas_questions_are_distinct_and_its_statements_end_in_the_object(relation: Relation) -> None:
    questions = [relation.template, *relation.wordings]
    assert len({text.casefold() for text in questions}) == len(questions)
    assert all(text.endswith("?") for text in questions)
    assert 0 <= HELD_OUT[relation.name] < len(relation.wordings)
    assert relation.statement.endswith(f" {OBJECT}.")  # its beginning is a cloze prompt


def test_labels_that_look_like_placeholders_stay_as_they_are() -> None:
    relation = by_name(POPQA)["father"]
    assert relation.question("{0} [obj]") == "Who is the father of {0} [obj]?"
    assert relation.question("[subj] and [subj]") == "Who is the father of [subj] and [subj]?"
    assert relation.sentence("[obj]", "[subj]") == "The father of [obj] is [subj]."


def test_a_file_gives_every_key_and_takes_the_place_of_popqas_relation_of_its_name() -> None:
    text = """
    - name: employer
      property: P108
      question: Who does [subj] work for?
      statement: "[subj] works for [obj]."
      wordings: ["Which employer has [subj]?"]
      kinds: {subjects: [person], objects: company}
    - {name: father, property: P22, question: "Whose child is [subj]?"}
    """
    employer, father = parse_relations("mine.yaml", yaml.safe_load(text))
    assert employer == Relation(
        "employer", "P108", "Who does [subj] work for?", "[subj] works for [obj].", ("Which employer has [subj]?",),
        0, ("person",), "company",
    )  # fmt: skip
    known = add_source_set([employer, father])
    assert [relation.name for relation in known] == [*relation_names("popqa"), "employer"]
    assert by_name(known)["father"] == father


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"property": "^P50"}, "property: '^P50' is an inverse property, which cannot be asked; name a plain one"),
        ({"property": "-P69"}, "property: '-P69' is an inverse property"),
        ({"property": "P39/P580"}, "property: 'P39/P580' is a qualified property, which cannot be asked; name a plain"),
        ({"property": "Q5"}, "property: 'Q5' is no property of Wikidata; expected P and a number, as in P108"),
        ({"property": 108}, "property: '108' is no property of Wikidata"),
        ({"property": None}, "property: is missing; it must be a property of Wikidata, as in P108"),
        ({"question": "Who?"}, "question: must have [subj] once, not 'Who?'"),
        ({"question": ["Who is [subj]?"]}, "question: must be a text in one line, of at most 500 characters, not ['Who"),
        ({"question": "[subj]\n?"}, "question: must be a text in one line"),
        ({"question": None}, "question: is missing"),
        ({"statement": "[subj] works."}, "statement: must have [obj] once"),
        ({"wordings": "Who employs [subj]?"}, "wordings: must be a list of at most 100 questions"),
        ({"wordings": ["Who employs?"]}, "wordings: must have [subj] once"),
        ({"wordings": [EMPLOYER["question"]]}, "wordings: 'Who does [subj] work for?' appears twice"),
        ({"kinds": ["person"]}, "kinds: must be {subjects: [a kind, …], objects: a kind}"),
        ({"published_questions": -1}, "published_questions: must be a whole number of at least 0, not -1"),
        ({"template": "Who?"}, "template: unknown key; allowed: name, property, question"),
        ({"wording": []}, "wording: unknown key; did you mean wordings? allowed: name"),
    ],
)  # fmt: skip
def test_a_fault_names_file_relation_and_key(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError) as error:
        parse_relations("mine.yaml", [{**EMPLOYER, **changes}])
    assert str(error.value).startswith(f"mine.yaml: relation employer: {message}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"employer": {}}, "mine.yaml: must be a list of relations, each with name, property, question"),
        ([], "mine.yaml: must be a list of relations"),
        ([EMPLOYER, "award"], "mine.yaml: relation 2: must be a mapping of keys: name, property"),
        ([{**EMPLOYER, "name": "all"}], "mine.yaml: relation 1: name: 'all' is what tables call all relations together"),
        ([{**EMPLOYER, "name": " a"}], "mine.yaml: relation 1: name: ' a' begins or ends with a space"),
        ([EMPLOYER, {**EMPLOYER, "property": "P1"}], "mine.yaml: relation employer: name: employer appears twice"),
        ([EMPLOYER, {**EMPLOYER, "name": "boss"}], "mine.yaml: relation boss: property: P108 appears twice"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_list_of_distinct_relations_is_refused(raw: object, message: str) -> None:
    with pytest.raises(StudyError) as error:
        parse_relations("mine.yaml", raw)
    assert str(error.value).startswith(message)


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=9)
    | st.just("Who is [subj]?")
    | st.just("P1"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*EMPLOYER, "statement", "wordings", "kinds", "x", "\n"]), inner, max_size=6
        )
    ),
    max_leaves=12,
)


@given(_VALUES)
def test_any_values_are_relations_or_refused_in_one_line(raw: object) -> None:
    try:
        relations = parse_relations("mine.yaml", raw)
    except StudyError as error:
        message = str(error)
    else:
        message = "mine.yaml: " + " ".join(one.question("Ada") for one in relations)
    assert message.startswith("mine.yaml: ")
    assert message.isprintable()
