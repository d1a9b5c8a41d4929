"""Figures of performance prediction: is an answer right, judged without a reference answer (PopQA-TP, section 4)."""

from __future__ import annotations

from longtail.report.figure import Column, Figure
from longtail.report.figures.memory import (
    ACCURACY,
    FEWEST_BY_RELATION,
    INTERVAL,
    KEY,
    N,
)
from longtail.report.marks import (
    curves,
    fixed,
    names,
    panels,
    points,
    quantity,
    series,
    share_y,
)

_REGRESSION, _MAJORITY = "regression", "majority"
HELD_OUT = Figure(
    key="prediction_held_out",
    section="consistency",
    title="Predicting whether an answer is right",
    shows="Share of questions for which a logistic regression predicts rightly whether the model's answer is right. "
    "It was fitted on other questions. `majority` always predicts what happened to most of those. `all` "
    "knows the relation, the popularity of the subject, the consistency over paraphrases (`scons`) and the certainty "
    f"over samples (`cert`); the other rows lack some of them. {INTERVAL} The table has the fit on all questions beside "
    "it: McFadden's R² and Akaike's criterion.",
    source="PopQA-TP, Tables 5, 6 and 8",
    tables=("fct_prediction_models",),
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
    columns=(
        *KEY[:3],
        Column("setting", "relations"),
        Column("predictors", "predictors"),
        Column("predicted_by", "predicted by"),
        N,
        ACCURACY,
        Column("gain", "gain over the majority", "signed"),
        Column("mcfadden_r2", "McFadden's R²", "number"),
        Column("aic", "AIC", "number"),
        Column("n_separated", "separated relations", "count"),
    ),
    spec=panels(
        "model",
        points(
            quantity(
                "accuracy",
                "predicted rightly",
                {"format": "%", "tickCount": 5, "grid": True},
                {"zero": False},
            ),
            names("predictors"),
            fixed("predicted_by", "predicted by", (_REGRESSION, _MAJORITY)),
            offset="predicted_by",
        ),
        least=215,
        rows="predictors",
        step=36,
        axis=130,
    ),
    choose=("setting",),
    plot_on="fct_prediction_models",
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
    section="consistency",
    title="Are the predicted probabilities right?",
    shows="How often an answer is right, by its predicted probability. No estimator saw the subject of the question "
    "that it predicts. On the dashed line the probability is exactly the share of right answers; above it the prediction "
    f"is too low. {INTERVAL} Bins under {FEWEST_BY_RELATION} questions are left out.",
    source="Guo, Pleiss, Sun and Weinberger (2017), reliability diagram",
    tables=("fct_prediction_calibration", "fct_prediction_scores"),
    sql=f"""select dataset, prompt, model, signal, estimator, calibration.n, mean_probability, accuracy, ci_low, ci_high,
    scores.auroc, scores.brier, scores.expected_calibration_error
from marts.fct_prediction_calibration as calibration
inner join marts.fct_prediction_scores as scores using (dataset, prompt, model, signal, estimator)
where calibration.n >= {FEWEST_BY_RELATION}
order by dataset, prompt, model, signal, estimator, mean_probability""",  # noqa: S608
    columns=(
        *KEY[:3],
        Column("signal", "signal"),
        Column("estimator", "estimator"),
        N,
        Column("mean_probability", "predicted", "share"),
        ACCURACY,
        Column("auroc", "AUROC of all bins", "number"),
        Column("brier", "Brier score of all bins", "number"),
        Column("expected_calibration_error", "calibration error of all bins", "number"),
    ),
    spec=panels(
        "model", {**_RELIABILITY, "layer": [_DIAGONAL, *_RELIABILITY["layer"]]}, least=220, ratio=1.0
    ),
    choose=("signal",),
    plot_on="fct_prediction_calibration",
)

DIAGNOSTICS = Figure(
    key="prediction_diagnostics",
    section="consistency",
    title="Each relation has its own slope",
    shows="Accuracy by the value of a predictor (`scons`: consistency over paraphrases, `cert`: certainty over samples), "
    "with one panel per relation. Where the curves rise differently, the regression needs a slope for each relation. "
    "Bins have equal width over all questions of a model. Bins outside the "
    f"central values of the relation, and under {FEWEST_BY_RELATION} questions, are left out. {INTERVAL}",
    source="PopQA-TP, Figures 4 and 5",
    tables=("fct_prediction_diagnostics",),
    sql=f"""select dataset, prompt, model, predictor, relation, bin_center, n, accuracy, ci_low, ci_high
from marts.fct_prediction_diagnostics
where is_central and n >= {FEWEST_BY_RELATION}
order by dataset, prompt, predictor, relation, model, bin_center""",  # noqa: S608
    columns=(
        *KEY[:3],
        Column("predictor", "predictor"),
        Column("relation", "relation"),
        Column("bin_center", "value", "number"),
        N,
        ACCURACY,
    ),
    spec=panels(
        "relation",
        curves(
            quantity("bin_center", "value of the predictor", {"tickCount": 5}, {"zero": False}),
            share_y("accuracy", "accuracy"),
            series("model", "model"),
        ),
        least=200,
        ratio=0.66,
    ),
    choose=("predictor",),
    plot_on="fct_prediction_diagnostics",
)

FIGURES = (HELD_OUT, CALIBRATION, DIAGNOSTICS)
