"""Lake tables of generated texts, their costs, and what is computed from them."""

from __future__ import annotations

import pyarrow as pa

from dagster_project.core.tables.accounts import ACCOUNTS
from dagster_project.core.tables.schema import (
    DATASET,
    HAS_ANSWER_POPQA,
    METHOD,
    MODEL,
    PARAPHRASE_ID,
    PROMPT,
    PROMPT_HASH,
    QUESTION_ID,
    TEXTS,
    Table,
    column,
)

CONFIDENCE = (
    column(
        "confidence_tokens",
        pa.int32(),
        "tokens of the prediction whose probabilities are known: the end token and what was cut off left out; null if"
        " none are",
        null=True,
    ),
    column(
        "sum_log_probability",
        pa.float64(),
        "sum of the natural logarithms of the probabilities of these tokens, at temperature 1; null if not known",
        null=True,
    ),
    column(
        "least_probability",
        pa.float64(),
        "probability of the least probable of these tokens; null if not known",
        null=True,
    ),
    column(
        "first_probability",
        pa.float64(),
        "probability of the first of these tokens; null if not known",
        null=True,
    ),
    column(
        "first_margin",
        pa.float64(),
        "probability of the likeliest first token minus that of the second; null if not known",
        null=True,
    ),
    column(
        "mean_entropy",
        pa.float64(),
        "mean over these tokens of the entropy of the whole vocabulary, in nats; null if not known",
        null=True,
    ),
)

GENERATION = (
    PROMPT_HASH,
    column(
        "prediction",
        pa.string(),
        "the answer: the first line of the generation, or only its first sentence if the model rambles (SPEC §3)",
    ),
    column("raw_text", pa.string(), "the generation before it was cut"),
    column("is_correct", pa.bool_(), "the prediction contains a gold answer: PopQA's rule (SPEC §5, popqa)"),
    column(
        "is_correct_case_sensitive",
        pa.bool_(),
        "the prediction contains a gold answer in the same upper and lower case",
    ),
    column("is_correct_normalized", pa.bool_(), "prediction contains a gold answer, both SQuAD-normalised"),
    column("is_exact_match", pa.bool_(), "prediction equals a gold answer, both SQuAD-normalised"),
    column("token_f1", pa.float64(), "token F1 (SQuAD-normalised): the maximum over the gold answers"),
    column("rouge_l", pa.float64(), "ROUGE-L F-measure: the maximum over the gold answers"),
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
            column(
                "passage_id",
                pa.string(),
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
            column("sample", pa.int32(), "number of the sample, from 0"),
            MODEL,
            PROMPT,
            DEMONSTRATION_IDS,
            column("temperature", pa.float64(), "temperature of the draw; top_p 1, no top_k"),
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
            column(
                "prediction",
                pa.string(),
                "the candidate with the largest log-likelihood; the first of them, where several have it",
            ),
            column(
                "log_likelihood",
                pa.float64(),
                "sum of the log-probabilities of the prediction's tokens, without the end token; not divided by"
                " their number",
            ),
            column("prediction_tokens", pa.int32(), "tokens of the prediction"),
            column("mean_log_likelihood", pa.float64(), "log_likelihood divided by prediction_tokens"),
            column(
                "margin",
                pa.float64(),
                "log_likelihood minus that of the second candidate; 0 = a tie; null with a single candidate",
                null=True,
            ),
            column(
                "confidence",
                pa.float64(),
                "softmax of the prediction's log_likelihood among those of all candidates; 1 with a single candidate",
            ),
            column(
                "gold_rank",
                pa.int32(),
                "place of the right candidate in the order of log-likelihood, from 1; null if none is right",
                null=True,
            ),
            column("n_candidates", pa.int32(), "candidates that were scored"),
            column("is_correct", pa.bool_(), "the prediction is the object of the fact"),
            column(
                "free_generation",
                pa.string(),
                "what the model writes freely behind the same prompt: the first line of a greedy text",
            ),
            column(
                "is_mismatch",
                pa.bool_(),
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
            column("passage_id", pa.string(), "genread:model:question, unique within a dataset"),
            column("text", pa.string(), "the first line of the background text, used as the passage"),
            column(
                "has_answer",
                pa.bool_(),
                "the passage contains a gold answer as a token sequence (DPR's rule, SPEC §4)",
            ),
            HAS_ANSWER_POPQA,
            PROMPT_HASH,
            column("raw_text", pa.string(), "the background text before it was cut"),
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
            column("single_latency_ms", pa.float64(), "time of this one answer, in milliseconds"),
            column(
                "round_number",
                pa.int32(),
                "place of the question in the calibration, from 0 (all methods answer a question before the next one"
                " is asked); null for a service",
                null=True,
            ),
            column(
                "turn",
                pa.int32(),
                "place of the prompt in its round, from 0 (equal prompts are asked once and share a place); null for a"
                " service",
                null=True,
            ),
            column(
                "device",
                pa.string(),
                "what the model ran on; service = the times are those of the requests that answered the questions",
            ),
            column("engine", pa.string(), "generation backend that was timed"),
            column("run_id", pa.string(), "Dagster run that wrote this row"),
        ),
        partitioned_by=("model",),
    ),
    Table(
        "answer_embeddings",
        "One row per (model, distinct answer text of paraphrase_answers and sampled_answers).",
        (
            MODEL,
            column("text", pa.string(), "answer text; an empty answer is embedded as the empty string"),
            column("embedding", pa.list_(pa.float32(), 384), "unit vector from the sentence encoder"),
            column("encoder", pa.string(), "sentence encoder: name@weights-settings"),
        ),
        partitioned_by=("model",),
    ),
    Table(
        "answer_entailments",
        "One row per (asked, dataset, question, model, prompt): how far its answers entail each other; empty without key"
        " nli in the study.",
        (
            column("asked", pa.string(), "paraphrases or samples: whose answers are compared"),
            DATASET,
            QUESTION_ID,
            MODEL,
            PROMPT,
            column(
                "mean_entailment",
                pa.float64(),
                "mean probability, over ordered pairs of answers, that one entails the other; 1 for equal texts",
            ),
            column("n_pairs", pa.int64(), "pairs of answers, n(n - 1)/2"),
            column("classifier", pa.string(), "what computed the probabilities: name@weights-code"),
        ),
        partitioned_by=("model",),
    ),
)
