"""Lake tables of performance prediction: how likely an answer is right, without a reference answer (SPEC §7)."""

from __future__ import annotations

from longtail.tables.schema import (
    DATASET,
    MODEL,
    PROMPT,
    QUESTION_ID,
    Column,
    Table,
    flag,
    int32,
    int64,
    measure,
    text,
)


def _reason(name: str, of: str) -> Column:
    return text(name, f"reason why {of} null; null otherwise", null=True)


_MODEL_KEY = (
    DATASET,
    PROMPT,
    MODEL,
    text(
        "setting",
        "all_relations, or relations_above_0.1 = only relations of which the model answers more than a tenth right",
    ),
    text(
        "predictors",
        "what the regression knows: all (relation, log popularity, consistency, certainty, and the relation's"
        " interactions with the other three), without_popularity, without_relation, scons_cert (consistency and"
        " certainty), cert (certainty), scons (consistency)",
    ),
)
_FIT = text(
    "fit", "all_rows = on all questions; held_out = on a seeded 80 % of the questions, scored on the others"
)
_TERM = "as PopQA-TP writes them: QCat = relation, log(SPop) = log popularity, SCons = consistency, Cert = certainty"
_CODE = text("code", "significance: *** below 0.001, ** 0.01, * 0.05, . 0.1, else empty", null=True)

_MODELS = Table(
    "prediction_models",
    "One row per (dataset, prompt, model, setting, predictors, fit): a logistic regression of correctness.",
    (
        *_MODEL_KEY,
        _FIT,
        int64("n_questions", "questions of the dataset with an answer or samples"),
        int64("n_no_answer", "questions left out because the question itself has no answer"),
        int64("n_no_relation", "questions left out because they have no relation"),
        int64("n_no_popularity", "questions left out because popularity is missing"),
        int64("n_zero_popularity", "questions left out because popularity is 0, which has no logarithm"),
        int64("n_no_consistency", "questions left out because scons is null"),
        int64("n_no_certainty", "questions left out because cert is null"),
        int64("n_hard_relations", "questions left out by the setting"),
        int64("n_fitted", "questions that the regression is fitted on"),
        int64("n_correct", "questions of n_fitted that are answered right"),
        int64("n_relations", "relations of n_fitted; 1 if the predictors have no relation"),
        int64(
            "n_separated",
            "relations of n_relations without coefficients, because all answers have one outcome or a plane"
            " separates right from wrong ones",
        ),
        int64("n_separated_questions", "questions of these relations"),
        int64("n_undetermined", "relations of n_relations with a coefficient that the data do not determine"),
        text(
            "base_relation",
            "relation that treatment coding compares with: alphabetically the first one with all coefficients; null"
            " if no relation has coefficients, and if the predictors have no relation",
            null=True,
        ),
        int64(
            "n_coefficients",
            "coefficients that are estimated: the rank of the design matrix, separated relations included",
        ),
        measure("log_likelihood", "greatest log-likelihood, with its limit for separated relations"),
        measure("log_likelihood_null", "log-likelihood of the share of right answers alone"),
        measure("mcfadden_r2", "1 - log_likelihood / log_likelihood_null"),
        measure("aic", "Akaike's criterion: 2 n_coefficients - 2 log_likelihood"),
        _reason("undefined", "mcfadden_r2 is"),
        int64("n_scored", "questions left out of the fit and scored; null for all_rows", null=True),
        int64("n_scored_subjects", "subjects of these questions", null=True),
        measure(
            "score_deff",
            "by how much the dependence of questions on one subject multiplies the variance of n_hits",
        ),
        int64(
            "n_scored_unseen",
            "questions of n_scored whose relation is not in n_fitted: the model without relations predicts them",
            null=True,
        ),
        int64("n_hits", "questions of n_scored that are predicted rightly, at cut 0.5", null=True),
        int64(
            "n_hits_baseline",
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
        text("term", f"term of the regression, {_TERM}"),
        int64(
            "df",
            "degrees of freedom: 1, or for a term with QCat the relations other than the base whose coefficient is known",
        ),
        int64("n_undefined", "coefficients of the term that are undefined and not tested"),
        measure("wald_chi2", "Wald's test that all coefficients of the term are 0"),
        measure("p_value", "p value of that test, at least 2.2e-308"),
        _CODE,
        measure(
            "clustered_wald_chi2",
            "the same test with errors that take whole subjects (sandwich estimator); null where a relation of the test"
            " has fewer than 20 subjects",
        ),
        measure("clustered_p_value", "p value of clustered_wald_chi2"),
        _reason("undefined", "wald_chi2 is"),
    ),
    partitioned_by=("model",),
)
_COEFFICIENTS = Table(
    "prediction_coefficients",
    "One row per (dataset, prompt, model, setting, predictors, coding, term, relation) of the regression on all rows.",
    (
        *_MODEL_KEY,
        text(
            "coding",
            "treatment = relations are compared with the base relation; within_relation = each relation's own intercept"
            " and slopes",
        ),
        text("term", f"term of the coefficient, {_TERM}"),
        text("relation", "relation of the coefficient; all if the predictors have no relation"),
        flag("is_base", "this is the base relation, in treatment coding"),
        flag("is_separated", "the relation has no coefficients, because it is separated"),
        int64("n_fitted", "questions of the relation"),
        int64("n_correct", "questions of n_fitted that are answered right"),
        measure("beta", "coefficient β: the change of the logit per standard deviation of the predictor"),
        measure("standard_error", "standard error of beta"),
        measure("ci_low", "lower end of the 95 % interval of beta"),
        measure("ci_high", "upper end of the 95 % interval of beta"),
        measure("exp_beta", "exp(β): the factor of the odds, as in PopQA-TP's Table 7"),
        measure("exp_ci_low", "lower end of the 95 % interval of exp_beta"),
        measure("exp_ci_high", "upper end of the 95 % interval of exp_beta"),
        measure("z", "beta / standard_error"),
        measure("p_value", "two-sided p value of z, at least 2.2e-308"),
        _CODE,
        int64("n_subjects", "subjects of n_fitted"),
        measure(
            "clustered_standard_error",
            "standard error of beta that takes whole subjects (sandwich estimator); null where the relation or its base"
            " has fewer than 20 subjects",
        ),
        measure("clustered_p_value", "two-sided p value of beta / clustered_standard_error"),
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
        text("estimator", "logistic (regularised logistic regression) or gradient_boosting (trees)"),
        text(
            "signal",
            "what the estimator knows: popularity_relation (log popularity, relation), consistency (scons, cert), or all",
        ),
        int32("fold", "fold of the question: its prediction is fitted on the other folds", null=True),
        measure("probability", "calibrated probability that the closed-book answer is right"),
        _reason("undefined", "probability is"),
    ),
    partitioned_by=("model",),
)

PREDICTION_TABLES = (_MODELS, _TERMS, _COEFFICIENTS, _PREDICTIONS)
