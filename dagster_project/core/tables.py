"""The columns of every lake table: the single source for writers, readers, dbt sources and tests.

What belongs here: names, types, grains and comments of lake tables. What does not: how a table is computed (its own
module), how it is stored (`lake`), and the published marts (dbt).
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

TEXTS = pa.list_(pa.string())


@dataclass(frozen=True)
class Column:
    """One column: its Arrow type and what it holds, with units."""

    name: str
    type: pa.DataType
    description: str
    nullable: bool = False


@dataclass(frozen=True)
class Table:
    """One lake table: its grain, what its partitions are, and its columns."""

    name: str
    grain: str
    columns: tuple[Column, ...]
    partitioned_by: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in self.columns])


def _c(name: str, type_: pa.DataType, description: str, *, null: bool = False) -> Column:
    return Column(name, type_, description, null)


_DATASET = _c("dataset", pa.string(), "dataset, as named in the study")
_QUESTION_ID = _c(
    "question_id", pa.string(), "question within its dataset: subject and property, as in Q42-P19"
)
_MODEL = _c("model", pa.string(), "model, as named in the study")
_METHOD = _c(
    "method", pa.string(), "closed_book, or the retriever whose first passage stands before the question"
)
_PROMPT = _c("prompt", pa.string(), "prompt, as named in the study")

_GENERATION = (
    _c("prompt_hash", pa.string(), "SHA-256 of the exact prompt text"),
    _c("prediction", pa.string(), "the answer kept: first line of the generation (SPEC §3)"),
    _c("raw_text", pa.string(), "the generation before it was cut"),
    _c("is_correct", pa.bool_(), "some gold answer stands in the prediction: PopQA's rule (SPEC §5, popqa)"),
    _c("is_correct_case_sensitive", pa.bool_(), "some gold answer stands in the prediction as it is written"),
    _c("is_correct_normalized", pa.bool_(), "so on SQuAD-normalised words"),
    _c("is_exact_match", pa.bool_(), "prediction equals some gold answer, both SQuAD-normalised"),
    _c("token_f1", pa.float64(), "token F1, maximum over the gold answers, SQuAD-normalised"),
    _c("rouge_l", pa.float64(), "ROUGE-L F-measure, maximum over the gold answers"),
    _c("prompt_tokens", pa.int32(), "tokens of the prompt as given to the model"),
    _c("new_tokens", pa.int32(), "tokens generated, the end token left out"),
    _c("n_truncated_tokens", pa.int32(), "prompt tokens cut from the left to fit the model"),
    _c("latency_ms", pa.float64(), "this row's share of its batch's wall time, milliseconds"),
    _c("batch_size", pa.int32(), "rows in the batch that computed this row"),
    _c("cost_usd", pa.float64(), "latency at the model's device_hour_usd; null where none is set", null=True),
    _c("engine", pa.string(), "backend that computed the row"),
    _c("revision", pa.string(), "exact weights: hub commit, or SHA-256 of the files"),
    _c("dtype", pa.string(), "number format of the weights"),
    _c("quantisation", pa.string(), "none, or the scheme"),
    _c("seed", pa.int64(), "seed of the demonstrations' draw"),
    _c("is_reused", pa.bool_(), "the generation was taken from the row cache of an earlier run or partition"),
    _c("run_id", pa.string(), "Dagster run that wrote this row"),
    _c("code_version", pa.string(), "hash of the code that built the prompt and scored the answer"),
)

_ALL = (
    Table(
        "models",
        "One row per model of the study.",
        (
            _MODEL,
            _c("family", pa.string(), "models of one family differ in size only"),
            _c("n_parameters", pa.int64(), "number of parameters; null if the study does not say", null=True),
            _c("backend", pa.string(), "generation backend"),
            _c("path", pa.string(), "where the weights come from"),
            _c("revision", pa.string(), "revision asked for; null = what the path holds", null=True),
            _c("dtype", pa.string(), "number format of the weights"),
            _c("quantisation", pa.string(), "none, or the scheme"),
        ),
    ),
    Table(
        "methods",
        "One row per method of the study.",
        (
            _METHOD,
            _c("is_parametric", pa.bool_(), "answers from the model's memory alone"),
            _c("description", pa.string(), "what the method gives the model"),
        ),
    ),
    Table(
        "prompts",
        "One row per prompt of the study.",
        (
            _PROMPT,
            _c("format", pa.string(), "template of question and answer"),
            _c("shots", pa.int32(), "number of demonstrations"),
            _c("draw", pa.string(), "how demonstrations are drawn; null without any", null=True),
            _c("asks", TEXTS, "questions, paraphrases or both"),
        ),
    ),
    Table(
        "datasets",
        "One row per dataset of the study.",
        (
            _DATASET,
            _c("source", pa.string(), "where its facts come from: sandbox, wikidata, rdf_file"),
            _c("relations", TEXTS, "relations asked about"),
            _c("snapshot", pa.string(), "month of the facts, as the study pins it"),
        ),
    ),
    Table(
        "popularity_windows",
        "One row: the popularity that the study's analyses use.",
        (
            _c("measure", pa.string(), "page_views or sitelinks"),
            _c("n_months", pa.int32(), "months of the window"),
            _c("last_month", pa.string(), "last month, YYYY-MM; null = the latest in the lake", null=True),
        ),
    ),
    Table(
        "triples",
        "One row per (subject, property, object).",
        (
            _c("subject_id", pa.string(), "entity id, Q…"),
            _c("property_id", pa.string(), "property id, P…"),
            _c("object_id", pa.string(), "entity id, Q…"),
            _c("relation", pa.string(), "name of the relation (SPEC §1)"),
            _c("source", pa.string(), "sandbox, wikidata or rdf_file: which world the fact is of"),
        ),
    ),
    Table(
        "entities",
        "One row per entity: every subject and object of a triple that has an English label.",
        (
            _c("entity_id", pa.string(), "entity id, Q…"),
            _c("label", pa.string(), "English label"),
            _c("aliases", TEXTS, "English aliases"),
            _c("description", pa.string(), "English description", null=True),
            _c(
                "article_title", pa.string(), "title of the English Wikipedia article; null = none", null=True
            ),
            _c(
                "sitelinks",
                pa.int32(),
                "number of Wikimedia pages about the entity; null = unknown",
                null=True,
            ),
            _c("source", pa.string(), "sandbox, wikidata or rdf_file"),
        ),
    ),
    Table(
        "page_views",
        "One row per (entity with an article, month): monthly page views of its article, agent user, all access.",
        (
            _c("entity_id", pa.string(), "entity id, Q…"),
            _c("article_title", pa.string(), "title of the English Wikipedia article"),
            _c("month", pa.string(), "YYYY-MM"),
            _c("views", pa.int64(), "page views; null = missing, which is not zero", null=True),
            _c("source", pa.string(), "sandbox or wikimedia"),
        ),
        partitioned_by=("month",),
    ),
    Table(
        "questions",
        "One row per (dataset, question): one question per (subject, relation).",
        (
            _DATASET,
            _QUESTION_ID,
            _c("relation", pa.string(), "name of the relation (SPEC §1)"),
            _c("property_id", pa.string(), "property id, P…"),
            _c("subject_id", pa.string(), "entity id of the subject"),
            _c("subject", pa.string(), "label of the subject"),
            _c("subject_aliases", TEXTS, "aliases of the subject"),
            _c("question", pa.string(), "the relation's template, filled"),
            _c("object_ids", TEXTS, "entity ids of all objects, sorted"),
            _c("objects", TEXTS, "labels of the objects, in the order of object_ids"),
            _c("gold_answers", TEXTS, "labels and aliases of all objects, distinct, none empty"),
        ),
    ),
    Table(
        "paraphrases",
        "One row per (dataset, question, paraphrase); paraphrase 0 is the question itself.",
        (
            _DATASET,
            _QUESTION_ID,
            _c(
                "paraphrase_id",
                pa.int32(),
                "0 = the question itself, then the relation's paraphrase templates",
            ),
            _c("template", pa.string(), "template with [subj]"),
            _c("paraphrase", pa.string(), "the template, filled"),
        ),
    ),
    Table(
        "passages",
        "One row per passage: about 100 words of one article, or one subject's verbalised triples.",
        (
            _c("passage_id", pa.string(), "entity id (or title) and position, as in Q42-0"),
            _c("entity_id", pa.string(), "entity the article is about; null = unknown", null=True),
            _c("title", pa.string(), "title of the article"),
            _c("position", pa.int32(), "position of the passage in its article, from 0"),
            _c("text", pa.string(), "the passage, title left out"),
            _c("source", pa.string(), "sandbox, wikipedia or verbalised"),
        ),
    ),
    Table(
        "retrieved_passages",
        "One row per (dataset, question, retriever, rank).",
        (
            _DATASET,
            _QUESTION_ID,
            _c("retriever", pa.string(), "bm25, dense or oracle: the method that uses it"),
            _c("rank", pa.int32(), "1 = best"),
            _c("passage_id", pa.string(), "passage"),
            _c("score", pa.float64(), "retriever's own score; null for oracle", null=True),
            _c(
                "has_answer",
                pa.bool_(),
                "a gold answer stands in the uncut text as a token sequence (DPR's rule)",
            ),
            _c("has_answer_popqa", pa.bool_(), "so by PopQA's substring rule"),
        ),
        partitioned_by=("retriever",),
    ),
    Table(
        "answers",
        "One row per (dataset, question, model, method, prompt).",
        (
            _DATASET,
            _QUESTION_ID,
            _MODEL,
            _METHOD,
            _PROMPT,
            _c("passage_id", pa.string(), "passage before the question; null for closed_book", null=True),
            _c("demonstration_ids", TEXTS, "question ids of the demonstrations, in the prompt's order"),
            *_GENERATION,
        ),
        partitioned_by=("model", "method"),
    ),
    Table(
        "paraphrase_answers",
        "One row per (dataset, question, paraphrase, model, prompt), answered closed-book.",
        (
            _DATASET,
            _QUESTION_ID,
            _c("paraphrase_id", pa.int32(), "0 = the question itself"),
            _MODEL,
            _PROMPT,
            *_GENERATION,
        ),
        partitioned_by=("model",),
    ),
    Table(
        "answer_embeddings",
        "One row per distinct answer text of paraphrase_answers.",
        (
            _c("text", pa.string(), "answer text; an empty answer is embedded as the empty string"),
            _c("embedding", pa.list_(pa.float32(), 384), "unit vector of the sentence encoder"),
            _c("encoder", pa.string(), "sentence encoder: name@weights-settings"),
        ),
    ),
    Table(
        "adaptive_gains",
        "One row per (dataset, prompt, model, parametric_method, retrieval_method, search, threshold_scope).",
        (
            _DATASET,
            _PROMPT,
            _MODEL,
            _c("parametric_method", pa.string(), "method used at and above the threshold"),
            _c("retrieval_method", pa.string(), "method used below the threshold"),
            _c("search", pa.string(), "exact or binned10 (SPEC §6)"),
            _c("threshold_scope", pa.string(), "per_relation or all"),
            _c("n_questions", pa.int64(), "questions with popularity and both answers"),
            _c("n_resamples", pa.int32(), "bootstrap resamples of questions"),
            _c(
                "gain_in_sample",
                pa.float64(),
                "accuracy of adaptive minus the better fixed method",
                null=True,
            ),
            _c(
                "gain_mean", pa.float64(), "mean of it over resamples, thresholds refitted in each", null=True
            ),
            _c("gain_low", pa.float64(), "its 2.5th percentile over resamples", null=True),
            _c("gain_high", pa.float64(), "its 97.5th percentile over resamples", null=True),
        ),
    ),
    Table(
        "quarantine",
        "One row per row that was put aside.",
        (
            _c("table_name", pa.string(), "lake table the row was meant for"),
            _c("partition", pa.string(), "its partition; empty where there is none"),
            _c("row_key", pa.string(), "line number, entity id or other key in the source"),
            _c("reason", pa.string(), "what was wrong"),
            _c("raw", pa.string(), "the original, cut at 2,000 characters, control characters escaped"),
        ),
        partitioned_by=("table_name", "partition"),
    ),
)

TABLES: dict[str, Table] = {table.name: table for table in _ALL}
