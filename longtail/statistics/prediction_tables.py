"""The tables of a fitted regression: its coefficients, the Wald test of each term, its likelihood.

With all interactions the model is one regression per relation, and the estimates of different relations are
independent. In treatment coding a coefficient of another relation than the base is the difference of two of them, so
its variance is the sum of theirs, and all differences from the same base share the base's variance.

Questions on one subject are not independent, also of different relations. So beside the paper's tests stand those by the
sandwich estimator over subjects (Liang and Zeger 1986, Biometrika 73, 13-22), with the correction of Stata and
statsmodels for few clusters and many coefficients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from longtail.statistics.prediction_fit import (
    ALL,
    INTERCEPT,
    NOT_CONVERGED,
    ONE_OUTCOME,
    RELATION,
    Fit,
    PredictorSet,
    Questions,
    Values,
    design_matrix,
    probabilities,
)
from longtail.statistics.resampling import LEAST_P, reason_against

TREATMENT, WITHIN_RELATION = "treatment", "within_relation"
"""Codings: relative to the base relation (Tables 10 to 14), and of each relation by itself (Table 7)."""
NO_BASE, ONE_RELATION = "no relation with coefficients", "one relation"
_Z = 1.959963984540054
_CODES = ((0.001, "***"), (0.01, "**"), (0.05, "*"), (0.1, "."))

Row = dict[str, Any]
Estimate = tuple[float, float, str | None]
"""A coefficient, its variance, and the reason why both are nan."""


@dataclass(frozen=True)
class Clusters:
    """The errors of all coefficients together, by subjects.

    `covariance` (fits × columns × fits × columns); `n_subjects` (fits): of each fit's questions.
    """

    relations: Sequence[str]
    covariance: Values
    n_subjects: Values

    def variances(self, fits: Sequence[Fit], base: Fit | None, column: int) -> Values | None:
        """The covariance of the coefficients of `fits`, or of their differences from that of `base`, in a column.

        None where one of the relations has too few subjects.
        """
        places = [self.relations.index(fit.relation) for fit in fits]
        contrasts = np.zeros((len(fits), *self.covariance.shape[:2]))
        contrasts[np.arange(len(fits)), places, column] = 1
        if base is not None:
            places.append(self.relations.index(base.relation))
            contrasts[:, places[-1], column] -= 1
        if any(reason_against(int(self.n_subjects[at])) for at in places):
            return None
        covariance = np.tensordot(np.tensordot(contrasts, self.covariance, 2), contrasts, ((1, 2), (1, 2)))
        return covariance if np.linalg.matrix_rank(covariance, hermitian=True) == len(covariance) else None


def by_subject(
    questions: Questions, subject: Values, fits: Sequence[Fit], ablation: PredictorSet
) -> Clusters:
    """The errors of `fit_all(questions, ablation)` by `subject` (n). Fits without a solution have no part in them."""
    names, cluster = np.unique(subject, return_inverse=True)
    design = design_matrix(questions, ablation, questions)
    influence = np.zeros((len(names), len(fits), design.shape[1]))
    n_subjects, is_fitted = np.zeros(len(fits), dtype=int), np.zeros(len(subject), dtype=bool)
    for at, fit in enumerate(fits):
        rows = (questions.relation == fit.relation) | (fit.relation == ALL)
        n_subjects[at] = len(np.unique(cluster[rows]))
        if fit.solution is None:
            continue
        is_fitted |= rows
        probability = probabilities(design[rows], fit.solution)
        information = (design[rows].T * (probability * (1 - probability))) @ design[rows]
        scores = design[rows] * (questions.correct[rows] - probability)[:, None]
        np.add.at(influence[:, at], cluster[rows], scores @ np.linalg.pinv(information, hermitian=True))
    n, k = int(is_fitted.sum()), len(np.unique(cluster[is_fitted]))
    rank = sum(fit.rank for fit in fits if fit.solution is not None)
    correction = k / (k - 1) * (n - 1) / (n - rank) if k > 1 and n > rank else np.nan
    return Clusters(
        [fit.relation for fit in fits], correction * np.tensordot(influence, influence, (0, 0)), n_subjects
    )


def base_of(fits: Sequence[Fit]) -> Fit | None:
    """The relation that treatment coding compares with: alphabetically the first one with a finite fit.

    Relations with fewer determined coefficients come after all others, because a difference from an unknown one is
    unknown.
    """
    finite = [fit for fit in fits if fit.solution is not None]
    return max(finite, key=lambda fit: fit.undefined.count(None), default=None)


def coefficients(fits: Sequence[Fit], ablation: PredictorSet, clusters: Clusters) -> Iterator[Row]:
    """One row per (coding, term, relation). A model without relations has only relation `all` in treatment coding."""
    base = base_of(fits)
    for column, name in enumerate(ablation.columns):
        for fit in fits:
            row = _coefficient(fit, column, TREATMENT, name, base, ablation)
            minus = base if ablation.by_relation and not row["is_base"] else None
            yield row | _error_by_subject(row, fit, minus, column, clusters)
            if ablation.by_relation:
                row = _coefficient(fit, column, WITHIN_RELATION, name, None, ablation)
                yield row | _error_by_subject(row, fit, None, column, clusters)


def _error_by_subject(row: Row, fit: Fit, base: Fit | None, column: int, clusters: Clusters) -> Row:
    """Standard error and p value by subjects, of the coefficient of `fit` or of its difference from that of `base`."""
    counted = {"n_subjects": int(clusters.n_subjects[clusters.relations.index(fit.relation)])}
    variances = None if row["beta"] is None else clusters.variances([fit], base, column)
    if variances is None:
        return {**counted, "clustered_standard_error": None, "clustered_p_value": None}
    error = float(np.sqrt(variances[0, 0]))
    return {
        **counted,
        "clustered_standard_error": error,
        "clustered_p_value": _p_of((row["beta"] / error) ** 2),
    }


def _p_of(chi2: float, df: int = 1) -> float:
    """The chance of a greater one; with one degree of freedom, of a normal deviate further from 0 than its root."""
    from scipy.special import chdtrc

    return max(LEAST_P, float(chdtrc(df, chi2)))


def _coefficient(
    fit: Fit, column: int, coding: str, name: str, base: Fit | None, ablation: PredictorSet
) -> Row:
    is_base = coding == TREATMENT and ablation.by_relation and fit is base
    beta, variance, undefined = fit.beta[column], fit.covariance[column, column], fit.undefined[column]
    if coding == TREATMENT and not is_base and ablation.by_relation:
        name = interaction(name)
        beta, variance, undefined = _difference(fit, base, column)
        variance += _variance(base, column)
    return {
        "coding": coding, "term": name, "relation": fit.relation, "is_base": is_base,
        "is_separated": fit.is_separated, "n_fitted": fit.n, "n_correct": fit.n_correct,
        **_interval(beta, variance, undefined), "undefined": undefined,
    }  # fmt: skip


def interaction(column: str) -> str:
    """The term of the differences between relations in a column of the design."""
    return RELATION if column == INTERCEPT else f"{RELATION}:{column}"


def _difference(fit: Fit, base: Fit | None, column: int) -> Estimate:
    """The coefficient relative to the base, with the variance of the relation's own part."""
    if base is None:
        return np.nan, np.nan, fit.undefined[column] or NO_BASE
    beta = fit.beta[column] - base.beta[column]
    return beta, fit.covariance[column, column], fit.undefined[column] or base.undefined[column]


def _variance(base: Fit | None, column: int) -> float:
    return 0.0 if base is None else float(base.covariance[column, column])


def _interval(beta: float, variance: float, undefined: str | None) -> Row:
    odds_names = ("exp_beta", "exp_ci_low", "exp_ci_high")
    names = ("beta", "standard_error", "ci_low", "ci_high", *odds_names, "z", "p_value")
    if undefined:
        return {**dict.fromkeys(names), "code": None}
    error = float(np.sqrt(variance))
    ends = np.array([beta, beta - _Z * error, beta + _Z * error])
    with np.errstate(over="ignore"):
        odds = np.exp(ends)
    p_value = _p_of((beta / error) ** 2)
    values = (ends[0], error, *ends[1:], *odds, beta / error, p_value)
    return {**dict(zip(names, map(float, values), strict=True)), "code": code(p_value)}


def code(p_value: float) -> str:
    """Significance as in PopQA-TP's Table 9; empty from 0.1."""
    return next((symbol for limit, symbol in _CODES if p_value < limit), "")


def terms(fits: Sequence[Fit], ablation: PredictorSet, clusters: Clusters) -> Iterator[Row]:
    """One row per term: the Wald test that all its coefficients are 0.

    A term of the relation has one degree of freedom per relation, without the base and without relations whose
    coefficient is undefined (`n_undefined`).
    """
    base = base_of(fits)
    for column, name in enumerate(ablation.columns):
        tested_fit = fits[0] if base is None else base
        tested = _wald([_own(fits, base, column, ablation)], 0.0)
        yield {"term": name, **tested, **_wald_by_subject(tested, [tested_fit], None, column, clusters)}
    for column, name in enumerate(ablation.columns if ablation.by_relation else ()):
        others = [fit for fit in fits if fit is not base]
        tested = _wald([_difference(fit, base, column) for fit in others], _variance(base, column))
        yield {
            "term": interaction(name),
            **tested,
            **_wald_by_subject(tested, others, base, column, clusters),
        }


def _wald_by_subject(
    tested: Row, others: Sequence[Fit], base: Fit | None, column: int, clusters: Clusters
) -> Row:
    """The joint test by subjects that the coefficients of `others` are 0, or equal that of `base`."""
    known = [fit for fit in others if not fit.undefined[column]]
    variances = None if tested["undefined"] else clusters.variances(known, base, column)
    if variances is None:
        return {"clustered_wald_chi2": None, "clustered_p_value": None}
    beta = np.array([fit.beta[column] - (base.beta[column] if base else 0.0) for fit in known])
    statistic = float(beta @ np.linalg.solve(variances, beta))
    return {"clustered_wald_chi2": statistic, "clustered_p_value": _p_of(statistic, len(known))}


def _own(fits: Sequence[Fit], base: Fit | None, column: int, ablation: PredictorSet) -> Estimate:
    if base is None:
        return np.nan, np.nan, NO_BASE if ablation.by_relation else fits[0].undefined[column]
    return base.beta[column], base.covariance[column, column], base.undefined[column]


def _wald(estimates: Sequence[Estimate], shared: float) -> Row:
    """The joint test that all estimates are 0. Their errors are independent but for a common one of variance `shared`."""
    known = [(beta, variance) for beta, variance, undefined in estimates if not undefined]
    counted: Row = {"df": len(known), "n_undefined": len(estimates) - len(known)}
    if not known:
        reason = next((undefined for *_, undefined in estimates), ONE_RELATION)
        return {**counted, "wald_chi2": None, "p_value": None, "code": None, "undefined": reason}
    beta, variance = np.array(known).T
    weights = 1 / variance
    total = float(weights @ beta)
    statistic = float(weights @ beta**2) - shared * total**2 / (1 + shared * float(weights.sum()))
    p_value = _p_of(statistic, len(known))
    return {**counted, "wald_chi2": statistic, "p_value": p_value, "code": code(p_value), "undefined": None}


def likelihood(fits: Sequence[Fit], ablation: PredictorSet) -> Row:
    """Likelihood, parameters, McFadden's R² and AIC of the model, and how much of it is undefined.

    R² is null without questions, if all answers have the same outcome, and if a fit did not converge.
    """
    n, n_correct = sum(fit.n for fit in fits), sum(fit.n_correct for fit in fits)
    log_likelihood = sum(fit.log_likelihood for fit in fits)
    n_coefficients = sum(fit.rank for fit in fits)
    null = sum(count * np.log(count / n) for count in (n_correct, n - n_correct) if count)
    undefined = "no questions" if not n else ONE_OUTCOME if not null else None
    if np.isnan(log_likelihood):
        undefined = NOT_CONVERGED
    base = base_of(fits) if ablation.by_relation else None
    is_known = bool(n) and not np.isnan(log_likelihood)
    return {
        "n_fitted": n, "n_correct": n_correct, "n_relations": len(fits),
        "n_separated": sum(fit.is_separated for fit in fits),
        "n_separated_questions": sum(fit.n for fit in fits if fit.is_separated),
        "n_undetermined": sum(fit.solution is not None and any(fit.undefined) for fit in fits),
        "base_relation": base and base.relation, "n_coefficients": n_coefficients,
        "log_likelihood": log_likelihood if is_known else None, "log_likelihood_null": float(null) if n else None,
        "mcfadden_r2": None if undefined else 1 - log_likelihood / float(null),
        "aic": 2 * n_coefficients - 2 * log_likelihood if is_known else None, "undefined": undefined,
    }  # fmt: skip
