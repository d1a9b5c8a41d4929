"""How well does a signal tell right answers from wrong ones, whatever is decided by it?

A signal is a number that should be higher for right answers. It is compared on the answers for which it is known. An
interval draws whole subjects again, since questions about one subject are not independent. A fitted signal ranks answers
of one fold only: the other folds were predicted by another fit, which is the lower, the more of their answers are right.

The regressions are those of `prediction.cross_fit` (scikit-learn's penalty with C = 1, standardised predictors, each
relation's own intercept and slopes beside the common ones) without calibration, which leaves the order of the questions
as it is. Scikit-learn fits one model in about 20 ms. Adaptive retrieval needs thousands, all on the same questions with
other weights. Newton's method starts where the fit before ended: a relation's coefficients meet those of other relations
only through the common ones, so a step solves one small system per relation, and one for what they have in common.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from longtail.statistics.resampling import Values, draws, interval, reason_against, seed_of
from longtail.statistics.results import compute_parts, digest

DECIMALS = 9
"""Probabilities are rounded so far: smaller differences are rounding, and no reason to decide differently."""


@dataclass(frozen=True)
class Features:
    """What a signal knows of n questions: `predictors` (n × p) and `group` (n), the relation's number or None.

    Questions are in the order of their groups. `n_groups` also counts groups that no question of a fit has.
    """

    predictors: Values
    group: Values | None = None
    n_groups: int = 0


@dataclass(frozen=True)
class Model:
    """One fit: `mean` and `deviation` (p) of the predictors, and `common` (1 + p) coefficients.

    `by_group` (groups × (1 + p)): what a group adds to the common coefficients; without groups it has no rows.
    """

    mean: Values
    deviation: Values
    common: Values
    by_group: Values


def probabilities(features: Features, correct: Values, weights: Values) -> Values:
    """Weightings × n: the probability that each question is answered right, fitted on the questions with a weight.

    `correct` (n): 1 if right. `weights` (weightings × n): how often a question counts; 0 leaves it out, and then its
    `correct` has no effect. Weighted questions with one outcome give that outcome to all: such a signal tells nothing.
    """
    logits = _fit(features, correct, weights)[0]
    return (0.5 * (1 + np.tanh(logits / 2))).round(DECIMALS)


def fit_model(features: Features, correct: Values) -> Model:
    """The fit on all questions. Both outcomes must occur."""
    _, ((mean,), (deviation,)), common, by_group = _fit(features, correct, np.ones((1, len(correct))))
    return Model(mean, deviation, common, by_group[: features.n_groups])


def _fit(
    features: Features, correct: Values, weights: Values
) -> tuple[Values, tuple[Values, Values], Values, Values]:
    """Logits (weightings × n), and mean, deviation and coefficients of the last fit. Without groups all are in one."""
    from longtail.statistics.kernels import fit_logistic

    predictors, weights = (np.ascontiguousarray(values, float) for values in (features.predictors, weights))
    scales = _scales(predictors, weights)
    group = np.zeros(len(correct), int) if features.group is None else features.group
    common = np.zeros(1 + predictors.shape[1])
    by_group, logits = np.zeros((max(features.n_groups, 1), len(common))), np.empty(weights.shape)
    bounds = np.searchsorted(group, np.arange(len(by_group) + 1))
    is_grouped, right = features.group is not None, np.asarray(correct, float)
    fit_logistic(predictors, *scales, right, weights, bounds, is_grouped, common, by_group, logits)
    return logits, scales, common, by_group


def _scales(predictors: Values, weights: Values) -> tuple[Values, Values]:
    """Mean and population standard deviation, fits × p; a predictor that does not vary becomes 0."""
    total = weights.sum(axis=1)[:, None]
    mean = weights @ predictors / total
    centred = predictors - predictors.mean(axis=0)
    variance = weights @ centred**2 / total - (weights @ centred / total) ** 2
    deviation = np.sqrt(np.maximum(variance, 0))
    for fit in np.flatnonzero((variance <= 1e-9 * (centred**2).mean(axis=0)).any(axis=1)):
        fitted = predictors[weights[fit] > 0]
        low, varies = fitted.min(axis=0), fitted.min(axis=0) < fitted.max(axis=0)
        mean[fit] = np.where(varies, mean[fit], low)
        deviation[fit] = np.where(varies, deviation[fit], 1.0)
    return mean, np.where(deviation > 0, deviation, 1.0)


N_RESAMPLES = 1_000
N_FOLDS = 5
N_BINS = 15
LEAST_ANSWERS = 50
"""With fewer answers nothing is computed."""
SIGNALS = (
    *("popularity", "site_links", "confidence", "least_probability", "first_probability", "first_margin"),
    *("mean_entropy", "scons", "cert"),
)
COMBINED = "popularity_confidence"
"""The cross-fitted probability from popularity, confidence and relation."""
BEST = "best_signal"
"""In each fold of subjects, the one of `SIGNALS` that ranks the answers of the other folds best (SPEC §11)."""
LEAST_KNOWN = 0.9
"""The best signal is chosen among those that are known for at least this share of a group's answers."""
_NEGATED = ("mean_entropy",)
_LOG = ("confidence", "least_probability", "first_probability")
_LOG1P = ("popularity", "site_links")
_LEAST_LOG = 1e-30
_CHUNK = 400_000
"""Subjects times draws that are drawn at once."""
_KEY = ("dataset", "prompt", "model", "method")
_LISTS = ("subject", "relation", "is_correct", *SIGNALS)


SCHEMA = pa.schema([
    *((name, pa.string()) for name in (*_KEY, "measured_signal")),
    *((name, pa.int64()) for name in ("n_known", "n_known_correct", "n_subjects", "n_draws")),
    *((name, pa.float64()) for name in ("auroc", "auroc_ci_low", "auroc_ci_high")),
    ("no_interval", pa.string()),
    *((name, pa.float64()) for name in ("auroc_within", "average_precision", "brier", "calibration_error")),
    ("undefined", pa.string()),
    ("chosen_signals", pa.string()),
])  # fmt: skip


def _query(lists: Iterable[str]) -> str:
    columns = ", ".join(f"list({one} order by question_id) as {one}" for one in lists)
    return f"select {', '.join(_KEY)}, {columns} from int_signal_values group by all order by all"  # noqa: S608


QUERY = _query(_LISTS)
QUERY_WITH_COUNTS = _query((*_LISTS, "counts"))


def measure_signals(groups: pa.Table, seed: int, last: pa.Table | None = None) -> pa.Table:
    """The rows of int_signal_quality. `groups` of answers: each with lists of its answers, as `QUERY_WITH_COUNTS` reads
    them; `last`: as in `compute_parts`."""

    def measure(group: pa.Table) -> list[dict[str, Any]]:
        return list(_rows(group.to_pylist()[0], seed))

    parts = [groups.slice(number, 1) for number in range(len(groups))]
    return compute_parts(measure, [(digest(seed, part), part) for part in parts], SCHEMA, last)


def _rows(group: Mapping[str, Any], seed: int) -> Iterator[dict[str, Any]]:
    """One row per signal that is known for some answer of the group."""
    key = {name: group[name] for name in _KEY}
    of_draws = seed_of(seed, key.values())
    for signal, answers, _, predictors in signals_of(group):
        quality = answers.quality(predictors, of_draws, is_combined=signal == COMBINED)
        yield {**key, "measured_signal": signal, **quality}
    columns, subject, relation = _columns(group)
    known = {name: ~np.isnan(columns[name]) for name in SIGNALS}
    names = [name for name in SIGNALS if known[name].mean() >= LEAST_KNOWN]
    if len(names) > 1:
        both = np.logical_and.reduce([known[name] for name in names])
        answers = Answers(columns["is_correct"][both], subject[both], relation[both])
        scores = [_scale(name, columns[name][both]) for name in names]
        choices = answers.choose(scores)
        quality = answers.quality(np.column_stack(scores), of_draws, choices)
        chosen = sorted({names[choice] for choice in choices if choice >= 0})
        yield {**key, "measured_signal": BEST, **quality, "chosen_signals": ", ".join(chosen) or None}


def signals_of(group: Mapping[str, Any]) -> Iterator[tuple[str, Answers, Values, Values]]:
    """Each signal with the answers for which it is known, its values (of a combination: none) and predictors (n × p).

    Measures in `counts`, whose answers have (measure, number) pairs, are signals by their own names.
    """
    columns, subject, relation = _columns(group)
    measures = [name for name in columns if name not in ("is_correct", *SIGNALS)]
    for signal in (*SIGNALS, *measures, COMBINED):
        parts = ("popularity", "confidence") if signal == COMBINED else (signal,)
        known = ~np.isnan(np.column_stack([columns[name] for name in parts])).any(axis=1)
        if known.any():
            predictors = np.column_stack([_scale(name, columns[name][known]) for name in parts])
            answers = Answers(columns["is_correct"][known], subject[known], relation[known])
            values = np.empty(0) if signal == COMBINED else columns[signal][known]
            yield signal, answers, orient(signal, values), predictors


def orient(signal: str, values: Values) -> Values:
    """The values of a signal, turned so that higher ones speak for a right answer."""
    return -values if signal in _NEGATED else values


def _columns(group: Mapping[str, Any]) -> tuple[dict[str, Values], Values, Values]:
    """Whether a group's n answers are right and their signals, by name; their subjects; their relations ('' = none)."""
    counts = [dict(pairs or ()) for pairs in group.get("counts", ())]
    columns = {name: np.array(group[name], dtype=float) for name in ("is_correct", *SIGNALS)}
    for name in sorted(set().union(*counts)):
        columns[name] = np.array([pairs.get(name, np.nan) for pairs in counts])
    return columns, np.array(group["subject"]), np.array([name or "" for name in group["relation"]])


def _scale(name: str, values: Values) -> Values:
    """A rising function of the signal: the scale on which the logistic regression is linear."""
    if name in _LOG1P or name not in SIGNALS:  # a count
        return np.asarray(np.log1p(np.maximum(values, 0)))
    if name in _LOG:
        return np.asarray(np.log(np.maximum(values, _LEAST_LOG)))
    return orient(name, values)


class Answers:
    """n answers of a group: whether they are right, their subjects and their relations ('' = none)."""

    def __init__(self, correct: Values, subject: Values, relation: Values) -> None:
        self.correct, self.relation = correct, relation
        self.subjects, self.subject = np.unique(subject, return_inverse=True)
        self.fold = folds(self.subjects)[self.subject]

    def choose(self, scores: Sequence[Values]) -> list[int]:
        """For each fold the number of the score (n values) with the best AUROC on the other folds; -1: none has one."""
        choices = []
        for number in range(N_FOLDS):
            others = self.fold != number
            areas = [auroc(score[others], self.correct[others]) for score in scores]
            known = [area if area is not None else -1.0 for area in areas]
            choices.append(int(np.argmax(known)) if max(known) >= 0 else -1)
        return choices

    def quality(
        self, predictors: Values, seed: int, choices: Sequence[int] = (), *, is_combined: bool = False
    ) -> dict[str, Any]:
        """The measures of a signal; all None with a reason where they are not defined.

        `predictors` (n × p): the signal; with `is_combined` what it is fitted from; with `choices` several signals, and
        the number of the one that counts in each fold.
        """
        n, n_correct = len(self.correct), int(self.correct.sum())
        counts = {
            "n_known": n,
            "n_known_correct": n_correct,
            "n_subjects": len(self.subjects),
            "n_draws": N_RESAMPLES,
        }
        reason = (
            "all answers are wrong" if n_correct == 0
            else "all answers are right" if n_correct == n
            else f"fewer than {LEAST_ANSWERS} answers" if n < LEAST_ANSWERS
            else "one subject" if len(self.subjects) == 1
            else None
        )  # fmt: skip
        if reason:
            names = ("auroc", "auroc_ci_low", "auroc_ci_high", "auroc_within", "average_precision")
            missing = dict.fromkeys((*names, "brier", "calibration_error"))
            return {**counts, **missing, "undefined": reason, "no_interval": reason}
        if choices:
            columns = np.array(choices)[self.fold]
            by_signal = {one: self.cross_fit(predictors[:, [one]]) for one in set(choices)}
            fitted = np.array([by_signal[one][place] for place, one in enumerate(columns)])
            score, fold = predictors[np.arange(n), columns], self.fold
        else:
            fitted = self.cross_fit(predictors, with_relations=is_combined)
            score, fold = (fitted, self.fold) if is_combined else (predictors[:, 0], np.zeros(n, int))
        resamples = aurocs(score, self.correct, _draw(len(self.subjects), seed), self.subject, fold)
        n_rarer = min(len(np.unique(self.subject[self.correct == one])) for one in (0, 1))
        reason = reason_against(len(self.subjects), n_correct, n - n_correct)
        low, high, no_interval = interval(resamples, reason, n_rarer)
        return {
            **counts,
            "auroc": auroc(score, self.correct, fold), "auroc_ci_low": low, "auroc_ci_high": high,
            "auroc_within": within_relations(score, self.correct, self.relation, fold),
            "average_precision": average_precision(score, self.correct, fold),
            "brier": float(((fitted - self.correct) ** 2).mean()),
            "calibration_error": calibration_error(fitted, self.correct),
            "undefined": None, "no_interval": no_interval,
        }  # fmt: skip

    def cross_fit(self, predictors: Values, with_relations: bool = False) -> Values:
        """The probability that each answer is right, from a logistic regression on the other subjects' answers."""
        order = np.argsort(self.relation, kind="stable")
        names, number = np.unique(self.relation[order], return_inverse=True)
        fold = self.fold[order]
        weights = (fold != np.arange(N_FOLDS)[:, None]).astype(float)
        features = Features(
            predictors[order], number if with_relations else None, len(names) if with_relations else 0
        )
        fitted = probabilities(features, self.correct[order], weights)
        found = np.empty(len(order))
        found[order] = fitted[fold, np.arange(len(order))]
        return found


def folds(subjects: Values) -> Values:
    """The fold of each of the distinct subjects, by the order of their md5."""
    digests = [_md5(str(subject)) for subject in subjects]
    found = np.empty(len(subjects), dtype=int)
    found[np.argsort(digests)] = np.arange(len(subjects)) % N_FOLDS
    return found


@functools.lru_cache(maxsize=1_000_000)  # of each subject once, not for each signal of each group of answers
def _md5(text: str) -> bytes:
    return hashlib.md5(text.encode(), usedforsecurity=False).digest()


@functools.lru_cache(maxsize=8)
def _draw(n: int, seed: int) -> Values:
    """Subjects × draws: how often each counts. A group's signals that are known for equally many subjects share them."""
    rng, size = np.random.default_rng(seed), max(1, _CHUNK // n)
    parts = [draws(n, min(size, N_RESAMPLES - start), rng).T for start in range(0, N_RESAMPLES, size)]
    return np.ascontiguousarray(np.hstack(parts))


def aurocs(score: Values, correct: Values, drawn: Values, unit: Values, group: Values) -> Values:
    """One AUROC per column of `drawn` (units × draws: how often each unit counts); nan where there is no pair.

    `unit` and `group` (n): the unit of each answer, and the group within which it is ranked.
    """
    from longtail.statistics.kernels import pair_sums

    above = n_pairs = np.zeros(drawn.shape[1])
    for number in np.unique(group):
        mine = np.flatnonzero(group == number)
        order = mine[np.argsort(score[mine])]
        is_last = np.append(score[order][1:] != score[order][:-1], True)
        halves, n_right, n_wrong = pair_sums(drawn, unit[order], correct[order] == 1, is_last)
        above, n_pairs = above + halves / 2, n_pairs + n_right * n_wrong
    return np.divide(above, n_pairs, out=np.full(len(n_pairs), np.nan), where=n_pairs > 0)


def auroc(score: Values, correct: Values, group: Values | None = None) -> float | None:
    """The share of pairs of a right and a wrong answer of one group (n) in which the right one scores higher; ties count
    half. None without such a pair; without groups all answers are in one.
    """
    every = np.zeros(len(score), dtype=int)
    (found,) = aurocs(score, correct, np.ones((1, 1), np.uint8), every, every if group is None else group)
    return None if np.isnan(found) else float(found)


def within_relations(score: Values, correct: Values, relation: Values, fold: Values) -> float | None:
    """The same share, over pairs of one relation and fold alone. Answers without a relation ('') are in no pair."""
    number = np.unique(relation, return_inverse=True)[1] * N_FOLDS + fold
    known = relation != ""
    return auroc(score[known], correct[known], number[known])


def average_precision(score: Values, correct: Values, fold: Values) -> float:
    """The mean, over the right answers, of the precision among all answers of their fold that score at least as high."""
    precisions = []
    for number in np.unique(fold):
        falling, is_right = -score[fold == number], correct[fold == number] == 1
        right = np.sort(falling[is_right])
        n_right = np.searchsorted(right, right, side="right")
        precisions.append(n_right / np.searchsorted(np.sort(falling), right, side="right"))
    return float(np.concatenate(precisions).mean())


def calibration_error(probability: Values, correct: Values) -> float:
    """The mean difference, without sign, of mean probability and share right, over `N_BINS` bins of equal count."""
    order = np.argsort(probability, kind="stable")
    gaps = [abs(float((probability[part] - correct[part]).sum())) for part in np.array_split(order, N_BINS)]
    return sum(gaps) / len(order)
