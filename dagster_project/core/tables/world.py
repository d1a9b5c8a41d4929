"""Lake tables from facts to retrieved passages: what is asked, and what can be read."""

from __future__ import annotations

import pyarrow as pa

from dagster_project.core.tables.schema import DATASET, QUESTION_ID, TEXTS, Table, column

FACTS_FROM = column(
    "facts_from",
    pa.string(),
    "query_service, entity_api or truthy_dump; null = imported",
    null=True,
)

WORLD_TABLES = (
    Table(
        "triples",
        "One row per (subject, property, object).",
        (
            column("subject_id", pa.string(), "entity id, Q…"),
            column("property_id", pa.string(), "property id, P…"),
            column("object_id", pa.string(), "entity id, Q…"),
            column("relation", pa.string(), "name of the relation (SPEC §1)"),
            column(
                "source", pa.string(), "sandbox, wikidata, rdf_file or imported: which world the fact is of"
            ),
            FACTS_FROM,
        ),
    ),
    Table(
        "entities",
        "One row per entity: every subject and object of a triple that has an English label.",
        (
            column("entity_id", pa.string(), "entity id, Q…"),
            column("label", pa.string(), "English label"),
            column("aliases", TEXTS, "English aliases"),
            column("description", pa.string(), "English description", null=True),
            column(
                "article_title", pa.string(), "title of the English Wikipedia article; null = none", null=True
            ),
            column(
                "sitelinks",
                pa.int32(),
                "number of Wikimedia pages about the entity; null = unknown",
                null=True,
            ),
            column("source", pa.string(), "sandbox, wikidata, rdf_file or imported"),
            FACTS_FROM,
        ),
    ),
    Table(
        "subject_frequencies",
        "One row per subject of the source's facts that has a label, where the study samples facts; else none.",
        (
            column("entity_id", pa.string(), "entity id of the subject, Q…"),
            column(
                "popularity_measure",
                pa.string(),
                "page_views, sitelinks, or alias_frequency: what the sample is weighted by",
            ),
            column(
                "month", pa.string(), "month of the page views, YYYY-MM; null for other measures", null=True
            ),
            column(
                "popularity",
                pa.float64(),
                "page views of the month, number of site links, or occurrences of the names in 800 MB of text; null ="
                " missing, which is not zero",
                null=True,
            ),
            column("n_names", pa.int32(), "distinct names searched for; null without a text", null=True),
            column(
                "n_whole_words",
                pa.int64(),
                "occurrences of the names as whole words; null without a text",
                null=True,
            ),
            column(
                "n_anywhere",
                pa.int64(),
                "occurrences, also inside longer words; null without a text",
                null=True,
            ),
            column("n_text_bytes", pa.int64(), "size of the text; null without one", null=True),
            column("measured_from", pa.string(), "api, dump, entities or text"),
        ),
    ),
    Table(
        "candidate_triples",
        "One row per fact of the source, where the study samples facts (SPEC §1): what became of it; else none.",
        (
            column("subject_id", pa.string(), "entity id, Q…"),
            column("property_id", pa.string(), "property id, P…"),
            column("object_id", pa.string(), "entity id, Q…"),
            column("relation", pa.string(), "name of the relation (SPEC §1)"),
            column("popularity_measure", pa.string(), "measure of popularity, as in subject_frequencies"),
            column("popularity", pa.float64(), "popularity of the subject; null = missing", null=True),
            column(
                "factor",
                pa.float64(),
                "frequency / popularity: gives the median candidate frequency 1; 1 where occurrences are counted",
            ),
            column("frequency", pa.float64(), "f of the subject; null = missing", null=True),
            column("draw", pa.float64(), "R: a hash of the study's seed and the triple, in [0, 1)"),
            column("threshold", pa.float64(), "exp(8R - 6): accepted if and only if frequency lies above it"),
            column(
                "outcome",
                pa.string(),
                "kept; or dropped by frequency (not above the threshold), cap (the relation has enough), no_frequency"
                " (missing) or no_label (subject or object has no English label)",
            ),
        ),
    ),
    Table(
        "page_views",
        "One row per (entity with an article, month): monthly page views of its article, agent user, all access.",
        (
            column("entity_id", pa.string(), "entity id, Q…"),
            column("article_title", pa.string(), "title of the English Wikipedia article"),
            column("month", pa.string(), "YYYY-MM"),
            column("views", pa.int64(), "page views; null = missing, which is not zero", null=True),
            column("source", pa.string(), "sandbox or wikimedia"),
            column("views_from", pa.string(), "api or dump; null = imported", null=True),
            column(
                "redirects",
                pa.string(),
                "ignore: views of the title that the entity links to; resolve: of the article where it stands now;"
                " sum: those and its redirects'; null = imported",
                null=True,
            ),
            column(
                "resolved_title",
                pa.string(),
                "title at which the article stands now; null = no such page, or not asked",
                null=True,
            ),
            column(
                "n_redirects",
                pa.int32(),
                "redirects whose views were added up; null = not asked for",
                null=True,
            ),
        ),
        partitioned_by=("month",),
    ),
    Table(
        "questions",
        "One row per (dataset, question): one question per (subject, relation).",
        (
            DATASET,
            QUESTION_ID,
            column("relation", pa.string(), "name of the relation (SPEC §1)"),
            column("property_id", pa.string(), "property id, P…"),
            column("subject_id", pa.string(), "entity id of the subject"),
            column("subject", pa.string(), "label of the subject"),
            column("subject_aliases", TEXTS, "aliases of the subject"),
            column(
                "question", pa.string(), "the relation's template, filled, or as an imported file words it"
            ),
            column(
                "object_ids",
                TEXTS,
                "entity ids of all objects, sorted; of an import those that its file names",
            ),
            column("objects", TEXTS, "labels of the objects, in the order of object_ids"),
            column("gold_answers", TEXTS, "labels and aliases of all objects, distinct, none empty"),
        ),
    ),
    Table(
        "paraphrases",
        "One row per (dataset, question, paraphrase); paraphrase 0 is the question itself.",
        (
            DATASET,
            QUESTION_ID,
            column(
                "paraphrase_id",
                pa.int32(),
                "0 = the question itself, then the relation's paraphrase templates",
            ),
            column(
                "template",
                pa.string(),
                "template with [subj]; of an imported wording the wording itself where the subject does not stand in it",
            ),
            column("paraphrase", pa.string(), "the template, filled"),
        ),
    ),
    Table(
        "paraphrase_similarities",
        "One row per (dataset, question, paraphrase), of a seeded draw of questions, where the study asks paraphrases.",
        (
            DATASET,
            QUESTION_ID,
            column("paraphrase_id", pa.int32(), "from 1: 0 is the question itself"),
            column(
                "cosine",
                pa.float64(),
                "cosine of the sentence embeddings of the paraphrase and of the question",
            ),
            column("encoder", pa.string(), "sentence encoder: name@weights-settings"),
        ),
    ),
    Table(
        "passages",
        "One row per passage: about 100 words of one article, or one subject's verbalised triples.",
        (
            column("passage_id", pa.string(), "entity id (or title) and position, as in Q42-0"),
            column("entity_id", pa.string(), "entity the article is about; null = unknown", null=True),
            column("title", pa.string(), "title of the article"),
            column("position", pa.int32(), "position of the passage in its article, from 0"),
            column("text", pa.string(), "the passage, title left out"),
            column("source", pa.string(), "sandbox, wikipedia or verbalised"),
        ),
    ),
    Table(
        "retrieved_passages",
        "One row per (dataset, question, retriever, rank).",
        (
            DATASET,
            QUESTION_ID,
            column("retriever", pa.string(), "bm25, dense or oracle: the method that uses it"),
            column("rank", pa.int32(), "1 = best"),
            column("passage_id", pa.string(), "passage"),
            column("score", pa.float64(), "retriever's own score; null for oracle", null=True),
            column(
                "has_answer",
                pa.bool_(),
                "a gold answer stands in the uncut text as a token sequence (DPR's rule)",
            ),
            column("has_answer_popqa", pa.bool_(), "so by PopQA's substring rule"),
        ),
        partitioned_by=("retriever",),
    ),
)
