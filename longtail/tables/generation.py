"""Lake tables of what models write, and of what imported files say of models, with the accounts of each request."""

from __future__ import annotations

import pyarrow as pa

from longtail.tables.schema import (
    DATASET,
    HAS_ANSWER_POPQA,
    METHOD,
    MODEL,
    PARAPHRASE_ID,
    POLICY,
    PROMPT,
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

# If a file of imported answers does not say a value, the value is null, never zero.
ACCOUNTS = (
    int32(
        "prompt_tokens",
        "tokens of the prompt given to the model; null if imported from a file that does not say",
        null=True,
    ),
    int32(
        "shared_tokens",
        "prompt tokens that were not computed for this row, because other rows share them; null if imported",
        null=True,
    ),
    int32(
        "new_tokens",
        "generated tokens, without the end token; null if imported from a file that does not say",
        null=True,
    ),
    int32(
        "reasoning_tokens",
        "those of new_tokens that are the model's reasoning, which is no part of the answer; null if there are none, or"
        " if the service does not say",
        null=True,
    ),
    int32(
        "n_truncated_tokens",
        "tokens cut from the left of the prompt so that it fits the model; null if imported",
        null=True,
    ),
    measure(
        "latency_ms",
        "this row's share of the wall time of its batch, or the time of its request to a service, in milliseconds;"
        " null if imported from a file that does not say",
    ),
    int32("batch_size", "rows in the batch that computed this row; null if imported", null=True),
    measure(
        "device_seconds", "this row's share of the time of the local devices, in seconds; null for a service"
    ),
    measure(
        "cost_usd",
        "device_seconds at the model's device_hour_usd, or what the service billed, in US dollars; null without a"
        " price",
    ),
    measure(
        "reasoning_usd",
        "the part of cost_usd that the service billed for reasoning_tokens, in US dollars; null if it is not known",
    ),
    text("engine", "backend that computed the row; imported = it comes from a file"),
    text(
        "revision",
        "exact weights: commit on the hub, SHA-256 of the files, or what the service or the imported file calls them",
    ),
    text(
        "served_model",
        "the model that the service says it used; null if it does not say, and for local and imported models",
        null=True,
    ),
    text(
        "dtype",
        "number format of the weights; unknown if imported, or if the study does not declare it for a service",
    ),
    text("quantisation", "none, or the scheme; unknown for a service without a declared one"),
    text(
        "decoding",
        "how the text was decoded: greedy or temperature, where it ends, and the settings of the checkpoint that were"
        " followed (forced, forbidden or penalised tokens); null if imported",
        null=True,
    ),
    int64("seed", "seed of the demonstrations or of the sample; null if imported", null=True),
    flag(
        "is_reused",
        "the generation came from the row cache: an earlier run or another partition had computed it",
    ),
    text(
        "generated_for",
        "fingerprint of the partition that this generation was computed for; null if imported",
        null=True,
    ),
    text("run_id", "Dagster run that wrote this row"),
    text("code_version", "hash of the code that built the prompt and scored the answer"),
)


CONFIDENCE = (
    int32(
        "confidence_tokens",
        "tokens of the prediction whose probabilities are known: the end token and what was cut off left out; null if"
        " none are",
        null=True,
    ),
    measure(
        "sum_log_probability",
        "sum of the natural logarithms of the probabilities of these tokens, at temperature 1; null if not known",
    ),
    measure("least_probability", "probability of the least probable of these tokens; null if not known"),
    measure("first_probability", "probability of the first of these tokens; null if not known"),
    measure(
        "first_margin", "probability of the likeliest first token minus that of the second; null if not known"
    ),
    measure(
        "mean_entropy",
        "mean over these tokens of the entropy of the whole vocabulary, in nats; null if not known",
    ),
)

_NO_GOLD_LEFT = "null if the normalisation leaves nothing of any gold answer (The, !!!)"
GENERATION = (
    PROMPT_HASH,
    text(
        "prediction",
        "the answer: the first line of the generation, without the model's reasoning, or only that line's first sentence"
        " if the model rambles (SPEC §3, §12); marts have it without white space at its ends",
    ),
    text("raw_text", "the generation before it was cut, with the model's reasoning"),
    flag(
        "is_declined",
        "the model was asked and did not answer: it says that it does not know, by a phrase of the study's key declines"
        " or by what an imported file says, or its service refused; such an answer is wrong by every rule (SPEC §12)",
    ),
    flag("is_correct", "the prediction contains a gold answer: PopQA's rule (SPEC §5, popqa)"),
    flag(
        "is_correct_case_sensitive", "the prediction contains a gold answer in the same upper and lower case"
    ),
    flag(
        "is_correct_normalized",
        f"prediction contains a gold answer, both SQuAD-normalised; {_NO_GOLD_LEFT}",
        null=True,
    ),
    flag(
        "is_exact_match",
        f"prediction equals a gold answer, both SQuAD-normalised; {_NO_GOLD_LEFT}",
        null=True,
    ),
    measure("token_f1", f"token F1 (SQuAD-normalised): the maximum over the gold answers; {_NO_GOLD_LEFT}"),
    measure(
        "rouge_l",
        "ROUGE-L F-measure: the maximum over the gold answers; null if none of them has a letter or digit",
    ),
    *CONFIDENCE,
    *ACCOUNTS,
)

PASSAGE_IDS = column(
    "passage_ids",
    TEXTS,
    "all passages that the model read for the question, best first; null if there are none or they are not known",
    null=True,
)

DEMONSTRATION_IDS = column(
    "demonstration_ids",
    TEXTS,
    "question ids of the demonstrations, in the prompt's order; null if imported",
    null=True,
)

GENERATION_TABLES = (
    Table(
        "answers",
        "One row per (dataset, question, model, method, prompt).",
        (
            DATASET,
            QUESTION_ID,
            MODEL,
            METHOD,
            PROMPT,
            text(
                "passage_id",
                "passage before the question, or the first of those apart from it; null if there is none or it is not"
                " known",
                null=True,
            ),
            PASSAGE_IDS,
            DEMONSTRATION_IDS,
            column(
                "demonstration_passage_ids",
                TEXTS,
                "passages before the demonstrations, in the same order, null for a demonstration without one; null if"
                " imported",
                null=True,
            ),
            *GENERATION,
        ),
        partitioned_by=("model", "method"),
    ),
    Table(
        "paraphrase_answers",
        "One row per (dataset, question, paraphrase, model, prompt), answered closed-book.",
        (
            DATASET,
            QUESTION_ID,
            PARAPHRASE_ID,
            MODEL,
            PROMPT,
            DEMONSTRATION_IDS,
            *GENERATION,
        ),
        partitioned_by=("model",),
    ),
    Table(
        "sampled_answers",
        "One row per (dataset, question, sample, model, prompt), answered closed-book at a temperature.",
        (
            DATASET,
            QUESTION_ID,
            int32("sample", "number of the sample, from 0"),
            MODEL,
            PROMPT,
            DEMONSTRATION_IDS,
            float64("temperature", "temperature of the draw; top_p 1, no top_k"),
            *GENERATION,
        ),
        partitioned_by=("model",),
    ),
    Table(
        "candidate_answers",
        "One row per (dataset, question, paraphrase, model, method, prompt): the likeliest candidate of a cloze query.",
        (
            DATASET,
            QUESTION_ID,
            PARAPHRASE_ID,
            MODEL,
            METHOD,
            PROMPT,
            PASSAGE_IDS,
            text(
                "prediction",
                "the candidate with the largest log-likelihood; the first of them, where several have it",
            ),
            float64(
                "log_likelihood",
                "sum of the log-probabilities of the prediction's tokens, without the end token; not divided by"
                " their number",
            ),
            int32("prediction_tokens", "tokens of the prediction"),
            float64("mean_log_likelihood", "log_likelihood divided by prediction_tokens"),
            measure(
                "margin",
                "log_likelihood minus that of the second candidate; 0 = a tie; null with a single candidate",
            ),
            float64(
                "confidence",
                "softmax of the prediction's log_likelihood among those of all candidates; 1 with a single candidate",
            ),
            int32(
                "gold_rank",
                "place of the right candidate in the order of log-likelihood, from 1; null if none is right",
                null=True,
            ),
            int32("n_candidates", "candidates that were scored"),
            flag("is_correct", "the prediction is the object of the fact"),
            text(
                "free_generation",
                "what the model writes freely behind the same prompt: the first line of a greedy text",
            ),
            flag(
                "is_mismatch",
                "the free generation equals a candidate other than the prediction, all SQuAD-normalised",
            ),
            PROMPT_HASH,
            *ACCOUNTS,
        ),
        partitioned_by=("model", "method"),
    ),
    Table(
        "generated_passages",
        "One row per (dataset, question, model): the background text that method genread puts before the question.",
        (
            DATASET,
            QUESTION_ID,
            MODEL,
            text("passage_id", "genread:model:question, unique within a dataset"),
            text("text", "the first line of the background text, used as the passage"),
            flag(
                "has_answer", "the passage contains a gold answer as a token sequence (DPR's rule, SPEC §4)"
            ),
            HAS_ANSWER_POPQA,
            PROMPT_HASH,
            text("raw_text", "the background text before it was cut"),
            *ACCOUNTS,
        ),
        partitioned_by=("model",),
    ),
    Table(
        "single_latencies",
        "One row per (dataset, question, model, method, prompt) that was asked alone: the time that one user waits.",
        (
            DATASET,
            QUESTION_ID,
            MODEL,
            METHOD,
            PROMPT,
            float64("single_latency_ms", "time of this one answer, in milliseconds"),
            int32(
                "round_number",
                "place of the question in the calibration, from 0 (all methods answer a question before the next one"
                " is asked); null for a service",
                null=True,
            ),
            int32(
                "turn",
                "place of the prompt in its round, from 0 (equal prompts are asked once and share a place); null for a"
                " service",
                null=True,
            ),
            text(
                "device",
                "what the model ran on; service = the times are those of the requests that answered the questions",
            ),
            text("engine", "generation backend that was timed"),
            text("run_id", "Dagster run that wrote this row"),
        ),
        partitioned_by=("model",),
    ),
    Table(
        "answer_embeddings",
        "One row per (model, distinct answer text of paraphrase_answers and sampled_answers).",
        (
            MODEL,
            text("text", "answer text; an empty answer is embedded as the empty string"),
            column("embedding", pa.list_(pa.float32(), 384), "unit vector from the sentence encoder"),
            text("encoder", "sentence encoder: name@weights-settings"),
        ),
        partitioned_by=("model",),
    ),
    Table(
        "answer_entailments",
        "One row per (asked, dataset, question, model, prompt): how far its answers entail each other; empty without key"
        " nli in the study.",
        (
            text("asked", "paraphrases or samples: whose answers are compared"),
            DATASET,
            QUESTION_ID,
            MODEL,
            PROMPT,
            float64(
                "mean_entailment",
                "mean probability, over ordered pairs of answers, that one entails the other; 1 for equal texts",
            ),
            int64("n_pairs", "pairs of answers, n(n - 1)/2"),
            text("classifier", "what computed the probabilities: name@weights-code"),
        ),
        partitioned_by=("model",),
    ),
)


IMPORT_TABLES = (
    Table(
        "imported_popularity",
        "One row per entity whose popularity an imported dataset gives or declares missing.",
        (
            text("entity_id", "entity id: Q…, or the id that a question of a table brings"),
            measure(
                "popularity",
                "popularity as the file gives it, without a stated month; null = missing, which is not zero",
            ),
            text(
                "dataset",
                "dataset whose file gave the popularity: the first in the study that names the entity",
            ),
        ),
    ),
    Table(
        "imported_answers",
        "One row per (dataset, question, model, method, prompt) of an imported result file.",
        (
            DATASET,
            QUESTION_ID,
            MODEL,
            METHOD,
            PROMPT,
            text(
                "text",
                "the answer in the file, without the model's reasoning; null if there is none",
                null=True,
            ),
            text("failure", "why there is no answer (SPEC §12); null if there is one", null=True),
            flag("is_declined", "the file says that the model declined; null if it does not say", null=True),
            flag("is_correct", "the file itself calls the answer right; null if it does not say", null=True),
            flag(
                "has_answer",
                "the file says that the passage contains an answer; null without a passage",
                null=True,
            ),
            text("passage", "retrieved passage, as the file names it; null without one", null=True),
            text("background", "generated passage; null without one", null=True),
            PROMPT_HASH,
            text("quantisation", "none or 8bit, according to the name of the file"),
            text("made_by", "model, as the file names it; empty if the file names none"),
            text("place", "file and row"),
            int32("prompt_tokens", "tokens of the prompt; null if the file does not say", null=True),
            int32(
                "new_tokens", "generated tokens, reasoning included; null if the file does not say", null=True
            ),
            int32(
                "reasoning_tokens",
                "tokens of reasoning among them; null if there are none or not known",
                null=True,
            ),
            measure("latency_ms", "time of the answer in milliseconds; null if the file does not say"),
            *CONFIDENCE,
        ),
        partitioned_by=("model",),
    ),
    Table(
        "imported_decisions",
        "One row per (dataset, policy, question): whether a policy of others retrieves for the question.",
        (
            DATASET,
            POLICY,
            QUESTION_ID,
            flag("retrieves", "the policy retrieves; null where its file has a score alone", null=True),
            measure("score", "the higher, the rather it retrieves; null without one"),
            text("place", "file and row"),
        ),
    ),
)
