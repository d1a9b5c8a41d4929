"""Lake tables with the declarations of the study file, for SQL."""

from __future__ import annotations

from longtail.tables.schema import (
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
    flag,
    float64,
    int32,
    int64,
    measure,
    text,
)

_POSITION = int32("position_in_study", "place in the list of study.yaml, from 0")

STUDY_TABLES = (
    Table(
        "models",
        "One row per model of the study.",
        (
            MODEL,
            text("family", "family of the model: models of one family differ only in size"),
            int64("n_parameters", "number of parameters; null if the study does not say", null=True),
            text("backend", "generation backend"),
            text("path", "where the weights come from"),
            text("revision", "revision that the study asks for; null = what the path holds", null=True),
            text("dtype", "number format of the weights, or unknown"),
            text("quantisation", "none, or the scheme; that of a GGUF file is its own, as in Q4_K_M"),
            flag("is_encoder_decoder", "the study calls the model an encoder-decoder"),
            flag(
                "is_instruction_tuned",
                "the study calls the model instruction-tuned; null = it does not say",
                null=True,
            ),
            int32(
                "n_passages",
                "passages that the model reads apart from a question, if so many are retrieved; 0 = it reads the first"
                " one before the question",
            ),
            flag("rambles", "the model's answers are cut to their first sentence"),
            text(
                "sentence_splitter",
                "name and version of the rules for where a sentence ends; null for a model that does not ramble",
                null=True,
            ),
            int32(
                "thinking_tokens",
                "new tokens that the model may spend on reasoning before an answer; 0 = it does not think first",
            ),
            column("declines", TEXTS, "answers by which the model declines; empty if the study names none"),
            measure(
                "device_hour_usd",
                "price of one hour on one local device, in US dollars; null without a price",
            ),
        ),
    ),
    Table(
        "model_prices",
        "One row per (model, valid_from): the price that a service bills for a model of the study from that day.",
        (
            MODEL,
            text("valid_from", "first day of the price, YYYY-MM-DD"),
            float64("prompt_usd_per_million", "US dollars per million prompt tokens"),
            float64("completion_usd_per_million", "US dollars per million new tokens"),
            text("source", "study, or where the price was published"),
        ),
    ),
    Table(
        "paper_cells",
        "One row per number that a paper reports.",
        (
            text("work", "the work that reports the number"),
            text("item", "table, figure or section of the work"),
            text("cell", "row and column of the number, there"),
            measure("paper", "the work's number, percentages as shares; null if it is only drawn"),
            text("measure", "the same measure here, as paper_comparison names it; null without", null=True),
            text("paper_dataset", "set of relations, or dataset, that it is about; null without", null=True),
            text("paper_key", "method, relation, prompt or regression of it; null without", null=True),
            text("paper_model", "the work's model, as a study names it; null without", null=True),
            text("paper_size", "number of questions, as the work says it; null if it does not", null=True),
            text("paper_prompt", "how the work asks its model; null without a model", null=True),
            text("paper_passages", "passages or corpus of the work; null without", null=True),
            text("note", "what is odd, or why no study has the number; null without", null=True),
            text("study", "the study whose numbers stand beside the work's"),
        ),
    ),
    Table(
        "methods",
        "One row per method of the study, and one for the method of its paraphrases, samples and grounding prompts.",
        (
            METHOD,
            text(
                "kind",
                "memory (the question appears alone), background (the model first writes a text) or retrieval",
            ),
            flag(
                "asks_questions",
                "the study names the method; if false, the method asks only the study's paraphrases, samples and"
                " grounding prompts",
            ),
            flag("is_parametric", "the model answers from its memory alone"),
            flag(
                "is_bound",
                "the passage is chosen because it contains the answer: an upper bound, which no leaderboard ranks",
            ),
            flag(
                "is_condition",
                "the passage is chosen without regard to the question: a condition for comparison, without a rank",
            ),
            flag("has_index", "the retriever searches a stored index"),
            flag("cuts_last_sentence", "passages lose their last sentence before the model reads them"),
            flag(
                "may_find_nothing",
                "the method may leave every question without a passage; this is not an error",
            ),
            flag("is_fixed", "passages are chosen once a question, and hold for all its paraphrases"),
            text("description", "what the method gives the model"),
            text(
                "background_template",
                "prompt that asks for a background text, with {question} for the question; null for other"
                " methods",
                null=True,
            ),
            int32(
                "background_tokens",
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
            text("format", "name of the template of question and answer"),
            text("template", "the template, with {question} for the question"),
            text("encoder_decoder_template", "the template that encoder-decoders are asked in"),
            int32("shots", "number of demonstrations"),
            text("draw", "how demonstrations are drawn; null without any", null=True),
            text("demonstrations_from", "pool of the draw: other_relations or all_questions"),
            flag(
                "reference_demos",
                "demonstrations have passages only if the reference implementation finds them",
            ),
            int32("max_new_tokens", "the study's limit of new tokens for an answer"),
            column(
                "generations",
                TEXTS,
                "what the prompt is used for: questions, paraphrases, samples, candidates",
            ),
            column("methods", TEXTS, "methods by which the prompt asks questions; empty if it asks none"),
            column(
                "declines",
                TEXTS,
                "answers by which models decline under the prompt; empty if the study names none",
            ),
            int32("n_samples", "samples per question; null if the prompt draws none", null=True),
            measure("temperature", "temperature of the samples; null without any"),
        ),
    ),
    Table(
        "datasets",
        "One row per dataset of the study.",
        (
            DATASET,
            _POSITION,
            text(
                "source",
                "where the facts come from: sandbox, wikidata or rdf_file; for an import, the format of the file",
            ),
            text(
                "relation_set",
                "set that its relations are chosen from, as in table relations; null if its file's format has none",
                null=True,
            ),
            column(
                "relations",
                TEXTS,
                "relations that the dataset asks about; for an import, those that it may ask about, empty = all of its"
                " file",
            ),
            text("snapshot", "month of the facts, as pinned in the study; null for an import", null=True),
            text(
                "chosen_by",
                "keys of the dataset that choose a part of its questions, in the order in which they apply; null = all"
                " questions are asked",
                null=True,
            ),
            text(
                "split_by",
                "what a split of adaptive retrieval keeps on one side: each question by itself (question), or all"
                " questions of a subject (subject)",
            ),
            text(
                "popularity_name",
                "what the popularity in an imported file counts; null = its popularity, or the study's measure",
                null=True,
            ),
        ),
    ),
    Table(
        "relations",
        "One row per (relation set, relation), of the sets that the study's datasets choose from.",
        (
            text("relation_set", "popqa, entity_questions, or study: those of the study's own files"),
            RELATION,
            text("property_id", "property id, P…; null = no property of Wikidata", null=True),
            text(
                "template", "question of the relation, [subj] in the subject's place; null = none", null=True
            ),
            text(
                "statement",
                "sentence of the relation, [subj] and [obj] in the places of its ends; null = the set has none",
                null=True,
            ),
        ),
    ),
    Table(
        "popularity_windows",
        "One row: the popularity that the study's analyses use.",
        (
            text(
                "measure",
                "what popularity is: page_views (mean monthly views of the English Wikipedia article),"
                " sitelinks (of the Wikidata item), imported (a number from an imported file),"
                " or a measure of key counts (how often the subject stands in texts; by its name alone)",
            ),
            int32("n_months", "number of months in the window"),
            text("last_month", "last month of the window, YYYY-MM; null = the latest in the lake", null=True),
            text(
                "redirects",
                "which page views count: resolve (those of the article's present title), sum (those of all titles that"
                " lead to it), or ignore (those of the title that the entity links to)",
            ),
            text("agent", "whose page views count: user, or all (crawlers too)"),
        ),
    ),
    Table(
        "grounding_prompts",
        "One row per grounding prompt of the study.",
        (
            GROUNDING_PROMPT,
            GROUNDING_KIND,
            _POSITION,
            text("text", "what stands behind the question; empty for the null prompt"),
            text(
                "assembly",
                "how question and grounding prompt are put together: paper, or reference, as the authors' code does it",
            ),
            column("datasets", TEXTS, "datasets whose questions are asked under it"),
            column("methods", TEXTS, "methods by which they are asked"),
        ),
    ),
)
