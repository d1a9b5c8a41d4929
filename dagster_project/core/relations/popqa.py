"""The sixteen relations that are asked about, each with its question and its statement.

Here: names, properties, templates, and which kinds of sandbox entities a relation joins. The counts are
those of PopQA (Table 2) and PopQA-TP (Table 1), see SPEC §1. Not here: other wordings of the questions
(`paraphrases.py`) and the questions themselves (`build.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from dagster_project.core.errors import LongtailError

SUBJECT = "[subj]"
OBJECT = "[obj]"


class UnknownRelationError(LongtailError):
    """A relation was asked for that is none of the sixteen."""


@dataclass(frozen=True)
class Relation:
    """One relation: `name` is the value of column `relation` everywhere, `property_id` Wikidata's.

    `template` holds `[subj]` once; `statement` holds `[subj]` and `[obj]` once each, `[obj]` last but for
    the full stop, so that its beginning is a cloze prompt. `popqa_questions` and `n_paraphrases` are the
    published counts. `subject_kinds` and `object_kind` are kinds of the sandbox's entities.
    """

    name: str
    property_id: str
    template: str
    statement: str
    popqa_questions: int
    n_paraphrases: int
    subject_kinds: tuple[str, ...]
    object_kind: str

    def question(self, subject: str) -> str:
        """The question about `subject` (a label)."""
        return self.template.replace(SUBJECT, subject)

    def sentence(self, subject: str, obj: str) -> str:
        """The triple as a sentence, from the labels of its two ends."""
        before, after = self.statement.split(OBJECT)
        return before.replace(SUBJECT, subject) + obj + after.replace(SUBJECT, subject)


RELATIONS: tuple[Relation, ...] = (
    Relation(
        "occupation",
        "P106",
        "What is [subj]'s occupation?",
        "The occupation of [subj] is [obj].",
        532,
        5,
        ("person",),
        "occupation",
    ),
    Relation(
        "place of birth",
        "P19",
        "In what city was [subj] born?",
        "[subj] was born in [obj].",
        584,
        6,
        ("person",),
        "city",
    ),
    Relation(
        "genre",
        "P136",
        "What genre is [subj]?",
        "The genre of [subj] is [obj].",
        1619,
        6,
        ("film", "book"),
        "genre",
    ),
    Relation(
        "father",
        "P22",
        "Who is the father of [subj]?",
        "The father of [subj] is [obj].",
        570,
        4,
        ("person",),
        "person",
    ),
    Relation(
        "country",
        "P17",
        "In what country is [subj]?",
        "[subj] is in [obj].",
        838,
        9,
        ("city", "region"),
        "country",
    ),
    Relation(
        "producer",
        "P162",
        "Who was the producer of [subj]?",
        "The producer of [subj] was [obj].",
        1520,
        10,
        ("film",),
        "person",
    ),
    Relation(
        "director",
        "P57",
        "Who was the director of [subj]?",
        "The director of [subj] was [obj].",
        1999,
        10,
        ("film",),
        "person",
    ),
    Relation(
        "capital of",
        "P1376",
        "What is [subj] the capital of?",
        "[subj] is the capital of [obj].",
        363,
        3,
        ("city",),
        "region",
    ),
    Relation(
        "screenwriter",
        "P58",
        "Who was the screenwriter for [subj]?",
        "The screenwriter for [subj] was [obj].",
        1999,
        10,
        ("film",),
        "person",
    ),
    Relation(
        "composer",
        "P86",
        "Who was the composer of [subj]?",
        "The composer of [subj] was [obj].",
        978,
        5,
        ("film",),
        "person",
    ),
    Relation(
        "color",
        "P462",
        "What color is [subj]?",
        "The color of [subj] is [obj].",
        34,
        5,
        ("cultivar",),
        "color",
    ),
    Relation(
        "religion",
        "P140",
        "What is the religion of [subj]?",
        "The religion of [subj] is [obj].",
        338,
        5,
        ("person",),
        "religion",
    ),
    Relation(
        "sport",
        "P641",
        "What sport does [subj] play?",
        "The sport that [subj] plays is [obj].",
        547,
        6,
        ("person",),
        "sport",
    ),
    Relation(
        "author",
        "P50",
        "Who is the author of [subj]?",
        "The author of [subj] is [obj].",
        1514,
        5,
        ("book",),
        "person",
    ),
    Relation(
        "mother",
        "P25",
        "Who is the mother of [subj]?",
        "The mother of [subj] is [obj].",
        187,
        5,
        ("person",),
        "person",
    ),
    Relation(
        "capital",
        "P36",
        "What is the capital of [subj]?",
        "The capital of [subj] is [obj].",
        645,
        6,
        ("region",),
        "city",
    ),
)

_BY_NAME = {relation.name: relation for relation in RELATIONS}
_BY_PROPERTY = {relation.property_id: relation for relation in RELATIONS}


def relation_by_name(name: str) -> Relation:
    """The relation called `name`; `UnknownRelationError` lists the names there are."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise UnknownRelationError(
            f"unknown relation {name!r}: use one of {', '.join(sorted(_BY_NAME))}"
        ) from None


def relation_by_property(property_id: str) -> Relation:
    """The relation of a Wikidata property such as `P19`; `UnknownRelationError` lists those there are."""
    try:
        return _BY_PROPERTY[property_id]
    except KeyError:
        known = ", ".join(relation.property_id for relation in RELATIONS)
        raise UnknownRelationError(f"no relation for property {property_id!r}: use one of {known}") from None
