"""Lake tables of what a model can read, what retrievers found, and how much of a text stands in the corpus."""

from __future__ import annotations

import pyarrow as pa

from longtail.tables.generation import ACCOUNTS
from longtail.tables.schema import (
    DATASET,
    GROUNDING_KIND,
    GROUNDING_PROMPT,
    HAS_ANSWER_POPQA,
    METHOD,
    MODEL,
    PARAPHRASE_ID,
    PROMPT_HASH,
    QUESTION_ID,
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
                TEXTS,
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


_PLACES = pa.list_(pa.int32())

GROUNDING_TABLES = (
    Table(
        "grounded_answers",
        "One row per (dataset, question, model, method): the answer that a model asked in two steps gives first.",
        (
            DATASET,
            QUESTION_ID,
            MODEL,
            METHOD,
            text("answer", "the first line of the generation, without white space at its ends"),
            text("raw_text", "the generation before it was cut"),
            PROMPT_HASH,
            *ACCOUNTS,
        ),
        partitioned_by=("model",),
    ),
    Table(
        "grounded_generations",
        "One row per (dataset, question, model, method, grounding_prompt): an answer and its explanation.",
        (
            DATASET,
            QUESTION_ID,
            MODEL,
            METHOD,
            GROUNDING_PROMPT,
            GROUNDING_KIND,
            int32(
                "steps",
                "prompts that gave answer and explanation: 1, or 2 (the second one asks for the explanation alone)",
            ),
            text("generation", "all that the model wrote; in two steps, what it wrote in the second"),
            text(
                "answer",
                "the short answer: the text before the first semicolon, or all of it without one; in two steps that of"
                " the first step; null for questions that want a long answer",
                null=True,
            ),
            text(
                "explanation",
                "the text that is compared with the corpus: what follows the first semicolon, the text of the second"
                " step, or a long answer; null without a semicolon",
                null=True,
            ),
            flag("is_parsed", "answer and explanation could be told apart; always true in two steps"),
            text(
                "reference_explanation",
                "the explanation by the authors' code: what stands between the first two semicolons of answer;"
                " explanation, or all of the text where there is none",
            ),
            float64(
                "kilt_score",
                "the answer's exact match or F1, or the long answer's ROUGE-L, by KILT's rules and the authors' split at"
                " semicolons",
            ),
            measure(
                "exact_match",
                "1 if the answer equals a gold answer, both SQuAD-normalised, else 0; null for datasets with another"
                " score",
            ),
            measure(
                "f1",
                "F1 of the answer's words by HotpotQA's rule: the maximum over the gold answers; null for datasets with"
                " another score",
            ),
            measure(
                "rouge_l",
                "ROUGE-L F-measure of a long answer: the maximum over the gold answers; null for datasets with another"
                " score",
            ),
            PROMPT_HASH,
            *ACCOUNTS,
        ),
        partitioned_by=("model",),
    ),
    Table(
        "quip_scores",
        "One row per (dataset, question, model, method, prompt, text_from): a generation compared with the corpus.",
        (
            DATASET,
            QUESTION_ID,
            MODEL,
            METHOD,
            text(
                "prompt",
                "prompt, as named in the study, or the grounding prompt of grounded_generations; null for"
                " generated_passages, which all prompts share",
                null=True,
            ),
            text(
                "text_from",
                "lake table whose text was compared: its raw_text; of grounded_generations the explanation",
            ),
            int64(
                "n_grams",
                "character 25-grams of the normalised text, duplicates counted; 0 if it has fewer than 25 characters",
            ),
            measure("quip", "share of these 25-grams that occur in the corpus; null without one"),
            float64(
                "quip_reference",
                "quip as the authors' code counts it: of reference_explanation for grounded_generations; 0 without a"
                " 25-gram",
            ),
            column(
                "span_starts",
                _PLACES,
                "where each quoted span begins in the compared text, in characters from 0; a span is a maximal run of"
                " 25-grams that occur in the corpus",
            ),
            column("span_ends", _PLACES, "where each quoted span ends: the character after its last one"),
            column("span_first_grams", _PLACES, "number of the 25-gram with which each span begins, from 0"),
            column("span_grams", _PLACES, "25-grams of each span"),
        ),
        partitioned_by=("model",),
    ),
    Table(
        "entity_cooccurrences",
        "One row per (dataset, question): in how many passages of the corpus its entity and an answer stand together.",
        (
            DATASET,
            QUESTION_ID,
            text(
                "named_by",
                "how the question's entity is known: subject (its label and aliases) or titles (the question has no"
                " subject: titles of the corpus, other than its answers, that stand in it as whole words, the longest"
                " first); null = not at all",
                null=True,
            ),
            int64(
                "n_cooccurrences",
                "passages, titles included, that have one of these names and a gold answer, both as whole words; null"
                " without a name",
                null=True,
            ),
        ),
    ),
)
