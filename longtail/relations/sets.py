"""The sets of relations: their rows in lake table relations, and which a study's datasets may choose from.

A dataset may also ask about relations of no set: they have a name and questions, and no template.
"""

from __future__ import annotations

from longtail.relations import entity_questions, popqa
from longtail.relations.relation import Relation

SOURCE_SET = "popqa"
"""The set that is asked about where questions are made from facts."""

RELATION_SETS: dict[str, tuple[Relation, ...]] = {
    SOURCE_SET: popqa.RELATIONS,
    "entity_questions": entity_questions.RELATIONS,
}


def relation_names(relation_set: str | None) -> tuple[str, ...]:
    """The names of a set's relations, in its order; none without a set."""
    return tuple(relation.name for relation in RELATION_SETS[relation_set]) if relation_set else ()
