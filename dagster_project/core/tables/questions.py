"""Lake tables of what the study asks: questions, other wordings, and cloze queries with their candidates."""

from __future__ import annotations

import pyarrow as pa

from dagster_project.core.tables.schema import (
    DATASET,
    PARAPHRASE_ID,
    QUESTION_ID,
    RELATION,
    TEXTS,
    Table,
    column,
)

QUESTION_TABLES = (
    Table(
        "questions",
        "One row per (dataset, question). A question that is not made from facts may lack subject and relation: null.",
        (
            DATASET,
            QUESTION_ID,
            column("relation", pa.string(), RELATION.description, null=True),
            column("property_id", pa.string(), "property id, P…; null = none", null=True),
            column(
                "subject_id",
                pa.string(),
                "entity id of the subject, Q…; null = no subject, or not linked to an entity",
                null=True,
            ),
            column("subject", pa.string(), "label of the subject; null = the question has none", null=True),
            column("subject_aliases", TEXTS, "aliases of the subject; empty without any"),
            column(
                "question",
                pa.string(),
                "the question without its prompt: the filled template of the relation, or the words of an imported"
                " file; a cloze query keeps [Y] in the place of its answer",
            ),
            column(
                "object_ids",
                TEXTS,
                "entity ids of all right objects, sorted; for an import, those that its file names; empty without any",
            ),
            column("objects", TEXTS, "labels of the right objects, in the order of object_ids"),
            column("gold_answers", TEXTS, "labels and aliases of all right objects, distinct, none empty"),
        ),
    ),
    Table(
        "paraphrases",
        "One row per (dataset, question, paraphrase); paraphrase 0 is the question itself.",
        (
            DATASET,
            QUESTION_ID,
            PARAPHRASE_ID,
            column(
                "template",
                pa.string(),
                "template with [subj] for the subject; an imported wording without the subject is kept as it is",
            ),
            column("paraphrase", pa.string(), "the paraphrase without its prompt: the filled template"),
        ),
    ),
    Table(
        "patterns",
        "One row per (dataset, relation, pattern) of imported cloze queries; the wordings are in table paraphrases.",
        (
            DATASET,
            RELATION,
            PARAPHRASE_ID,
            column("pattern", pa.string(), "sentence with [X] for the subject and [Y] for the object"),
            column("lemma", pa.string(), "lemma of the pattern; null = the file does not say", null=True),
            column(
                "extended_lemma",
                pa.string(),
                "lemma with its preposition, as in capital-of; null = the file does not say",
                null=True,
            ),
            column("tense", pa.string(), "tense of the pattern; null = the file does not say", null=True),
            column("article", pa.string(), "a or an, if it stands before [Y]; null = neither", null=True),
            column(
                "ends_in_object",
                pa.bool_(),
                "[Y] ends the pattern, but for a full stop: a decoder-only model can be asked",
            ),
            column(
                "changes",
                TEXTS,
                "what changes from this pattern to each of the relation's, by paraphrase_id: syntactic, lexical, both,"
                " determiner (with or without more), or no_change; null = itself, or the files do not say",
            ),
        ),
    ),
    Table(
        "candidates",
        "One row per (dataset, relation, candidate): the objects among which a model chooses.",
        (
            DATASET,
            RELATION,
            column(
                "candidate", pa.string(), "label of an object of the relation; in order, as they are scored"
            ),
        ),
    ),
    Table(
        "question_counts",
        "One row per (dataset, question, count_measure): how often subject and answer stand in a text.",
        (
            DATASET,
            QUESTION_ID,
            column(
                "count_measure",
                pa.string(),
                "what is counted in text NAME of the study: NAME_subject_UNIT (units with the subject) or NAME_pair_UNIT"
                " (with the subject and a gold answer), UNIT being sentences, passages or articles; or NAME_count, a"
                " published count",
            ),
            column("n_counted", pa.int64(), "sentences, passages or articles; or the published count"),
        ),
    ),
    Table(
        "paraphrase_similarities",
        "One row per (dataset, question, paraphrase other than 0), for a seeded draw of questions; no rows unless the"
        " study asks paraphrases.",
        (
            DATASET,
            QUESTION_ID,
            PARAPHRASE_ID,
            column("cosine", pa.float64(), "cosine of the sentence embeddings of paraphrase and question"),
            column("encoder", pa.string(), "sentence encoder: name@weights-settings"),
        ),
    ),
)
