"""The sets of relations keep the published counts, and their templates can be filled."""

from __future__ import annotations

import hashlib

import pytest

from longtail.relations.paraphrases import HELD_OUT, PARAPHRASES
from longtail.relations.popqa import BY_NAME, RELATIONS
from longtail.relations.relation import ALL, OBJECT, SUBJECT, Relation
from longtail.relations.sets import RELATION_SETS, relation_names


def test_counts_are_those_of_popqa_and_popqa_tp() -> None:
    assert len(RELATIONS) == 16
    assert sum(relation.published_questions for relation in RELATIONS) == 14_267
    with_paraphrases = sum(one.published_questions * (1 + len(PARAPHRASES[one.name])) for one in RELATIONS)
    assert with_paraphrases == 118_643
    assert sum(len(templates) for templates in PARAPHRASES.values()) == 100


def test_published_wordings_and_properties_stay_as_they_are() -> None:
    """What was published is data: a change of one letter asks another question. Then this digest changes too."""
    published = [*RELATION_SETS.values(), PARAPHRASES, HELD_OUT]
    digest = hashlib.sha256(repr(published).encode()).hexdigest()
    assert digest[:16] == "643e600a7b104aeb"


@pytest.mark.parametrize("name", RELATION_SETS)
def test_each_set_names_a_relation_and_a_property_once_and_its_templates_hold_the_subject_once(
    name: str,
) -> None:
    relations = RELATION_SETS[name]
    assert len({relation.property_id for relation in relations}) == len(relations)
    assert len(set(relation_names(name)) - {ALL, ""}) == len(relations)
    assert all(relation.template.count(SUBJECT) == 1 for relation in relations)


def test_entity_questions_has_24_relations_and_no_set_has_none() -> None:
    assert len(relation_names("entity_questions")) == 24
    assert relation_names(None) == ()


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.property_id)
def test_other_wordings_are_distinct_and_name_the_subject_once(relation: Relation) -> None:
    paraphrases = PARAPHRASES[relation.name]
    wordings = {text.casefold() for text in (relation.template, *paraphrases)}
    assert len(wordings) == len(paraphrases) + 1
    assert all(text.count(SUBJECT) == 1 and text.endswith("?") for text in (relation.template, *paraphrases))
    assert 0 <= HELD_OUT[relation.name] < len(paraphrases)


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.property_id)
def test_statements_end_in_the_object(relation: Relation) -> None:
    assert relation.statement.count(SUBJECT) == 1
    assert relation.statement.endswith(f" {OBJECT}.")


def test_labels_that_look_like_placeholders_stay_as_they_are() -> None:
    relation = BY_NAME["father"]
    assert relation.question("{0} [obj]") == "Who is the father of {0} [obj]?"
    assert relation.question("[subj] and [subj]") == "Who is the father of [subj] and [subj]?"
    assert relation.sentence("[obj]", "[subj]") == "The father of [obj] is [subj]."
