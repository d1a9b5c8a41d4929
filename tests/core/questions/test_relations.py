"""The sixteen relations and their paraphrases keep the published counts, and their templates can be filled."""

from __future__ import annotations

import pytest

from dagster_project.core.errors import LongtailError
from dagster_project.core.relations.paraphrases import HELD_OUT, PARAPHRASES
from dagster_project.core.relations.popqa import (
    OBJECT,
    RELATIONS,
    SUBJECT,
    Relation,
    relation_by_name,
    relation_by_property,
)


def test_counts_are_those_of_popqa_and_popqa_tp() -> None:
    assert len(RELATIONS) == 16
    assert sum(relation.popqa_questions for relation in RELATIONS) == 14_267
    with_paraphrases = sum(one.popqa_questions * (1 + one.n_paraphrases) for one in RELATIONS)
    assert with_paraphrases == 118_643
    assert sum(len(templates) for templates in PARAPHRASES.values()) == 100


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.property_id)
def test_templates_are_distinct_and_name_the_subject_once(relation: Relation) -> None:
    paraphrases = PARAPHRASES[relation.name]
    assert len(paraphrases) == relation.n_paraphrases
    wordings = {text.casefold() for text in (relation.template, *paraphrases)}
    assert len(wordings) == relation.n_paraphrases + 1
    assert all(text.count(SUBJECT) == 1 and text.endswith("?") for text in (relation.template, *paraphrases))
    assert 0 <= HELD_OUT[relation.name] < relation.n_paraphrases


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.property_id)
def test_statements_end_in_the_object(relation: Relation) -> None:
    assert relation.statement.count(SUBJECT) == 1
    assert relation.statement.endswith(f" {OBJECT}.")


def test_labels_that_look_like_placeholders_stay_as_they_are() -> None:
    relation = relation_by_name("father")
    assert relation.question("{0} [obj]") == "Who is the father of {0} [obj]?"
    assert relation.sentence("[obj]", "[subj]") == "The father of [obj] is [subj]."


def test_look_ups() -> None:
    for relation in RELATIONS:
        assert relation_by_name(relation.name) is relation
        assert relation_by_property(relation.property_id) is relation


def test_unknown_relations_are_named_with_those_there_are() -> None:
    with pytest.raises(LongtailError, match=r"'spouse'.*capital of"):
        relation_by_name("spouse")
    with pytest.raises(LongtailError, match=r"'P26'.*P1376"):
        relation_by_property("P26")
