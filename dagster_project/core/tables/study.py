"""Lake tables with the declarations of the study file, for SQL."""

from __future__ import annotations

import pyarrow as pa

from dagster_project.core.tables.schema import (
    DATASET,
    GROUNDING_KIND,
    GROUNDING_PROMPT,
    METHOD,
    MODEL,
    PROMPT,
    RELATION,
    TEXTS,
    Table,
    column,
)

_POSITION = column("position_in_study", pa.int32(), "place in the list of study.yaml, from 0")

STUDY_TABLES = (
    Table(
        "models",
        "One row per model of the study.",
        (
            MODEL,
            column("family", pa.string(), "family of the model: models of one family differ only in size"),
            column(
                "n_parameters", pa.int64(), "number of parameters; null if the study does not say", null=True
            ),
            column("backend", pa.string(), "generation backend"),
            column("path", pa.string(), "where the weights come from"),
            column(
                "revision",
                pa.string(),
                "revision that the study asks for; null = what the path holds",
                null=True,
            ),
            column("dtype", pa.string(), "number format of the weights, or unknown"),
            column(
                "quantisation",
                pa.string(),
                "none, or the scheme; that of a GGUF file is its own, as in Q4_K_M",
            ),
            column("is_encoder_decoder", pa.bool_(), "the study calls the model an encoder-decoder"),
            column(
                "is_instruction_tuned",
                pa.bool_(),
                "the study calls the model instruction-tuned; null = it does not say",
                null=True,
            ),
            column(
                "n_passages",
                pa.int32(),
                "passages that the model reads apart from a question, if so many are retrieved; 0 = it reads the first"
                " one before the question",
            ),
            column("rambles", pa.bool_(), "the model's answers are cut to their first sentence"),
            column(
                "sentence_splitter",
                pa.string(),
                "name and version of the rules for where a sentence ends; null for a model that does not ramble",
                null=True,
            ),
            column(
                "device_hour_usd",
                pa.float64(),
                "price of one hour on one local device, in US dollars; null without a price",
                null=True,
            ),
        ),
    ),
    Table(
        "model_prices",
        "One row per (model, valid_from): the price that a service bills for a model of the study from that day.",
        (
            MODEL,
            column("valid_from", pa.string(), "first day of the price, YYYY-MM-DD"),
            column("prompt_usd_per_million", pa.float64(), "US dollars per million prompt tokens"),
            column("completion_usd_per_million", pa.float64(), "US dollars per million new tokens"),
            column("source", pa.string(), "study, or where the price was published"),
        ),
    ),
    Table(
        "paper_cells",
        "One row per number of the papers' tables that a study can set beside its own.",
        (
            column("work", pa.string(), "the work that reports the number"),
            column("item", pa.string(), "table, figure or section of the work"),
            column("cell", pa.string(), "row and column of the number, there"),
            column("paper", pa.float64(), "the work's number; percentages as shares"),
            column("measure", pa.string(), "the same measure here, as paper_comparison names it"),
            column("paper_dataset", pa.string(), "set of relations, or dataset, that it is about"),
            column("paper_key", pa.string(), "method, relation, prompt or regression that it is about"),
            column(
                "paper_model", pa.string(), "the work's model, as a study names it; null without", null=True
            ),
            column("note", pa.string(), "what else is different, or odd; null without", null=True),
            column("study", pa.string(), "the study whose numbers stand beside the work's"),
        ),
    ),
    Table(
        "methods",
        "One row per method of the study, and one for the method of its paraphrases, samples and grounding prompts.",
        (
            METHOD,
            column(
                "kind",
                pa.string(),
                "memory (the question appears alone), background (the model first writes a text) or retrieval",
            ),
            column(
                "asks_questions",
                pa.bool_(),
                "the study names the method; if false, the method asks only the study's paraphrases, samples and"
                " grounding prompts",
            ),
            column("is_parametric", pa.bool_(), "the model answers from its memory alone"),
            column(
                "is_bound",
                pa.bool_(),
                "the passage is chosen because it contains the answer: an upper bound, which no leaderboard ranks",
            ),
            column(
                "is_condition",
                pa.bool_(),
                "the passage is chosen without regard to the question: a condition for comparison, without a rank",
            ),
            column("has_index", pa.bool_(), "the retriever searches a stored index"),
            column(
                "cuts_last_sentence",
                pa.bool_(),
                "passages lose their last sentence before the model reads them",
            ),
            column(
                "may_find_nothing",
                pa.bool_(),
                "the method may leave every question without a passage; this is not an error",
            ),
            column(
                "is_fixed",
                pa.bool_(),
                "passages are chosen once a question, and hold for all its paraphrases",
            ),
            column("description", pa.string(), "what the method gives the model"),
            column(
                "background_template",
                pa.string(),
                "prompt that asks for a background text, with {question} for the question; null for other"
                " methods",
                null=True,
            ),
            column(
                "background_tokens",
                pa.int32(),
                "the study's limit of new tokens for a background text; null for other methods",
                null=True,
            ),
        ),
    ),
    Table(
        "prompts",
        "One row per prompt of the study.",
        (
            PROMPT,
            _POSITION,
            column("format", pa.string(), "name of the template of question and answer"),
            column("template", pa.string(), "the template, with {question} for the question"),
            column(
                "encoder_decoder_template", pa.string(), "the template that encoder-decoders are asked in"
            ),
            column("shots", pa.int32(), "number of demonstrations"),
            column("draw", pa.string(), "how demonstrations are drawn; null without any", null=True),
            column("demonstrations_from", pa.string(), "pool of the draw: other_relations or all_questions"),
            column(
                "reference_demos",
                pa.bool_(),
                "demonstrations have passages only if the reference implementation finds them",
            ),
            column("max_new_tokens", pa.int32(), "the study's limit of new tokens for an answer"),
            column(
                "generations",
                TEXTS,
                "what the prompt is used for: questions, paraphrases, samples, candidates",
            ),
            column("methods", TEXTS, "methods by which the prompt asks questions; empty if it asks none"),
            column("n_samples", pa.int32(), "samples per question; null if the prompt draws none", null=True),
            column("temperature", pa.float64(), "temperature of the samples; null without any", null=True),
        ),
    ),
    Table(
        "datasets",
        "One row per dataset of the study.",
        (
            DATASET,
            _POSITION,
            column(
                "source",
                pa.string(),
                "where the facts come from: sandbox, wikidata or rdf_file; for an import, the format of the file",
            ),
            column(
                "relation_set",
                pa.string(),
                "set that its relations are chosen from, as in table relations; null if its file's format has none",
                null=True,
            ),
            column(
                "relations",
                TEXTS,
                "relations that the dataset asks about; for an import, those that it may ask about, empty = all of its"
                " file",
            ),
            column(
                "snapshot",
                pa.string(),
                "month of the facts, as pinned in the study; null for an import",
                null=True,
            ),
            column(
                "chosen_by",
                pa.string(),
                "keys of the dataset that choose a part of its questions, in the order in which they apply; null = all"
                " questions are asked",
                null=True,
            ),
            column(
                "split_by",
                pa.string(),
                "what a split of adaptive retrieval keeps on one side: each question by itself (question), or all"
                " questions of a subject (subject)",
            ),
        ),
    ),
    Table(
        "relations",
        "One row per (relation set, relation), of the sets that the study's datasets choose from.",
        (
            column("relation_set", pa.string(), "popqa, or entity_questions"),
            RELATION,
            column("property_id", pa.string(), "property id, P…; null = no property of Wikidata", null=True),
            column(
                "template",
                pa.string(),
                "question of the relation, [subj] in the subject's place; null = none",
                null=True,
            ),
            column(
                "statement",
                pa.string(),
                "sentence of the relation, [subj] and [obj] in the places of its ends; null = the set has none",
                null=True,
            ),
        ),
    ),
    Table(
        "popularity_windows",
        "One row: the popularity that the study's analyses use.",
        (
            column(
                "measure",
                pa.string(),
                "what popularity is: page_views (mean monthly views of the English Wikipedia article),"
                " sitelinks (of the Wikidata item), imported (a number from an imported file),"
                " or a measure of key counts (how often the subject stands in texts; by its name alone)",
            ),
            column("n_months", pa.int32(), "number of months in the window"),
            column(
                "last_month",
                pa.string(),
                "last month of the window, YYYY-MM; null = the latest in the lake",
                null=True,
            ),
            column(
                "redirects",
                pa.string(),
                "which page views count: resolve (those of the article's present title), sum (those of all titles that"
                " lead to it), or ignore (those of the title that the entity links to)",
            ),
            column("agent", pa.string(), "whose page views count: user, or all (crawlers too)"),
        ),
    ),
    Table(
        "grounding_prompts",
        "One row per grounding prompt of the study.",
        (
            GROUNDING_PROMPT,
            GROUNDING_KIND,
            _POSITION,
            column("text", pa.string(), "what stands behind the question; empty for the null prompt"),
            column(
                "assembly",
                pa.string(),
                "how question and grounding prompt are put together: paper, or reference, as the authors' code does it",
            ),
            column("datasets", TEXTS, "datasets whose questions are asked under it"),
            column("methods", TEXTS, "methods by which they are asked"),
        ),
    ),
)
