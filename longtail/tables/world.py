"""Lake tables of facts, entities and page views: what is known before a question is asked."""

from __future__ import annotations

from longtail.tables.schema import (
    RELATION,
    TEXTS,
    Table,
    column,
    float64,
    int32,
    int64,
    measure,
    text,
)

FACTS_FROM = text("facts_from", "query_service, entity_api or truthy_dump; null if imported", null=True)
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
            int64("n_text_bytes", "size of the text; null without one", null=True),
            text("measured_from", "api, dump, entities or text"),
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
