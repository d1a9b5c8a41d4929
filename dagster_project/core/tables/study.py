"""Lake tables that say what the study asks for, so that SQL can."""

from __future__ import annotations

import pyarrow as pa

from dagster_project.core.tables.schema import DATASET, METHOD, MODEL, PROMPT, TEXTS, Table, column

STUDY_TABLES = (
    Table(
        "models",
        "One row per model of the study.",
        (
            MODEL,
            column("family", pa.string(), "models of one family differ in size only"),
            column(
                "n_parameters", pa.int64(), "number of parameters; null if the study does not say", null=True
            ),
            column("backend", pa.string(), "generation backend"),
            column("path", pa.string(), "where the weights come from"),
            column("revision", pa.string(), "revision asked for; null = what the path holds", null=True),
            column("dtype", pa.string(), "number format of the weights, or unknown"),
            column("quantisation", pa.string(), "none, or the scheme"),
            column("rambles", pa.bool_(), "its answers are cut to their first sentence"),
            column(
                "sentence_splitter",
                pa.string(),
                "rules that say where a sentence ends, by name; null for a model that does not ramble",
                null=True,
            ),
            column("device_hour_usd", pa.float64(), "price of an hour of one local device", null=True),
        ),
    ),
    Table(
        "model_prices",
        "One row per (model, valid_from): what a service bills for the study's models, dated.",
        (
            MODEL,
            column("valid_from", pa.string(), "first day of the price, YYYY-MM-DD"),
            column("prompt_usd_per_million", pa.float64(), "US dollars a million prompt tokens"),
            column("completion_usd_per_million", pa.float64(), "US dollars a million new tokens"),
            column("source", pa.string(), "study, or where the price was published"),
        ),
    ),
    Table(
        "methods",
        "One row per method of the study.",
        (
            METHOD,
            column("is_parametric", pa.bool_(), "answers from the model's memory alone"),
            column(
                "is_bound",
                pa.bool_(),
                "its passage is chosen because it holds the answer: an upper bound, no method to use",
            ),
            column("description", pa.string(), "what the method gives the model"),
            column(
                "background_template",
                pa.string(),
                "what genread asks for its background text, {question} in the question's place; null for the others",
                null=True,
            ),
            column(
                "background_tokens",
                pa.int32(),
                "new tokens of a background text of genread, at most; null for the others",
                null=True,
            ),
        ),
    ),
    Table(
        "prompts",
        "One row per prompt of the study.",
        (
            PROMPT,
            column("format", pa.string(), "name of the template"),
            column("template", pa.string(), "the template, {question} in the question's place"),
            column("shots", pa.int32(), "number of demonstrations"),
            column("draw", pa.string(), "how demonstrations are drawn; null without any", null=True),
            column("demonstrations_from", pa.string(), "pool of the draw: other_relations or all_questions"),
            column(
                "reference_demos",
                pa.bool_(),
                "demonstrations carry passages only where the reference finds them",
            ),
            column("max_new_tokens", pa.int32(), "new tokens of an answer, at most"),
            column("asks", TEXTS, "what it is used for: questions, paraphrases, samples"),
            column(
                "n_samples", pa.int32(), "samples drawn of each question; null where it asks none", null=True
            ),
            column("temperature", pa.float64(), "temperature of the samples; null without any", null=True),
        ),
    ),
    Table(
        "datasets",
        "One row per dataset of the study.",
        (
            DATASET,
            column(
                "source",
                pa.string(),
                "where its facts come from: sandbox, wikidata, rdf_file; of an import the file's format",
            ),
            column("relations", TEXTS, "relations asked about, of an import those that it may ask about"),
            column(
                "snapshot",
                pa.string(),
                "month of the facts, as the study pins it; null for an import",
                null=True,
            ),
        ),
    ),
    Table(
        "popularity_windows",
        "One row: the popularity that the study's analyses use.",
        (
            column("measure", pa.string(), "page_views, sitelinks, or imported"),
            column("n_months", pa.int32(), "months of the window"),
            column(
                "last_month", pa.string(), "last month, YYYY-MM; null = the latest in the lake", null=True
            ),
            column(
                "redirects",
                pa.string(),
                "views of redirects: resolve (of the title where the article stands now), sum (all titles), ignore",
            ),
        ),
    ),
)
