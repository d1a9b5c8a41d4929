"""Figures of consistency: semantic (PopQA-TP) and factual (ParaRel), and whether it predicts that an answer is right."""

from __future__ import annotations

from longtail.report.figure import Figure
from longtail.report.figures.memory import FEWEST_BY_RELATION, INTERVAL
from longtail.report.marks import (
    ACCURACY_Y,
    MODELS,
    categories,
    curves,
    curves_in_panels,
    panels,
    points_in_rows,
    popularity_x,
    quantity,
    relation_dots,
    series,
    share_y,
    value_x,
)

BY_RELATION = Figure(
    key="consistency_by_relation",
    title="Consistency and certainty by relation",
    shows="Consistency is the mean cosine similarity of a model's answers to paraphrases of one question. Certainty "
    "is the same for answers sampled for one wording. Both are means over the questions that have the measure (n); 1 "
    "means that all answers agree. A high value does not mean a right answer: a model may be certain of a wrong one.",
    source="PopQA-TP, sections 3.2 and 4.1, Figure 2",
    sql="""select dataset, prompt, model, relation, measure,
    case measure when 'consistency' then n_scons when 'certainty' then n_cert else n end as n, value
from (
    unpivot (
        select *, scons as consistency, cert as certainty from marts.fct_semantic_consistency
    ) on consistency, certainty, accuracy into name measure value value
)
order by dataset, prompt, measure desc, model, relation""",
    labels={"value": "mean"},
    spec=relation_dots("measure", value_x("value"), least=260),
)

AGAINST_ACCURACY = Figure(
    key="consistency_against_accuracy",
    title="Consistency against accuracy",
    shows="One point per relation. If the points rise, a model that agrees with itself is more often right.",
    source="PopQA-TP, Figure 3",
    sql="""select dataset, prompt, model, relation, n, n_scons, n_cert, accuracy, scons, cert
from marts.fct_semantic_consistency
where relation <> 'all' and scons is not null
order by dataset, prompt, model, relation""",
    labels={"n": "n of accuracy"},
    spec=panels(
        "model",
        {
            "mark": {
                "type": "point",
                "filled": True,
                "size": 60,
                "opacity": 0.85,
                "color": "var(--series-1)",
            },
            "encoding": {
                "x": quantity("scons", "consistency", {"tickCount": 5}, {"zero": False}),
                "y": ACCURACY_Y,
            },
        },
        least=220,
    ),
)

PARAPHRASES = Figure(
    key="paraphrase_quality",
    title="How close the paraphrases are",
    shows="Cosine of the sentence embeddings of a paraphrase and its question: the mean per relation, then over "
    "relations. The paper reports 0.914 for its own paraphrases. If the values were low, inconsistent answers would "
    "not be a fault of the model.",
    source="PopQA-TP, section 2",
    sql="""select dataset, relation, encoder, n_questions, n_paraphrases, mean_cosine, least_cosine
from marts.fct_paraphrase_quality
order by dataset, relation <> 'all', relation""",
    labels={"n_questions": "questions"},
)


_ANSWERED_BY = "if(min(model) over () = max(model) over (), method, model || ', ' || method) as answered_by"
_FACT_MEASURES = "('consistency', 'accuracy', 'majority_accuracy', 'all_right')"

FACTS_BY_RELATION = Figure(
    key="factual_consistency",
    title="Factual consistency",
    shows="Facts are asked as sentences with a gap, in several patterns; the model chooses among the objects of the "
    "relation. Consistency is the share of ordered pairs of patterns that get the same object, whether it is right or "
    "not. `accuracy` is that of the first pattern, `majority_accuracy` that of always giving the most frequent object, "
    "and `all_right` the share of facts that are right in every pattern. Relation `all` is the mean over relations. Bars "
    "are bootstrap 95 % intervals over whole subjects.",
    source="ParaRel (Elazar et al., 2021); SPEC §8",
    sql=f"""select dataset, prompt, model, method,
    {_ANSWERED_BY},
    relation, measure, n_facts, value, ci_low, ci_high
from marts.fct_factual_consistency
where measure in {_FACT_MEASURES} and value is not null
order by dataset, prompt, measure <> 'consistency', measure, model, method, relation <> 'all', relation""",  # noqa: S608
    spec=points_in_rows(
        "measure",
        value_x("value", whole=True),
        "relation",
        series("answered_by", "model and method"),
        side_by_side=True,
        size=45,
        least=260,
        lanes="answered_by",
    ),
)

FACTS_BY_POPULARITY = Figure(
    key="factual_consistency_by_popularity",
    title="Factual consistency by popularity",
    shows="The same measures by the popularity of the subject ({popularity}), with the facts of all relations together. "
    "Facts whose subject is not linked to an entity of known popularity are left out, and so are bins with too few "
    "subjects for an interval. Bands are bootstrap 95 % intervals over whole subjects.",
    source="SPEC §8, by popularity",
    sql=f"""select dataset, prompt, model, method,
    {_ANSWERED_BY},
    bin_low, bin_high, pow(10, bin_center_log10) as popularity, measure, n_facts, value, ci_low, ci_high
from marts.fct_factual_consistency_by_popularity
where measure in {_FACT_MEASURES} and ci_low is not null
order by dataset, prompt, measure <> 'consistency', measure, model, method, bin""",  # noqa: S608
    spec=curves_in_panels(
        "measure",
        popularity_x(),
        share_y("value", "share"),
        series("answered_by", "model and method"),
        least=260,
    ),
)

RETRIEVERS = Figure(
    key="retriever_consistency",
    title="Do two wordings find the same passages?",
    shows="Two wordings of a question are compared by the passages that a retriever finds: those found for both as a "
    "share of those found for either (`passages_jaccard`), the same for their titles, and the cosine of the wordings' "
    "vectors. Pairs with equal answers and pairs with different answers are shown apart: if the passages decide the "
    "answer, pairs with equal answers are more similar. Bars are 95 % intervals that take the pairs of a subject "
    "together.",
    source="Hagström et al. (Atlas), retriever consistency; SPEC §8",
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
    spec=points_in_rows(
        "measure",
        value_x("similarity"),
        "answered_by",
        categories("answers", "answers", ["equal", "different"]),
        side_by_side=True,
        size=45,
        least=260,
    ),
    choose=("retriever",),
)

BY_STEP = Figure(
    key="tuned_models",
    title="Fine-tuned readers",
    shows="One panel per setting of the sweep, checkpoint after checkpoint. The first point is the reader before "
    "training, on the same facts. `accuracy` is the share of facts whose first pattern is answered right. "
    "`consistency` is the share of ordered pairs of patterns that get the same object, whether it is right or "
    "not. Both are means over relations. `judged`: facts of relations that are not trained on. `held_out`: "
    "facts of the training relations that no step trains on; the checkpoint that is best on them is kept. Bands "
    "are bootstrap 95 % intervals over whole subjects.",
    source="SPEC §8",
    sql="""select tuned_model, split, step, measure, n_facts, value, ci_low, ci_high, is_best, loss, retriever_loss,
    batch_size, reader_rate, retriever_rate, temperature, passages_per_query,
    array_to_string(training_relations, ', ') as training_relations
from marts.fct_tuned_models
where relation = 'all' and value is not null
order by split desc, batch_size, reader_rate desc, temperature desc, passages_per_query, tuned_model, measure, step""",
    labels={"tuned_model": "setting"},
    spec=curves_in_panels(
        "tuned_model",
        {"field": "step", "type": "ordinal", "title": "steps of training", "axis": {"labelAngle": 0}},
        share_y("value", "accuracy, consistency"),
        categories("measure", "measure", ("accuracy", "consistency")),
        least=300,
    ),
    choose=("split",),
)


_REGRESSION, _MAJORITY = "regression", "majority"
HELD_OUT = Figure(
    key="prediction_held_out",
    title="Predicting whether an answer is right",
    shows="Share of questions for which a logistic regression predicts rightly whether the model's answer is right. "
    "It was fitted on other questions. `majority` always predicts what happened to most of those. `all` "
    "knows the relation, the popularity of the subject, the consistency over paraphrases (`scons`) and the certainty "
    f"over samples (`cert`); the other rows lack some of them. {INTERVAL} The table has the fit on all questions beside "
    "it: McFadden's R² and Akaike's criterion.",
    source="PopQA-TP, Tables 5, 6 and 8",
    sql=f"""with held_out as (
    select dataset, prompt, model, setting, predictors, n_scored as n, accuracy, ci_low, ci_high, baseline, gain
    from marts.fct_prediction_models
    where fit = 'held_out' and accuracy is not null
), whole as (
    select dataset, prompt, model, setting, predictors, mcfadden_r2, aic, n_separated
    from marts.fct_prediction_models
    where fit = 'all_rows'
), predicted as (
    select * exclude (baseline), '{_REGRESSION}' as predicted_by
    from held_out
    inner join whole using (dataset, prompt, model, setting, predictors)
    union all by name
    select dataset, prompt, model, setting, predictors, n, baseline as accuracy, '{_MAJORITY}' as predicted_by
    from held_out
)
select * from predicted
order by dataset, prompt, setting, model,
    list_position(['all', 'without_popularity', 'without_relation', 'scons_cert', 'cert', 'scons'], predictors),
    predicted_by""",  # noqa: S608
    labels={"setting": "relations", "gain": "gain over the majority"},
    spec=points_in_rows(
        "model",
        quantity(
            "accuracy", "predicted rightly", {"format": "%", "tickCount": 5, "grid": True}, {"zero": False}
        ),
        "predictors",
        categories("predicted_by", "predicted by", (_REGRESSION, _MAJORITY)),
        side_by_side=True,
        least=215,
        step=36,
    ),
    choose=("setting",),
)

_DIAGONAL = {
    "mark": {"type": "rule", "strokeDash": [4, 3]},
    "encoding": {
        "x": {"datum": 0}, "y": {"datum": 0}, "x2": {"datum": 1}, "y2": {"datum": 1},
        "color": {"value": "var(--muted)"},
    },
}  # fmt: skip
_RELIABILITY = curves(
    quantity(
        "mean_probability", "predicted probability", {"format": "%", "tickCount": 5}, {"domain": [0, 1]}
    ),
    share_y("accuracy", "answered right"),
    series("estimator", "estimator"),
)
CALIBRATION = Figure(
    key="prediction_calibration",
    title="Are the predicted probabilities right?",
    shows="How often an answer is right, by its predicted probability. No estimator saw the subject of the question "
    "that it predicts. On the dashed line the probability is exactly the share of right answers; above it the prediction "
    f"is too low. {INTERVAL} Bins under {FEWEST_BY_RELATION} questions are left out.",
    source="Guo, Pleiss, Sun and Weinberger (2017), reliability diagram",
    sql=f"""select dataset, prompt, model, signal, estimator, calibration.n, mean_probability, accuracy, ci_low, ci_high,
    scores.auroc, scores.brier, scores.expected_calibration_error
from marts.fct_prediction_calibration as calibration
inner join marts.fct_prediction_scores as scores using (dataset, prompt, model, signal, estimator)
where calibration.n >= {FEWEST_BY_RELATION}
order by dataset, prompt, model, signal, estimator, mean_probability""",  # noqa: S608
    labels={
        "auroc": "AUROC of all bins",
        "brier": "Brier score of all bins",
        "expected_calibration_error": "calibration error of all bins",
    },
    spec=panels(
        "model", {**_RELIABILITY, "layer": [_DIAGONAL, *_RELIABILITY["layer"]]}, least=220, ratio=1.0
    ),
    choose=("signal",),
)

_MOST_RELATIONS = 8
DIAGNOSTICS = Figure(
    key="prediction_diagnostics",
    title="Each relation has its own slope",
    shows="Accuracy by the value of a predictor (`scons`: consistency over paraphrases, `cert`: certainty over samples), "
    f"for the {_MOST_RELATIONS} relations with the most answers, one panel each. Where the curves rise differently, the "
    "regression needs a slope for each relation. Bins have equal width over all questions of a model. Bins outside the "
    f"central values of the relation, and under {FEWEST_BY_RELATION} questions, are left out. {INTERVAL}",
    source="PopQA-TP, Figures 4 and 5",
    sql=f"""with largest as (
    select dataset, relation from marts.fct_prediction_diagnostics
    group by dataset, relation
    qualify row_number() over (partition by dataset order by sum(n) desc, relation) <= {_MOST_RELATIONS}
)
select dataset, prompt, model, predictor, relation, bin_center, n, accuracy, ci_low, ci_high
from marts.fct_prediction_diagnostics
inner join largest using (dataset, relation)
where is_central and n >= {FEWEST_BY_RELATION}
order by dataset, prompt, predictor, relation, model, bin_center""",  # noqa: S608
    spec=curves_in_panels(
        "relation",
        quantity("bin_center", "value of the predictor", {"tickCount": 5}, {"zero": False}),
        ACCURACY_Y,
        MODELS,
        least=200,
        ratio=0.66,
    ),
    choose=("predictor", "model"),
)
