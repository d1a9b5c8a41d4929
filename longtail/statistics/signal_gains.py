"""What a policy gains over another one on held-out questions, and how certain that is: both answer the same questions.

The standard error is that of `adaptive_gains`: the mean of two variances. One is the covariance of the held-out gains of
two deals of each resample of the subjects, with models, thresholds and the better fixed method fitted each time. The
other is the part from scoring, from what each subject gains when it is left out. Where the splits disagree on the better
fixed method, the whole covariance counts. There are fewer resamples, because each has eight fits
of every model; half of the variance does not depend on them. In worlds of known truth (`--of signals` of
`benchmarks/coverage.py`) 90 to 99.5 % of the intervals contain the true gain with 1,000 questions and more, 86 to 99 %
with 300. The share is lowest where a signal that says little is compared with a policy that decides very differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from longtail.statistics.adaptive_gains import (
    LEAST_DEPARTING,
    N_PARTS,
    dealt_twice,
    deciding_and_variance,
)
from longtail.statistics.signal_fit import Values
from longtail.statistics.signal_policies import (
    ALL,
    FIXED_POLICIES,
    PER_RELATION,
    POPULARITY,
    Asked,
    Policy,
    held_out_gains,
)

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
    found: dict[Policy, list[list[Values]]] = {}
    at_once = _AT_ONCE // N_PARTS
    for drawn, deals in dealt_twice(asked.unit, n_resamples, at_once, np.random.default_rng(seed)):
        dealt = [_dealt(asked, drawn.astype(float), parts) for parts in deals]
        for policy in dealt[0]:
            pairs = zip(*(deal[policy] for deal in dealt), strict=True)
            found.setdefault(policy, []).append([np.stack(pair, axis=1) for pair in pairs])
    return {
        policy: [np.concatenate(parts) for parts in zip(*batches, strict=True)]
        for policy, batches in found.items()
    }


def _dealt(asked: Asked, drawn: Values, parts: Values) -> dict[Policy, list[Values]]:
    """Hold out each part of each resample, fit on the others, and score: one value per resample."""
    n_resamples, n = drawn.shape
    is_held = parts == np.arange(N_PARTS, dtype=np.uint8)[:, None, None]
    held = (drawn * is_held).reshape(-1, n)
    gains = held_out_gains(asked, (drawn * ~is_held).reshape(-1, n), held)
    return {
        policy: [one.reshape(N_PARTS, n_resamples).sum(axis=0) / drawn.sum(axis=1) for one in by_method]
        for policy, by_method in gains.items()
    }
