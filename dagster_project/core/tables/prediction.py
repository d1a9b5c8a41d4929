"""Lake tables of performance prediction: how likely an answer is right, without a reference answer (SPEC §7)."""

from __future__ import annotations

import pyarrow as pa

from dagster_project.core.tables.schema import DATASET, MODEL, PROMPT, QUESTION_ID, Column, Table, column


def _count(name: str, meaning: str) -> Column:
    return column(name, pa.int64(), meaning)


def _number(name: str, meaning: str) -> Column:
    return column(name, pa.float64(), meaning, null=True)


def _reason(name: str, of: str) -> Column:
    return column(name, pa.string(), f"reason why {of} null; null otherwise", null=True)


_MODEL_KEY = (
    DATASET,
    PROMPT,
    MODEL,
    column(
        "setting",
        pa.string(),
        "all_relations, or relations_above_0.1 = only relations of which the model answers more than a tenth right",
    ),
    column(
        "predictors",
        pa.string(),
        "what the regression knows: all (relation, log popularity, consistency, certainty, and the relation's"
        " interactions with the other three), without_popularity, without_relation, scons_cert (consistency and"
        " certainty), cert (certainty), scons (consistency)",
    ),
)
_FIT = column(
    "fit",
    pa.string(),
    "all_rows = on all questions; held_out = on a seeded 80 % of the questions, scored on the others",
)
_TERM = "as PopQA-TP writes them: QCat = relation, log(SPop) = log popularity, SCons = consistency, Cert = certainty"
_CODE = column(
    "code", pa.string(), "significance: *** below 0.001, ** 0.01, * 0.05, . 0.1, else empty", null=True
)

_MODELS = Table(
    "prediction_models",
    "One row per (dataset, prompt, model, setting, predictors, fit): a logistic regression of correctness.",
    (
        *_MODEL_KEY,
        _FIT,
        _count("n_questions", "questions of the dataset with an answer or samples"),
        _count("n_no_answer", "questions left out because the question itself has no answer"),
        _count("n_no_relation", "questions left out because they have no relation"),
        _count("n_no_popularity", "questions left out because popularity is missing"),
        _count("n_zero_popularity", "questions left out because popularity is 0, which has no logarithm"),
        _count("n_no_consistency", "questions left out because scons is null"),
        _count("n_no_certainty", "questions left out because cert is null"),
        _count("n_hard_relations", "questions left out by the setting"),
        _count("n_fitted", "questions that the regression is fitted on"),
        _count("n_correct", "questions of n_fitted that are answered right"),
        _count("n_relations", "relations of n_fitted; 1 if the predictors have no relation"),
        _count(
            "n_separated",
            "relations of n_relations without coefficients, because all answers have one outcome or a plane"
            " separates right from wrong ones",
        ),
        _count("n_separated_questions", "questions of these relations"),
        _count(
            "n_undetermined", "relations of n_relations with a coefficient that the data do not determine"
        ),
        column(
            "base_relation",
            pa.string(),
            "relation that treatment coding compares with: alphabetically the first one with all coefficients; null"
            " if no relation has coefficients, and if the predictors have no relation",
            null=True,
        ),
        _count(
            "n_coefficients",
            "coefficients that are estimated: the rank of the design matrix, separated relations included",
        ),
        _number("log_likelihood", "greatest log-likelihood, with its limit for separated relations"),
        _number("log_likelihood_null", "log-likelihood of the share of right answers alone"),
        _number("mcfadden_r2", "1 - log_likelihood / log_likelihood_null"),
        _number("aic", "Akaike's criterion: 2 n_coefficients - 2 log_likelihood"),
        _reason("undefined", "mcfadden_r2 is"),
        column(
            "n_scored", pa.int64(), "questions left out of the fit and scored; null for all_rows", null=True
        ),
        column(
            "n_scored_unseen",
            pa.int64(),
            "questions of n_scored whose relation is not in n_fitted: the model without relations predicts them",
            null=True,
        ),
        column(
            "n_hits", pa.int64(), "questions of n_scored that are predicted rightly, at cut 0.5", null=True
        ),
        column(
            "n_hits_baseline",
            pa.int64(),
            "the same if the outcome of most fitted questions is always predicted",
            null=True,
        ),
        _reason("score_undefined", "n_hits of a held_out fit is"),
    ),
    partitioned_by=("model",),
)
_TERMS = Table(
    "prediction_terms",
    "One row per (dataset, prompt, model, setting, predictors, term) of the regression on all rows.",
    (
        *_MODEL_KEY,
        column("term", pa.string(), f"term of the regression, {_TERM}"),
        _count(
            "df",
            "degrees of freedom: 1, or for a term with QCat the relations other than the base whose coefficient is known",
        ),
        _count("n_undefined", "coefficients of the term that are undefined and not tested"),
        _number("wald_chi2", "Wald's test that all coefficients of the term are 0"),
        _number("p_value", "p value of that test"),
        _CODE,
        _reason("undefined", "wald_chi2 is"),
    ),
    partitioned_by=("model",),
)
_COEFFICIENTS = Table(
    "prediction_coefficients",
    "One row per (dataset, prompt, model, setting, predictors, coding, term, relation) of the regression on all rows.",
    (
        *_MODEL_KEY,
        column(
            "coding",
            pa.string(),
            "treatment = relations are compared with the base relation; within_relation = each relation's own intercept"
            " and slopes",
        ),
        column("term", pa.string(), f"term of the coefficient, {_TERM}"),
        column(
            "relation", pa.string(), "relation of the coefficient; all if the predictors have no relation"
        ),
        column("is_base", pa.bool_(), "this is the base relation, in treatment coding"),
        column("is_separated", pa.bool_(), "the relation has no coefficients, because it is separated"),
        _count("n_fitted", "questions of the relation"),
        _count("n_correct", "questions of n_fitted that are answered right"),
        _number("beta", "coefficient β: the change of the logit per standard deviation of the predictor"),
        _number("standard_error", "standard error of beta"),
        _number("ci_low", "lower end of the 95 % interval of beta"),
        _number("ci_high", "upper end of the 95 % interval of beta"),
        _number("exp_beta", "exp(β): the factor of the odds, as in PopQA-TP's Table 7"),
        _number("exp_ci_low", "lower end of the 95 % interval of exp_beta"),
        _number("exp_ci_high", "upper end of the 95 % interval of exp_beta"),
        _number("z", "beta / standard_error"),
        _number("p_value", "two-sided p value of z"),
        _CODE,
        _reason("undefined", "beta is"),
    ),
    partitioned_by=("model",),
)
_PREDICTIONS = Table(
    "question_predictions",
    "One row per (dataset, prompt, model, question_id, estimator, signal).",
    (
        DATASET,
        PROMPT,
        MODEL,
        QUESTION_ID,
        column(
            "estimator",
            pa.string(),
            "logistic (regularised logistic regression) or gradient_boosting (trees)",
        ),
        column(
            "signal",
            pa.string(),
            "what the estimator knows: popularity_relation (log popularity, relation), consistency (scons, cert), or all",
        ),
        column(
            "fold", pa.int32(), "fold of the question: its prediction is fitted on the other folds", null=True
        ),
        _number("probability", "calibrated probability that the closed-book answer is right"),
        _reason("undefined", "probability is"),
    ),
    partitioned_by=("model",),
)

PREDICTION_TABLES = (_MODELS, _TERMS, _COEFFICIENTS, _PREDICTIONS)
