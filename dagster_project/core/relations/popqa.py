"""PopQA's sixteen relations, each with its question and its statement.

What belongs here: names, properties, templates, and which kinds of sandbox entities a relation joins. The counts are
PopQA's (Table 2, SPEC §1). What does not: other wordings of the questions (`paraphrases`), and the questions themselves
(`questions.build`).
"""

from __future__ import annotations

from dagster_project.core.relations.relation import Relation

RELATIONS: tuple[Relation, ...] = (
    Relation(
        "occupation",
        "P106",
        "What is [subj]'s occupation?",
        "The occupation of [subj] is [obj].",
        532,
        ("person",),
        "occupation",
    ),
    Relation(
        "place of birth",
        "P19",
        "In what city was [subj] born?",
        "[subj] was born in [obj].",
        584,
        ("person",),
        "city",
    ),
    Relation(
        "genre",
        "P136",
        "What genre is [subj]?",
        "The genre of [subj] is [obj].",
        1619,
        ("film", "book"),
        "genre",
    ),
    Relation(
        "father",
        "P22",
        "Who is the father of [subj]?",
        "The father of [subj] is [obj].",
        570,
        ("person",),
        "person",
    ),
    Relation(
        "country",
        "P17",
        "In what country is [subj]?",
        "[subj] is in [obj].",
        838,
        ("city", "region"),
        "country",
    ),
    Relation(
        "producer",
        "P162",
        "Who was the producer of [subj]?",
        "The producer of [subj] was [obj].",
        1520,
        ("film",),
        "person",
    ),
    Relation(
        "director",
        "P57",
        "Who was the director of [subj]?",
        "The director of [subj] was [obj].",
        1999,
        ("film",),
        "person",
    ),
    Relation(
        "capital of",
        "P1376",
        "What is [subj] the capital of?",
        "[subj] is the capital of [obj].",
        363,
        ("city",),
        "region",
    ),
    Relation(
        "screenwriter",
        "P58",
        "Who was the screenwriter for [subj]?",
        "The screenwriter for [subj] was [obj].",
        1999,
        ("film",),
        "person",
    ),
    Relation(
        "composer",
        "P86",
        "Who was the composer of [subj]?",
        "The composer of [subj] was [obj].",
        978,
        ("film",),
        "person",
    ),
    Relation(
        "color",
        "P462",
        "What color is [subj]?",
        "The color of [subj] is [obj].",
        34,
        ("cultivar",),
        "color",
    ),
    Relation(
        "religion",
        "P140",
        "What is the religion of [subj]?",
        "The religion of [subj] is [obj].",
        338,
        ("person",),
        "religion",
    ),
    Relation(
        "sport",
        "P641",
        "What sport does [subj] play?",
        "The sport that [subj] plays is [obj].",
        547,
        ("person",),
        "sport",
    ),
    Relation(
        "author",
        "P50",
        "Who is the author of [subj]?",
        "The author of [subj] is [obj].",
        1514,
        ("book",),
        "person",
    ),
    Relation(
        "mother",
        "P25",
        "Who is the mother of [subj]?",
        "The mother of [subj] is [obj].",
        187,
        ("person",),
        "person",
    ),
    Relation(
        "capital",
        "P36",
        "What is the capital of [subj]?",
        "The capital of [subj] is [obj].",
        645,
        ("region",),
        "city",
    ),
)

BY_NAME = {relation.name: relation for relation in RELATIONS}
