"""The package's relations keep the published counts and wordings."""

from __future__ import annotations

import hashlib

import pytest

from longtail.relations.relation import (
    ALL,
    OBJECT,
    RELATION_SETS,
    Relation,
    by_name,
    relation_names,
    relation_set,
)
from tools.reference_models.forms import HELD_OUT

POPQA = relation_set("popqa")


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
