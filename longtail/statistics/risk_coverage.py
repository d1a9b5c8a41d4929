"""How many answers are wrong if only those with a high signal are given, and what can be promised about new questions?

A curve has `N_STEPS` steps from strict to lax. Step k answers at least k of `N_STEPS` parts: the fewest answers with the
highest signals, ties together. Its threshold is the next lower signal, and what is above it is answered. `promised_risk`
is the greatest upper bound (Clopper and Pearson, one-sided, level `DELTA`) of this step and all stricter ones, from the
first step with `LEAST_PROMISED` answers on: a bound on fewer is high, whatever is right, and would end every test. For a
risk α that was chosen before, the laxest step that promises at most α is the last one before fixed-sequence testing fails
(Learn then Test, Angelopoulos et al. 2021, arXiv 2110.01052). For new questions of the same mixture its risk is at most
α, with probability 1 − `DELTA`.

A pair of methods has a curve of two stages: memory's answer if its confidence is above the threshold, else the answer
with a passage if that one's confidence is, else none. The same bound holds: given a threshold, what is above it are
independent draws from all that it would answer, at either stage. `benchmarks.risk_worlds` tries it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from longtail.scoring.intervals import design_effect
from longtail.statistics.signal_quality import COMBINED, DECIMALS, LEAST_ANSWERS, Answers, Values, signals_of

N_STEPS = 20
DELTA = 0.1
LEAST_PROMISED = 100
_PAIR = ("dataset", "prompt", "model", "parametric_method", "retrieval_method")
_SIDES = [f"{side}_{name}" for side in ("parametric", "retrieval") for name in ("confidence", "correct")]
_LISTS = (*_SIDES, "cluster_id")
PAIRS = (
    f"select {', '.join(_PAIR)}, {', '.join(f'list({name} order by question_id) as {name}' for name in _LISTS)}"  # noqa: S608
    " from int_answer_pairs where parametric_confidence is not null and retrieval_confidence is not null"
    " group by all order by all"
)
_TEXTS = ("dataset", "prompt", "model", "method", "fallback_method", "signal")
SCHEMA = pa.schema([
    *((name, pa.string()) for name in _TEXTS),
    *((name, pa.int64()) for name in ("coverage_step", "n", "n_answered", "n_subjects", "n_wrong")),
    *((name, pa.float64()) for name in ("deff", "threshold", "promised_risk", "area", "excess_area")),
])  # fmt: skip

Row = dict[str, Any]


def risk_coverage(answers: pa.Table, pairs: pa.Table) -> pa.Table:
    """The rows of int_risk_coverage. `answers`: groups of `signal_quality.QUERY`; `pairs`: those of `PAIRS`."""
    rows = [row for group in _groups(answers) for row in _of_signals(group)]
    rows += [row for pair in _groups(pairs) for row in _of_two_stages(pair)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _groups(table: pa.Table) -> Iterator[Row]:
    for number in range(len(table)):
        yield table.slice(number, 1).to_pylist()[0]


def _of_signals(group: Mapping[str, Any]) -> Iterator[Row]:
    key = {name: group[name] for name in _TEXTS if name in group}
    for signal, answers, values, predictors in signals_of(group):
        wrong, promises = 1 - answers.correct, signal != COMBINED
        if len(wrong) < LEAST_ANSWERS or not (promises or 0 < wrong.sum() < len(wrong)):
            continue
        score = values if promises else _combine(answers, predictors)
        areas = _areas(score, wrong) if 0 < wrong.sum() < len(wrong) else {}
        # A combination is fitted on the answers whose risk it would promise.
        changed = areas if promises else {**areas, "promised_risk": None}
        for step in curve(score, wrong, score, wrong, answers.subject):
            yield {**key, "signal": signal, **step, **changed}


def _combine(answers: Answers, predictors: Values) -> Values:
    """The probability that each answer is right, in all folds as if they were fitted to one share of right answers.

    Else a fold stands the lower, the more of its answers are right, since fewer of the others are then.
    """
    fitted = answers.cross_fit(predictors, with_relations=True)
    n, n_right = np.bincount(answers.fold), np.bincount(answers.fold, answers.correct)
    rates = (n_right.sum() - n_right) / np.maximum(len(fitted) - n, 1)
    logits = _logit(fitted) - _logit(rates)[answers.fold] + _logit(answers.correct.mean())
    return np.asarray((1 / (1 + np.exp(-logits))).round(DECIMALS - 1))


def _logit(share: Values) -> Values:
    inside = np.clip(share, 0.1**DECIMALS, 1 - 0.1**DECIMALS)
    return np.asarray(np.log(inside / (1 - inside)))


def _of_two_stages(pair: Mapping[str, Any]) -> Iterator[Row]:
    memory, is_right, passage, is_right_with = (np.array(pair[name], dtype=float) for name in _SIDES)
    key = dict(zip(_TEXTS, (*(pair[name] for name in _PAIR), "confidence"), strict=True))
    if len(memory) >= LEAST_ANSWERS:
        for step in curve(memory, 1 - is_right, passage, 1 - is_right_with, np.array(pair["cluster_id"])):
            yield {**key, **step}


def curve(
    memory: Values, wrong: Values, passage: Values, wrong_with: Values, subject: Values
) -> Iterator[Row]:
    """The steps of n questions: memory's answer is given if its signal is above the threshold, else the passage's if its
    signal is. All are n, `subject` with what each is about; a curve of one stage has the same answers twice.
    """
    signal = np.maximum(memory, passage)
    falling, counts = np.sort(signal)[::-1], []
    for step in range(1, N_STEPS + 1):
        lowest = falling[math.ceil(step * len(signal) / N_STEPS) - 1]
        threshold = np.append(falling[falling < lowest], -np.inf)[0]
        given = signal > threshold
        is_wrong = np.where(memory > threshold, wrong, wrong_with)[given]
        subjects = len(np.unique(subject[given])), design_effect(is_wrong, subject[given])
        counts.append((threshold, len(is_wrong), int(is_wrong.sum()), *subjects))
    _, n_answered, all_wrong, *_ = np.array(counts).T
    is_enough = n_answered >= LEAST_PROMISED
    promised = np.maximum.accumulate(np.where(is_enough, upper_bound(all_wrong, n_answered), 0.0))
    for step, (threshold, n, n_wrong, n_subjects, deff) in enumerate(counts):
        yield {
            "coverage_step": step + 1, "n": len(signal), "n_answered": n, "n_wrong": n_wrong,
            "n_subjects": n_subjects, "deff": deff,
            "threshold": float(threshold) if threshold > -np.inf else None,
            "promised_risk": float(promised[step]) if is_enough[step] else None,
        }  # fmt: skip


def upper_bound(n_wrong: Values, n: Values) -> Values:
    """The risk at which at most `n_wrong` of n are wrong with a probability of `DELTA` (Clopper and Pearson 1934)."""
    from scipy.special import betaincinv  # scipy.stats takes a second to import

    return np.where(n_wrong == n, 1.0, betaincinv(n_wrong + 1, np.maximum(n - n_wrong, 1), 1 - DELTA))


def _areas(signal: Values, wrong: Values) -> Row:
    """The mean risk over all coverages (1/n to 1), ties in random order; and how much the best order has less."""
    _, tie, size = np.unique(-signal, return_inverse=True, return_counts=True)
    orders = np.repeat(np.bincount(tie, wrong) / size, size), np.sort(wrong)
    area, best = (float((np.cumsum(order) / np.arange(1, len(wrong) + 1)).mean()) for order in orders)
    return {"area": area, "excess_area": area - best}
