"""Lake tables of facts, entities and page views: what is known before a question is asked."""

from __future__ import annotations

import pyarrow as pa

from dagster_project.core.tables.schema import RELATION, TEXTS, Table, column

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
    column(
        "agent", pa.string(), "whose page views: user, or all (crawlers too); null if imported", null=True
    ),
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
        "One row per (entity with an article, month): monthly page views of its article, all access.",
        (
            ENTITY_ID,
            *VIEWS,
        ),
        partitioned_by=("month",),
    ),
)
