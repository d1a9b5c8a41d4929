"""Lake tables of the sweep: fine-tuned readers, and what each predicts (SPEC §8)."""

from __future__ import annotations

import pyarrow as pa

from longtail.tables.schema import (
    DATASET,
    PARAPHRASE_ID,
    QUESTION_ID,
    RELATION,
    Table,
    column,
    flag,
    float64,
    int32,
    int64,
    measure,
    text,
)

TUNED_MODEL = text("tuned_model", "reader that a setting of the sweep trains, named by the setting's values")
STEP = int32("step", "steps of training before the checkpoint; 0 = the reader before training")
SPLIT = text(
    "split",
    "held_out = facts of the training relations that no step trains on; judged = facts of other relations",
)

TUNING_TABLES = (
    Table(
        "sweep_settings",
        "One row per setting of the sweep: how a reader and its retriever are fine-tuned.",
        (
            TUNED_MODEL,
            text("base_model", "model of the study that training begins with"),
            text(
                "trained_retriever",
                "dense retriever whose queries are trained; its passages keep their vectors",
            ),
            int32("batch_size", "queries of a step"),
            float64("reader_rate", "learning rate of the reader"),
            float64("retriever_rate", "learning rate of the retriever's queries"),
            float64("temperature", "temperature of the retriever's distribution over passages"),
            text(
                "schedule",
                "constant: rates stay after 5 steps, and the reader's distribution has the same temperature; reference:"
                " rates rise for 20 steps and fall to 0, and the reader's temperature is .01",
            ),
            int32("passages_per_query", "passages that are read for each query"),
            column("training_relations", pa.list_(pa.string()), "relations whose facts are trained on"),
        ),
    ),
    Table(
        "tuned_models",
        "One row per (tuned_model, step): a checkpoint of a fine-tuned reader; step 0 is the reader before training.",
        (
            TUNED_MODEL,
            STEP,
            measure(
                "loss",
                "mean cross-entropy per token over the steps since the last checkpoint; null at step 0",
            ),
            measure(
                "retriever_loss",
                "mean divergence of the retriever's passages from the reader's, in nats, over the same steps",
            ),
            int64("n_training_queries", "patterns of facts that are trained on"),
            int64("n_held_out_queries", "patterns of held-out facts that decide which one is kept"),
            float64("held_out_right", "share of right predictions for these patterns"),
            flag(
                "is_kept",
                "the setting's best checkpoint by held_out_right; of equal ones the first; never step 0",
            ),
            text(
                "folder",
                "folder of the reader, which a study can name as a model; null at step 0, the base model",
                null=True,
            ),
            text("folder_revision", "SHA-256 over the files of that folder", null=True),
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
            text("prediction", "the candidate with the largest log-likelihood; of equal ones the first"),
            float64(
                "log_likelihood",
                "sum of the log-probabilities of the prediction's tokens, without the end token",
            ),
            flag("is_correct", "the prediction is the object of the fact"),
        ),
        partitioned_by=("tuned_model",),
    ),
)
