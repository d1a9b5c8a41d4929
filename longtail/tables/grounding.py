"""Lake tables of grounding: how much of a generation is quoted from the corpus (SPEC §9)."""

from __future__ import annotations

import pyarrow as pa

from longtail.tables.accounts import ACCOUNTS
from longtail.tables.schema import (
    DATASET,
    GROUNDING_KIND,
    GROUNDING_PROMPT,
    METHOD,
    MODEL,
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
            column(
                "entity_names", TEXTS, "names of the question's entity that were looked for, in lower case"
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
