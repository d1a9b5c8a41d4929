"""Lake tables of facts, entities and page views, of what the study asks, and of questions that it is compared with."""

from __future__ import annotations

from dataclasses import replace

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
    int32,
    int64,
    measure,
    text,
)

FACTS_FROM = text("facts_from", "query_service or truthy_dump; null if imported", null=True)
ENTITY_ID = text("entity_id", "entity id, Q…")
SUBJECT_ID = text("subject_id", "entity id of the subject, Q…")
PROPERTY_ID = text("property_id", "property id, P…")
OBJECT_ID = text("object_id", "entity id of the object, Q…")
SAMPLING_MEASURE = text(
    "popularity_measure",
    "what the sample is weighted by: page_views of the sample's month, sitelinks, or alias_frequency (occurrences of"
    " the subject's names in 800 MB of text)",
)
VIEWS = (
    text("article_title", "title of the English Wikipedia article"),
    text("month", "month, YYYY-MM"),
    int64("views", "page views; null = missing, which is not zero", null=True),
    text("source", "service that counted the views: sandbox or wikimedia"),
    text("views_from", "api or dump; null if imported", null=True),
    text(
        "redirects",
        "which page views were counted: resolve (those of the article's present title), sum (those of that title and"
        " of its redirects), or ignore (those of the title that the entity links to); null if imported",
        null=True,
    ),
    text("resolved_title", "present title of the article; null = no such page, or not looked up", null=True),
    int32("n_redirects", "redirects whose views were added; null = not looked up", null=True),
    text("agent", "whose page views: user, or all (crawlers too); null if imported", null=True),
)

WORLD_TABLES = (
    Table(
        "triples",
        "One row per (subject, property, object).",
        (
            SUBJECT_ID,
            PROPERTY_ID,
            OBJECT_ID,
            RELATION,
            text("source", "world of the fact: sandbox, wikidata, rdf_file or imported"),
            FACTS_FROM,
        ),
    ),
    Table(
        "entities",
        "One row per entity: every subject and object of a triple that has an English label.",
        (
            ENTITY_ID,
            text("label", "English label"),
            column("aliases", TEXTS, "English aliases"),
            text("description", "English description", null=True),
            text("article_title", "title of the English Wikipedia article; null = none", null=True),
            int32("sitelinks", "Wikimedia pages about the entity; null = unknown", null=True),
            text("source", "world of the entity: sandbox, wikidata, rdf_file or imported"),
            FACTS_FROM,
        ),
    ),
    Table(
        "subject_frequencies",
        "One row per subject of the source's facts that has a label; no rows unless the study samples facts.",
        (
            ENTITY_ID,
            SAMPLING_MEASURE,
            text("month", "month of the page views, YYYY-MM; null for other measures", null=True),
            measure(
                "popularity",
                "page views of the month, number of sitelinks, or occurrences of the names in 800 MB of text; null ="
                " missing, which is not zero",
            ),
            int32("n_names", "distinct names searched for; null without a text", null=True),
            int64(
                "n_whole_words",
                "occurrences of the subject's names in the text as whole words; null without a text",
                null=True,
            ),
            int64(
                "n_anywhere",
                "occurrences of the subject's names in the text, also inside longer words; null without a text",
                null=True,
            ),
        ),
    ),
    Table(
        "candidate_triples",
        "One row per fact of the source, kept or dropped (SPEC §1); no rows unless the study samples facts.",
        (
            SUBJECT_ID,
            PROPERTY_ID,
            OBJECT_ID,
            RELATION,
            SAMPLING_MEASURE,
            measure("popularity", "popularity of the subject; null = missing"),
            float64(
                "factor",
                "frequency / popularity, chosen so that the median candidate has frequency 1; 1 if occurrences are"
                " counted",
            ),
            measure("frequency", "frequency f of the subject; null = missing"),
            float64("draw", "R: a hash of the study's seed and the triple, in [0, 1)"),
            float64("threshold", "exp(8R - 6): accepted if and only if frequency is above it"),
            text(
                "outcome",
                "kept, or why the triple was dropped: frequency (not above the threshold), cap (the relation has"
                " enough), no_frequency (it is missing) or no_label (subject or object has no English label)",
            ),
        ),
    ),
    Table(
        "page_views",
        "One row per (entity with an article, month): monthly page views of its article, all access.",
        (
            ENTITY_ID,
            *VIEWS,
        ),
        partitioned_by=("month",),
    ),
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


REFERENCE = text("dataset", "reference questions, as named in the study")
QUESTION_LINE = text("question_id", "question: the number of its line in the file")

REFERENCE_TABLES = (
    Table(
        "reference_questions",
        "One row per (reference dataset, question).",
        (
            REFERENCE,
            QUESTION_LINE,
            text("question", "the question, in the words of the file"),
            column("gold_answers", TEXTS, "the answers in the file, distinct, none empty"),
        ),
    ),
    Table(
        "reference_mentions",
        "One row per (reference dataset, question, position): a name in a question, and the entity it is linked to.",
        (
            REFERENCE,
            QUESTION_LINE,
            int32("position", "number of the name in the question, from 0, from left to right"),
            text("linker", "tagme (a service), or names (labels and aliases of the lake's entities)"),
            text("spot", "the name, as the question writes it"),
            int32("start", "place of its first character, from 0, as the linker counts"),
            int32("end", "place after its last character"),
            int32("n_candidates", "entities with this name; the name is linked only if there is 1"),
            text("entity_id", "entity in the lake; null = none, or several", null=True),
            text("article_title", "title of the English Wikipedia article; null = none", null=True),
            measure("link_probability", "how often the name is a link in Wikipedia; null for names"),
            measure("rho", "confidence of the service, above the study's min_rho; null for names"),
        ),
    ),
    Table(
        "reference_page_views",
        "One row per (article, month), for articles that reference questions name and no entity in the lake has.",
        (
            # No imported file gives these views.
            *(
                replace(c, nullable=False) if c.name in ("views_from", "redirects", "agent") else c
                for c in VIEWS
            ),
        ),
        partitioned_by=("month",),
    ),
    Table(
        "entity_linking",
        "One row per (dataset, relation) whose questions name no entity and were linked to one by text.",
        (
            text("dataset", "dataset or reference questions, as named in the study"),
            text(
                "relation",
                f"{RELATION.description}; all = all relations together, and the only value for reference questions",
            ),
            text(
                "linker",
                "template (the relation's template cuts the subject out of the question), names (labels and aliases"
                " anywhere in the question), or tagme (a service)",
            ),
            int64("n_questions", "questions in the file about the study's relations"),
            int64(
                "n_linked",
                "questions linked to an entity; a question that names several is linked to at least one",
            ),
            int64("n_no_entity", "questions without a known name"),
            int64(
                "n_several_entities",
                "questions in which every name belongs to several entities, so that none is chosen",
            ),
            int64("n_put_aside", "questions that were rejected because of an error; see quarantine"),
            int64(
                "n_most_popular",
                "linked questions whose name belongs to several entities: the most popular of them was chosen",
            ),
        ),
    ),
)
