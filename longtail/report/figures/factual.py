"""Figures of factual consistency (ParaRel): by relation, by popularity, of what retrievers find, and of tuned readers."""

from __future__ import annotations

from longtail.report.figure import Column, Figure, bounds
from longtail.report.figures.memory import BIN_EDGES, KEY
from longtail.report.marks import (
    curves,
    fixed,
    names,
    panels,
    points,
    popularity_x,
    series,
    share_y,
    value_x,
)

_ANSWERED_BY = "if(min(model) over () = max(model) over (), method, model || ', ' || method) as answered_by"
_MEASURES = "('consistency', 'accuracy', 'majority_accuracy', 'all_right')"

BY_RELATION = Figure(
    key="factual_consistency",
    section="consistency",
    title="Factual consistency",
    shows="Facts are asked as sentences with a gap, in several patterns; the model chooses among the objects of the "
    "relation. Consistency is the share of ordered pairs of patterns that get the same object, whether it is right or "
    "not. `accuracy` is that of the first pattern, `majority_accuracy` that of always giving the most frequent object, "
    "and `all_right` the share of facts that are right in every pattern. Relation `all` is the mean over relations. Bars "
    "are bootstrap 95 % intervals over whole subjects.",
    source="ParaRel (Elazar et al., 2021); SPEC §8",
    tables=("fct_factual_consistency",),
    sql=f"""select dataset, prompt, model, method,
    {_ANSWERED_BY},
    relation, measure, n_facts, value, ci_low, ci_high
from marts.fct_factual_consistency
where measure in {_MEASURES} and value is not null
order by dataset, prompt, measure <> 'consistency', measure, model, method, relation <> 'all', relation""",  # noqa: S608
    columns=(
        *KEY,
        Column("relation", "relation"),
        Column("measure", "measure"),
        Column("n_facts", "facts", "count"),
        Column("value", "value", "share", bounds()),
    ),
    spec=panels(
        "measure",
        points(
            value_x("value", whole=True),
            names("relation"),
            series("answered_by", "model and method"),
            offset="answered_by",
            size=45,
        ),
        least=260,
        rows="relation",
        lanes="answered_by",
        axis=120,
    ),
    plot_on="fct_factual_consistency",
)

BY_POPULARITY = Figure(
    key="factual_consistency_by_popularity",
    section="consistency",
    title="Factual consistency by popularity",
    shows="The same measures by the popularity of the subject ({popularity}), with the facts of all relations together. "
    "Facts whose subject is not linked to an entity of known popularity are left out, and so are bins with too few "
    "subjects for an interval. Bands are bootstrap 95 % intervals over whole subjects.",
    source="SPEC §8, by popularity",
    tables=("fct_factual_consistency_by_popularity",),
    sql=f"""select dataset, prompt, model, method,
    {_ANSWERED_BY},
    bin_low, bin_high, pow(10, bin_center_log10) as popularity, measure, n_facts, value, ci_low, ci_high
from marts.fct_factual_consistency_by_popularity
where measure in {_MEASURES} and ci_low is not null
order by dataset, prompt, measure <> 'consistency', measure, model, method, bin""",  # noqa: S608
    columns=(
        *KEY,
        Column("measure", "measure"),
        *BIN_EDGES,
        Column("n_facts", "facts", "count"),
        Column("value", "value", "share", bounds()),
    ),
    spec=panels(
        "measure",
        curves(
            popularity_x(),
            share_y("value", "share"),
            series("answered_by", "model and method"),
        ),
        least=260,
    ),
    plot_on="fct_factual_consistency_by_popularity",
)

RETRIEVERS = Figure(
    key="retriever_consistency",
    section="consistency",
    title="Do two wordings find the same passages?",
    shows="Two wordings of a question are compared by the passages that a retriever finds: those found for both as a "
    "share of those found for either (`passages_jaccard`), the same for their titles, and the cosine of the wordings' "
    "vectors. Pairs with equal answers and pairs with different answers are shown apart: if the passages decide the "
    "answer, pairs with equal answers are more similar. Bars are 95 % intervals that take the pairs of a subject "
    "together.",
    source="Hagström et al. (Atlas), retriever consistency; SPEC §8",
    tables=("fct_retriever_consistency",),
    sql=f"""select dataset, prompt, model, method, retriever, measure, answers,
    {_ANSWERED_BY},
    if(answers = 'equal', n_agreeing, n_disagreeing) as n_pairs,
    if(answers = 'equal', similarity_agreeing, similarity_disagreeing) as similarity,
    if(answers = 'equal', similarity_agreeing_low, similarity_disagreeing_low) as ci_low,
    if(answers = 'equal', similarity_agreeing_high, similarity_disagreeing_high) as ci_high,
    correlation, correlation_low, correlation_high
from marts.fct_retriever_consistency
cross join (values ('equal'), ('different')) as split (answers)
where relation = 'all' and model is not null
    and if(answers = 'equal', similarity_agreeing, similarity_disagreeing) is not null
order by dataset, prompt, retriever, measure, model, method, answers desc""",  # noqa: S608
    columns=(
        *KEY,
        Column("retriever", "retriever"),
        Column("measure", "measure"),
        Column("answers", "answers"),
        Column("n_pairs", "pairs", "count"),
        Column("similarity", "similarity", "share", bounds()),
        Column("correlation", "correlation", "signed", ("correlation_low", "correlation_high")),
    ),
    spec=panels(
        "measure",
        points(
            value_x("similarity"),
            names("answered_by"),
            fixed("answers", "answers", ["equal", "different"]),
            offset="answers",
            size=45,
        ),
        least=260,
        rows="answered_by",
        axis=120,
    ),
    choose=("retriever",),
    plot_on="fct_retriever_consistency",
)

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
    "are bootstrap 95 % intervals over whole subjects.",
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

FIGURES = (BY_RELATION, BY_POPULARITY, RETRIEVERS, BY_STEP)
