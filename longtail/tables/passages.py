"""Lake tables of what a model can read: passages, and those that retrievers found."""

from __future__ import annotations

import pyarrow as pa

from longtail.tables.schema import (
    DATASET,
    HAS_ANSWER_POPQA,
    PARAPHRASE_ID,
    QUESTION_ID,
    Table,
    column,
    flag,
    int32,
    int64,
    measure,
    text,
)

PASSAGES = (
    text(
        "passage_id",
        "entity id (or title) and position, as in Q42-0; after the collection's name, as in leads:Łódź-0, or with"
        " the file's own id, as in psgs:42; swapped:dataset:question for one that method swapped wrote; for one from"
        " elsewhere the retriever's name and its id there, as in elastic:42",
    ),
    text("entity_id", "entity that the article is about; null = unknown", null=True),
    text("title", "title of the article"),
    int32("position", "position among the passages of its article that there are, from 0"),
    text("text", "the passage without its title"),
    text(
        "source",
        "where the passage comes from: sandbox, wikipedia, verbalised, collection, questions (a text"
        " beside a question), swapped (written by the method of that name), or the name of the retriever that brought it"
        " from elsewhere",
    ),
    text("collection", "collection, as named in the study; null without one", null=True),
    text("collection_source", "whose texts the collection has; null without one", null=True),
    text("collection_date", "date of the collection's texts; null = unknown", null=True),
    text("licence", "licence of the collection's texts; null without one", null=True),
    text(
        "section",
        "titles of the headings above the passage, joined by colons, which stand before its text; null = none",
        null=True,
    ),
    text("revision", "number of the page's revision; null = unknown", null=True),
    text("url", "address of the page; null = unknown", null=True),
    text("revision_date", "when the revision was saved, as the source writes it; null = unknown", null=True),
)

_RETRIEVER = text("retriever", "retriever, and method that uses its first passage")
PASSAGE_TABLES = (
    Table(
        "passages",
        "One row per passage: about 100 words of one article, or one subject's verbalised triples.",
        PASSAGES,
    ),
    Table(
        "excluded_pages",
        "One row per page of a collection that has no passages: a redirect, or a disambiguation page. No rows for"
        " formats that name no such pages.",
        (
            text("collection", "collection, as named in the study"),
            int64(
                "page_number",
                "number of the page in its file, from 1; for CirrusSearch, line of the page or of the redirect's target",
            ),
            text("title", "title of the page"),
            text("kind", "redirect, or disambiguation: it lists the meanings of its title"),
            text(
                "target_title",
                "title of the page to which a redirect leads, and which may be a redirect; null = it names none",
                null=True,
            ),
            text(
                "target_section",
                "section of that page; null = the redirect names none, or the format does not say",
                null=True,
            ),
        ),
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
            int32("rank", "rank of the passage, 1 = best"),
            text("passage_id", "passage that the retriever found"),
            measure("score", "the retriever's own score; null where it gives none"),
            column(
                "query_embedding",
                pa.list_(pa.float32()),
                "vector of the wording by the retriever's encoder, at rank 1 alone; null unless the study retrieves for"
                " paraphrases, and for a retriever without vectors",
                null=True,
            ),
            flag("has_answer", "the uncut passage contains a gold answer as a token sequence (DPR's rule)"),
            HAS_ANSWER_POPQA,
            text(
                "swapped_from",
                "passage in which method swapped replaced the object; null = a sentence of the fact's own, and for other"
                " methods",
                null=True,
            ),
            text(
                "swapped_title",
                "subject of a swapped passage, or title of a passage from elsewhere (an http retriever); else null",
                null=True,
            ),
            text("swapped_text", "text of a swapped passage or of one from elsewhere; else null", null=True),
            column(
                "swapped_answers",
                pa.list_(pa.string()),
                "names of the object that a swapped passage tells, the one in its text first; null for other methods",
                null=True,
            ),
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
            int32("k", "depth: 1, 5, 20, and the study's top_k; none is above top_k"),
            int32(
                "n_exact",
                "first k passages by exact search of the same vectors; fewer where the collection is smaller",
            ),
            int32("n_found", "how many of these are among the retriever's first k"),
        ),
    ),
)
