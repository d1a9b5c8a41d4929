"""Lake tables of the sweep: fine-tuned readers, and what each predicts (SPEC §8)."""

from __future__ import annotations

import pyarrow as pa

from dagster_project.core.tables.schema import (
    DATASET,
    PARAPHRASE_ID,
    QUESTION_ID,
    RELATION,
    Table,
    column,
)

TUNED_MODEL = column(
    "tuned_model", pa.string(), "reader that a setting of the sweep trains, named by the setting's values"
)
STEP = column("step", pa.int32(), "steps of training before the checkpoint; 0 = the reader before training")
SPLIT = column(
    "split",
    pa.string(),
    "held_out = facts of the training relations that no step trains on; judged = facts of other relations",
)

TUNING_TABLES = (
    Table(
        "sweep_settings",
        "One row per setting of the sweep: how a reader and its retriever are fine-tuned.",
        (
            TUNED_MODEL,
            column("base_model", pa.string(), "model of the study that training begins with"),
            column(
                "trained_retriever",
                pa.string(),
                "dense retriever whose queries are trained; its passages keep their vectors",
            ),
            column("batch_size", pa.int32(), "queries of a step"),
            column("reader_rate", pa.float64(), "learning rate of the reader"),
            column("retriever_rate", pa.float64(), "learning rate of the retriever's queries"),
            column("temperature", pa.float64(), "temperature of the retriever's distribution over passages"),
            column(
                "schedule",
                pa.string(),
                "constant: rates stay after 5 steps, and the reader's distribution has the same temperature; reference:"
                " rates rise for 20 steps and fall to 0, and the reader's temperature is .01",
            ),
            column("passages_per_query", pa.int32(), "passages that are read for each query"),
            column("training_relations", pa.list_(pa.string()), "relations whose facts are trained on"),
        ),
    ),
    Table(
        "tuned_models",
        "One row per (tuned_model, step): a checkpoint of a fine-tuned reader; step 0 is the reader before training.",
        (
            TUNED_MODEL,
            STEP,
            column(
                "loss",
                pa.float64(),
                "mean cross-entropy per token over the steps since the last checkpoint; null at step 0",
                null=True,
            ),
            column(
                "retriever_loss",
                pa.float64(),
                "mean divergence of the retriever's passages from the reader's, in nats, over the same steps",
                null=True,
            ),
            column("n_training_queries", pa.int64(), "patterns of facts that are trained on"),
            column(
                "n_held_out_queries", pa.int64(), "patterns of held-out facts that decide which one is kept"
            ),
            column("held_out_right", pa.float64(), "share of right predictions for these patterns"),
            column(
                "is_kept",
                pa.bool_(),
                "the setting's best checkpoint by held_out_right; of equal ones the first; never step 0",
            ),
            column(
                "folder",
                pa.string(),
                "folder of the reader, which a study can name as a model; null at step 0, the base model",
                null=True,
            ),
            column("folder_revision", pa.string(), "SHA-256 over the files of that folder", null=True),
        ),
        partitioned_by=("tuned_model",),
    ),
    Table(
        "tuned_answers",
        "One row per (tuned_model, step, split, dataset, question, paraphrase): a prediction at a step of training.",
        (
            TUNED_MODEL,
            STEP,
            SPLIT,
            DATASET,
            QUESTION_ID,
            PARAPHRASE_ID,
            RELATION,
            column(
                "prediction",
                pa.string(),
                "the candidate with the largest log-likelihood; of equal ones the first",
            ),
            column(
                "log_likelihood",
                pa.float64(),
                "sum of the log-probabilities of the prediction's tokens, without the end token",
            ),
            column("is_correct", pa.bool_(), "the prediction is the object of the fact"),
        ),
        partitioned_by=("tuned_model",),
    ),
    Table(
        "tuned_model_intervals",
        "One row per (tuned_model, step, split, relation, measure): a bootstrap interval; relation all = their mean.",
        (
            TUNED_MODEL,
            STEP,
            SPLIT,
            RELATION,
            column(
                "measure",
                pa.string(),
                "accuracy (of the first pattern), or consistency (of pairs of patterns)",
            ),
            column("n_resamples", pa.int32(), "bootstrap resamples of facts"),
            column(
                "value_low", pa.float64(), "2.5th percentile of the measure over the resamples", null=True
            ),
            column("value_high", pa.float64(), "97.5th percentile", null=True),
            column("undefined", pa.string(), "reason why there is no interval", null=True),
        ),
    ),
)
