"""Figures of the sweep of fine-tuned readers."""

from __future__ import annotations

from dagster_project.core.report.figure import Column, Figure, bounds
from dagster_project.core.report.marks import curves, fixed, panels, share_y

_SETTING = (
    Column("batch_size", "queries of a step", "count"),
    Column("reader_rate", "rate of the reader", "number"),
    Column("retriever_rate", "rate of the retriever", "number"),
    Column("temperature", "temperature", "number"),
    Column("passages_per_query", "passages", "count"),
    Column("training_relations", "trained on"),
)

BY_STEP = Figure(
    key="tuned_models",
    section="consistency",
    title="Fine-tuned readers",
    shows="One panel per setting of the sweep, checkpoint after checkpoint. The first point is the reader before "
    "training, on the same facts. `accuracy` is the share of facts whose first pattern is answered right. "
    "`consistency` is the share of ordered pairs of patterns that get the same object, whether it is right or "
    "not. Both are means over relations. `judged`: facts of relations that are not trained on. `held_out`: "
    "facts of the training relations that no step trains on; the checkpoint that is best on them is kept. Bands "
    "are bootstrap 95 % intervals over facts.",
    source="SPEC §8",
    tables=("fct_tuned_models",),
    sql="""select tuned_model, split, step, measure, n_facts, value, ci_low, ci_high, is_best, loss, retriever_loss,
    batch_size, reader_rate, retriever_rate, temperature, passages_per_query,
    array_to_string(training_relations, ', ') as training_relations
from marts.fct_tuned_models
where relation = 'all' and value is not null
order by split desc, batch_size, reader_rate desc, temperature desc, passages_per_query, tuned_model, measure, step""",
    columns=(
        Column("tuned_model", "setting"),
        Column("split", "facts"),
        Column("step", "step", "count"),
        Column("measure", "measure"),
        Column("n_facts", "n", "count"),
        Column("value", "value", "share", bounds()),
        Column("is_best", "kept", "flag"),
        Column("loss", "loss of the reader", "number"),
        Column("retriever_loss", "loss of the retriever", "number"),
        *_SETTING,
    ),
    spec=panels(
        "tuned_model",
        curves(
            {"field": "step", "type": "ordinal", "title": "steps of training", "axis": {"labelAngle": 0}},
            share_y("value", "accuracy, consistency"),
            fixed("measure", "measure", ("accuracy", "consistency")),
        ),
        least=300,
    ),
    choose=("split",),
    plot_on="fct_tuned_models",
)

FIGURES = (BY_STEP,)
