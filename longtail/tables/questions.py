"""Lake tables of what the study asks: questions, other wordings, and cloze queries with their candidates."""

from __future__ import annotations

from longtail.tables.schema import (
    DATASET,
    PARAPHRASE_ID,
    QUESTION_ID,
    RELATION,
    TEXTS,
    Table,
    column,
    flag,
    float64,
    int64,
    text,
)

QUESTION_TABLES = (
    Table(
        "questions",
        "One row per (dataset, question). A question that is not made from facts may lack subject and relation: null.",
        (
            DATASET,
            QUESTION_ID,
            text("relation", RELATION.description, null=True),
            text("property_id", "property id, P…; null = none", null=True),
            text(
                "subject_id",
                "entity id of the subject, Q…; null = no subject, or not linked to an entity",
                null=True,
            ),
            text("subject", "label of the subject; null = the question has none", null=True),
            column("subject_aliases", TEXTS, "aliases of the subject; empty without any"),
            text(
                "question",
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
            text(
                "template",
                "template with [subj] for the subject; an imported wording without the subject is kept as it is",
            ),
            text("paraphrase", "the paraphrase without its prompt: the filled template"),
        ),
    ),
    Table(
        "patterns",
        "One row per (dataset, relation, pattern) of imported cloze queries; the wordings are in table paraphrases.",
        (
            DATASET,
            RELATION,
            PARAPHRASE_ID,
            text("pattern", "sentence with [X] for the subject and [Y] for the object"),
            text("lemma", "lemma of the pattern; null = the file does not say", null=True),
            text(
                "extended_lemma",
                "lemma with its preposition, as in capital-of; null = the file does not say",
                null=True,
            ),
            text("tense", "tense of the pattern; null = the file does not say", null=True),
            text("article", "a or an, if it stands before [Y]; null = neither", null=True),
            flag(
                "ends_in_object",
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
            text("candidate", "label of an object of the relation; in order, as they are scored"),
        ),
    ),
    Table(
        "question_counts",
        "One row per (dataset, question, count_measure): how often subject and answer stand in a text.",
        (
            DATASET,
            QUESTION_ID,
            text(
                "count_measure",
                "what is counted in text NAME of the study: NAME_subject_UNIT (units with the subject) or NAME_pair_UNIT"
                " (with the subject and a gold answer), UNIT being sentences, passages or articles; or NAME_count, a"
                " published count",
            ),
            int64("n_counted", "sentences, passages or articles; or the published count"),
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
            float64("cosine", "cosine of the sentence embeddings of paraphrase and question"),
            text("encoder", "sentence encoder: name@weights-settings"),
        ),
    ),
)
