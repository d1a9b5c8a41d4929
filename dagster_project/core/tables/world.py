"""Lake tables from facts to retrieved passages: what the study asks, and what a model can read."""

from __future__ import annotations

import pyarrow as pa

from dagster_project.core.tables.schema import (
    DATASET,
    HAS_ANSWER_POPQA,
    PARAPHRASE_ID,
    QUESTION_ID,
    RELATION,
    TEXTS,
    Table,
    column,
)

FACTS_FROM = column(
    "facts_from",
    pa.string(),
    "query_service, entity_api or truthy_dump; null if imported",
    null=True,
)
ENTITY_ID = column("entity_id", pa.string(), "entity id, Q…")
SUBJECT_ID = column("subject_id", pa.string(), "entity id of the subject, Q…")
PROPERTY_ID = column("property_id", pa.string(), "property id, P…")
OBJECT_ID = column("object_id", pa.string(), "entity id of the object, Q…")
SAMPLING_MEASURE = column(
    "popularity_measure",
    pa.string(),
    "what the sample is weighted by: page_views of the sample's month, sitelinks, or alias_frequency (occurrences of"
    " the subject's names in 800 MB of text)",
)
VIEWS = (
    column("article_title", pa.string(), "title of the English Wikipedia article"),
    column("month", pa.string(), "month, YYYY-MM"),
    column("views", pa.int64(), "page views; null = missing, which is not zero", null=True),
    column("source", pa.string(), "service that counted the views: sandbox or wikimedia"),
    column("views_from", pa.string(), "api or dump; null if imported", null=True),
    column(
        "redirects",
        pa.string(),
        "which page views were counted: resolve (those of the article's present title), sum (those of that title and"
        " of its redirects), or ignore (those of the title that the entity links to); null if imported",
        null=True,
    ),
    column(
        "resolved_title",
        pa.string(),
        "present title of the article; null = no such page, or not looked up",
        null=True,
    ),
    column("n_redirects", pa.int32(), "redirects whose views were added; null = not looked up", null=True),
)

PASSAGES = (
    column(
        "passage_id",
        pa.string(),
        "entity id (or title) and position, as in Q42-0; after the collection's name, as in leads:Łódź-0, or with"
        " the file's own id, as in psgs:42",
    ),
    column("entity_id", pa.string(), "entity that the article is about; null = unknown", null=True),
    column("title", pa.string(), "title of the article"),
    column("position", pa.int32(), "position among the passages of its article that there are, from 0"),
    column("text", pa.string(), "the passage without its title"),
    column(
        "source",
        pa.string(),
        "where the passage comes from: sandbox, wikipedia, verbalised, collection, or questions (a text"
        " beside a question)",
    ),
    column("collection", pa.string(), "collection, as named in the study; null without one", null=True),
    column(
        "collection_source",
        pa.string(),
        "whose texts the collection has; null without one",
        null=True,
    ),
    column("collection_date", pa.string(), "date of the collection's texts; null = unknown", null=True),
    column("licence", pa.string(), "licence of the collection's texts; null without one", null=True),
    column(
        "section",
        pa.string(),
        "titles of the headings above the passage, joined by colons, which stand before its text; null = none",
        null=True,
    ),
    column("revision", pa.string(), "number of the page's revision; null = unknown", null=True),
    column("url", pa.string(), "address of the page; null = unknown", null=True),
    column(
        "revision_date",
        pa.string(),
        "when the revision was saved, as the source writes it; null = unknown",
        null=True,
    ),
)

_RETRIEVER = column("retriever", pa.string(), "retriever, and method that uses its first passage")
WORLD_TABLES = (
    Table(
        "triples",
        "One row per (subject, property, object).",
        (
            SUBJECT_ID,
            PROPERTY_ID,
            OBJECT_ID,
            RELATION,
            column("source", pa.string(), "world of the fact: sandbox, wikidata, rdf_file or imported"),
            FACTS_FROM,
        ),
    ),
    Table(
        "entities",
        "One row per entity: every subject and object of a triple that has an English label.",
        (
            ENTITY_ID,
            column("label", pa.string(), "English label"),
            column("aliases", TEXTS, "English aliases"),
            column("description", pa.string(), "English description", null=True),
            column(
                "article_title", pa.string(), "title of the English Wikipedia article; null = none", null=True
            ),
            column("sitelinks", pa.int32(), "Wikimedia pages about the entity; null = unknown", null=True),
            column("source", pa.string(), "world of the entity: sandbox, wikidata, rdf_file or imported"),
            FACTS_FROM,
        ),
    ),
    Table(
        "subject_frequencies",
        "One row per subject of the source's facts that has a label; no rows unless the study samples facts.",
        (
            ENTITY_ID,
            SAMPLING_MEASURE,
            column(
                "month", pa.string(), "month of the page views, YYYY-MM; null for other measures", null=True
            ),
            column(
                "popularity",
                pa.float64(),
                "page views of the month, number of sitelinks, or occurrences of the names in 800 MB of text; null ="
                " missing, which is not zero",
                null=True,
            ),
            column("n_names", pa.int32(), "distinct names searched for; null without a text", null=True),
            column(
                "n_whole_words",
                pa.int64(),
                "occurrences of the subject's names in the text as whole words; null without a text",
                null=True,
            ),
            column(
                "n_anywhere",
                pa.int64(),
                "occurrences of the subject's names in the text, also inside longer words; null without a text",
                null=True,
            ),
            column("n_text_bytes", pa.int64(), "size of the text; null without one", null=True),
            column("measured_from", pa.string(), "api, dump, entities or text"),
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
            column("popularity", pa.float64(), "popularity of the subject; null = missing", null=True),
            column(
                "factor",
                pa.float64(),
                "frequency / popularity, chosen so that the median candidate has frequency 1; 1 if occurrences are"
                " counted",
            ),
            column("frequency", pa.float64(), "frequency f of the subject; null = missing", null=True),
            column("draw", pa.float64(), "R: a hash of the study's seed and the triple, in [0, 1)"),
            column("threshold", pa.float64(), "exp(8R - 6): accepted if and only if frequency is above it"),
            column(
                "outcome",
                pa.string(),
                "kept, or why the triple was dropped: frequency (not above the threshold), cap (the relation has"
                " enough), no_frequency (it is missing) or no_label (subject or object has no English label)",
            ),
        ),
    ),
    Table(
        "page_views",
        "One row per (entity with an article, month): monthly page views of its article, agent user, all access.",
        (
            ENTITY_ID,
            *VIEWS,
        ),
        partitioned_by=("month",),
    ),
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
    Table(
        "passages",
        "One row per passage: about 100 words of one article, or one subject's verbalised triples.",
        PASSAGES,
    ),
    Table(
        "cited_passages",
        "One row per passage that a retriever of the study found: those rows of passages that a reader may want to see.",
        PASSAGES,
    ),
    Table(
        "retrieved_passages",
        "One row per (dataset, question, wording, retriever, rank). Other wordings than the question itself only if the"
        " study retrieves for paraphrases, and only for retrievers that read the wording.",
        (
            DATASET,
            QUESTION_ID,
            PARAPHRASE_ID,
            _RETRIEVER,
            column("rank", pa.int32(), "rank of the passage, 1 = best"),
            column("passage_id", pa.string(), "passage that the retriever found"),
            column("score", pa.float64(), "the retriever's own score; null where it gives none", null=True),
            column(
                "query_embedding",
                pa.list_(pa.float32()),
                "vector of the wording by the retriever's encoder, at rank 1 alone; null unless the study retrieves for"
                " paraphrases, and for a retriever without vectors",
                null=True,
            ),
            column(
                "has_answer",
                pa.bool_(),
                "the uncut passage contains a gold answer as a token sequence (DPR's rule)",
            ),
            HAS_ANSWER_POPQA,
        ),
        partitioned_by=("retriever",),
    ),
    Table(
        "search_recalls",
        "One row per (retriever, dataset, question, k): a retriever whose search is not exact, and questions of a seeded"
        " sample of at most 1,000.",
        (
            _RETRIEVER,
            DATASET,
            QUESTION_ID,
            column("k", pa.int32(), "depth: 1, 5, 20, and the study's top_k; none is above top_k"),
            column(
                "n_exact",
                pa.int32(),
                "first k passages by exact search of the same vectors; fewer where the collection is smaller",
            ),
            column("n_found", pa.int32(), "how many of these are among the retriever's first k"),
        ),
    ),
)
