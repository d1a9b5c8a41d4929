"""Retrieve below a threshold on a signal: which questions, when the threshold is fitted on some of them.

The rule is that of search exact (SPEC §6). The candidates are the distinct values of the fitted questions, and infinity.
The best candidate has the greatest sum of gains below it, and the lowest of several equal ones is taken. So the lowest
fitted value means never.

Policy `best_signal` decides by another signal in each fit: the one of the known signals that tells right parametric
answers from wrong ones best (AUROC) on the questions of the fit. So a question that is left out chooses nothing.

The standard error of what a policy gains over another one is that of `adaptive_gains`, with fewer resamples, because each
has eight fits of every model; half of the variance does not depend on them. In worlds of known truth (`--of signals` of
`benchmarks/coverage.py`) 90 to 99.5 % of the intervals contain the true gain with 1,000 questions and more, 86 to 99 %
with 300. The share is lowest where a signal that says little is compared with a policy that decides very differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from longtail.statistics.adaptive_gains import LEAST_DEPARTING, N_PARTS, dealt_twice, deciding_and_variance
from longtail.statistics.signal_fit import Features, Values, probabilities
from longtail.statistics.signal_quality import BEST, aurocs

ALL, PER_RELATION = SCOPES = ("all", "per_relation")
NUMBERS = POPULARITY, CONFIDENCE = ("popularity", "confidence")
"""Signals that are numbers of a question and need no fit."""
ALWAYS, NEVER, FIXED = FIXED_POLICIES = ("always", "never", "fixed")

Policy = tuple[str, str]
"""(signal, threshold scope)."""
Decisions = Mapping[Policy, Sequence[Values]]
"""By policy, for each retrieval method fits × questions: whether to retrieve. Fits × 1 if the same for all questions."""


@dataclass(frozen=True)
class Asked:
    """The questions of one model and parametric method (n), in the order of their relations.

    `relation` is empty if a question has none; its threshold is the one for all. `parametric`: 1 if that answer is
    right. `differences`: for each retrieval method 1 if only its answer is right, -1 if only the parametric one is.
    `numbers`: the values of the signals that need no fit. `features`: what each predicted signal knows. `unit`: the
    number of each question's subject, from 0. `candidates`: the values of each signal that `best_signal` may choose,
    higher for right answers.
    """

    relation: Values
    numbers: Mapping[str, Values]
    parametric: Values
    differences: tuple[Values, ...]
    features: Mapping[str, Features]
    unit: Values
    candidates: Mapping[str, Values] = field(default_factory=dict)

    @property
    def policies(self) -> list[Policy]:
        return [(signal, scope) for signal in (*self.numbers, *self.features) for scope in SCOPES]


def decisions(asked: Asked, weights: Values) -> Decisions:
    """What every policy decides for every question, if fitted on the questions with a weight (fits × n)."""
    decided, slot = _decisions_without_signal(asked, weights), _slot(asked)
    for signal, values, limits in _fit_signals(asked, weights, slot):
        decided[signal, ALL] = [values < limit[:, :1] for limit in limits]
        decided[signal, PER_RELATION] = [
            values < np.where(np.isneginf(limit), limit[:, :1], limit).take(slot, axis=1) for limit in limits
        ]
    return decided


def held_out_gains(asked: Asked, weights: Values, held: Values) -> dict[Policy, Sequence[Values]]:
    """By policy, for each retrieval method what each fit gains on the questions held out (fits × n: how often each
    counts): the sum of `decisions` times the differences, without an array of decisions."""
    from longtail.statistics.kernels import gains_below

    slot, gained = _slot(asked), [np.ascontiguousarray(held * one) for one in asked.differences]
    gains: dict[Policy, Sequence[Values]] = {
        policy: [one[:, 0] * own.sum(axis=1) for one, own in zip(by_method, gained, strict=True)]
        for policy, by_method in _decisions_without_signal(asked, weights).items()
    }
    for signal, values, limits in _fit_signals(asked, weights, slot):
        own, sums = np.array(values, order="C"), [np.zeros((len(values), 2)) for _ in gained]
        for limit, gain, one in zip(limits, gained, sums, strict=True):
            gains_below(own, limit, slot, gain, one)
        gains |= {(signal, scope): [one[:, at] for one in sums] for at, scope in enumerate(SCOPES)}
    return gains


def _slot(asked: Asked) -> Values:
    """The number of each question's relation, from 1; 0 if it has none."""
    return np.asarray(np.unique(np.append("", asked.relation), return_inverse=True)[1][1:])


def _fit_signals(asked: Asked, weights: Values, slot: Values) -> Iterator[tuple[str, Values, list[Values]]]:
    """Each signal with its values (fits × n), and for each retrieval method its thresholds (fits × slots)."""
    weights = np.ascontiguousarray(weights)
    gained = np.array([weights * difference for difference in asked.differences])
    for signal in (*asked.numbers, *asked.features, *([BEST] if asked.candidates else [])):
        values = _values(asked, signal, weights)
        yield signal, values, _limits(values, weights, gained, slot)


def _values(asked: Asked, signal: str, weights: Values) -> Values:
    if signal in asked.numbers:
        return np.broadcast_to(asked.numbers[signal], weights.shape)
    if signal == BEST:
        return np.array([*asked.candidates.values()])[choose_signals(asked, weights)]
    return probabilities(asked.features[signal], asked.parametric, weights)


def choose_signals(asked: Asked, weights: Values) -> Values:
    """For each fit, the number of the candidate with the highest AUROC on the questions with a weight (fits × n).

    The first one of equals is taken, and the first one of all where the fit has answers of one outcome alone.
    """
    drawn, every = np.ascontiguousarray(weights.T, np.uint8), np.arange(len(asked.parametric))
    areas = [
        aurocs(values, asked.parametric, drawn, every, 0 * every) for values in asked.candidates.values()
    ]
    return np.asarray(np.nan_to_num(areas, nan=-1.0).argmax(axis=0))


def relation_rows(relation: Values) -> Iterator[slice]:
    """The rows of each relation; questions without one have no threshold of their own."""
    names, starts = np.unique(relation, return_index=True)
    for name, start, stop in zip(names, starts, np.append(starts[1:], len(relation)), strict=True):
        if name:
            yield slice(start, stop)


def thresholds(values: Values, is_fitted: Values, gained: Sequence[Values]) -> list[Values]:
    """For each of `gained`, the best threshold of each fit. All are fits × n. Without fitted rows nothing is
    below it.

    Only fitted rows may have a gain other than 0.
    """
    return [
        limits[:, 0]
        for limits in _limits(values, is_fitted, np.array(gained), np.zeros(values.shape[1], int))
    ]


def _limits(values: Values, weights: Values, gained: Values, slot: Values) -> list[Values]:
    """For each of `gained` (methods × fits × n), fits × slots: slot 0 has the threshold for all questions, the others
    those of relations.

    `slot` (n): the question's relation, 0 if it has none. A relation without fitted questions has minus infinity.
    """
    from longtail.statistics.kernels import best_limits

    copied = np.array(values, float, order="C")  # also of a view that repeats one row
    weights, gains = (np.ascontiguousarray(array, float) for array in (weights, gained))
    limits = np.empty((len(gained), len(values), slot.max(initial=0) + 1))
    orders = np.argsort(copied if values.strides[0] else copied[:1])  # one for fits that share their values
    best_limits(orders, copied, weights, gains, slot, limits)
    return list(limits)


def _decisions_without_signal(asked: Asked, weights: Values) -> dict[Policy, Sequence[Values]]:
    """The decisions that need no signal, fits × 1: always, never, and the one of them that was better when fitted."""
    always = np.ones((len(weights), 1), dtype=bool)
    better = [(weights @ difference > 0)[:, None] for difference in asked.differences]
    n_methods = len(asked.differences)
    return {(ALWAYS, ALL): [always] * n_methods, (NEVER, ALL): [~always] * n_methods, (FIXED, ALL): better}


N_RESAMPLES = 100
ALIKE = "both nearly always decide alike"
BASELINES: Mapping[str, Policy] = {
    **{name: (name, ALL) for name in FIXED_POLICIES},
    "popularity_all": (POPULARITY, ALL),
    "popularity_per_relation": (POPULARITY, PER_RELATION),
}
"""What policies are compared with: always, never, the better of both, and the two thresholds on popularity."""
_AT_ONCE = 1_000_000
"""Questions times fits of a batch of resamples."""


@dataclass(frozen=True)
class Gain:
    """The mean gain in accuracy over the splits, and its standard error or the reason why there is none.

    `n_deciding`, `share_departing`: as in `adaptive_gains.Spread`, for the difference of two policies.
    """

    gain: float
    variance_of_splits: float | None
    gain_standard_error: float | None
    undefined: str | None
    n_deciding: float
    share_departing: float


def gain_over(
    decided: Values, baseline: Values, difference: Values, test: Values, unit: Values, resampled: Values,
    settled: bool,
) -> Gain:  # fmt: skip
    """The gain of one policy over another. `decided`, `baseline`: decisions (splits × n, or × 1 where all questions have
    the same); `test`: held-out (splits × n); `unit` (n): the number of each question's subject.

    `resampled` (resamples × 2): the gain in each deal of each resample. `settled`: the splits agree on the better fixed
    method. Every split has a test question.
    """
    gained = test * (decided.astype(np.int8) - baseline) * difference.astype(np.int8)
    n_tests = test.sum(axis=0)
    by_split = gained.sum(axis=1) / test.sum(axis=1)
    by_question = gained.sum(axis=0) / np.maximum(n_tests, 1)
    share = float(np.count_nonzero(gained) / max(int(n_tests[difference != 0].sum()), 1))
    n_splits = len(test)
    n_deciding, _, variance, undefined = deciding_and_variance(by_question, resampled, unit, settled)
    if n_splits < 2:
        undefined = "fewer than two splits"
    elif not undefined and share < LEAST_DEPARTING:
        undefined = ALIKE
    elif not undefined and variance <= 0:
        undefined = "resamples do not vary"
    return Gain(
        float(by_split.mean()),
        float(by_split.var(ddof=1) / n_splits) if n_splits > 1 else None,
        None if undefined else float(np.sqrt(variance)),
        undefined,
        n_deciding,
        share,
    )


def resample_accuracies(
    asked: Asked, seed: int, n_resamples: int = N_RESAMPLES
) -> dict[Policy, Sequence[Values]]:
    """By policy, for each retrieval method, resamples × 2 deals: held-out accuracy minus that of never retrieving."""
    by_policy: dict[Policy, list[list[Values]]] = {}
    at_once = _AT_ONCE // N_PARTS
    for drawn, deals in dealt_twice(asked.unit, n_resamples, at_once, np.random.default_rng(seed)):
        dealt = [_dealt(asked, drawn.astype(float), parts) for parts in deals]
        for policy in dealt[0]:
            pairs = zip(*(deal[policy] for deal in dealt), strict=True)
            by_policy.setdefault(policy, []).append([np.stack(pair, axis=1) for pair in pairs])
    return {
        policy: [np.concatenate(parts) for parts in zip(*batches, strict=True)]
        for policy, batches in by_policy.items()
    }


def _dealt(asked: Asked, drawn: Values, parts: Values) -> dict[Policy, list[Values]]:
    """Hold out each part of each resample, fit on the others, and score: one value per resample."""
    n_resamples, n = drawn.shape
    is_held = parts == np.arange(N_PARTS, dtype=np.uint8)[:, None, None]
    held = (drawn * is_held).reshape(-1, n)
    gains = held_out_gains(asked, (drawn * ~is_held).reshape(-1, n), held)
    return {
        policy: [gained.reshape(N_PARTS, n_resamples).sum(axis=0) / drawn.sum(axis=1) for gained in by_method]
        for policy, by_method in gains.items()
    }
