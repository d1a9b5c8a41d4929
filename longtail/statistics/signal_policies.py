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

All policies of a pair of methods are compared on the same questions, those with a popularity above 0. If at least
`LEAST_QUESTIONS` of them have paraphrases and samples, only these are compared, else the signals that need them have a
reason instead of numbers. The same then holds for confidence, that of the parametric answer.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longtail.statistics.adaptive_gains import N_PARTS, Spread, dealt_twice, spread_of
from longtail.statistics.prediction import LEAST_QUESTIONS, SIGNALS
from longtail.statistics.prediction_fit import CERTAINTY, CONSISTENCY, PredictorSet
from longtail.statistics.prediction_fit import POPULARITY as LOG_POPULARITY
from longtail.statistics.signal_quality import BEST, Features, Values, aurocs, orient, probabilities
from longtail.statistics.signal_quality import SIGNALS as SINGLE_SIGNALS

ALL, PER_RELATION = SCOPES = ("all", "per_relation")
NUMBERS = POPULARITY, CONFIDENCE = ("popularity", "confidence")
"""Signals that are numbers of a question and need no fit."""
ALWAYS, NEVER, FIXED = FIXED_POLICIES = ("always", "never", "fixed")

Policy = tuple[str, str]
"""(signal, threshold scope)."""


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


def decisions(asked: Asked, weights: Values) -> dict[Policy, Sequence[Values]]:
    """By policy, for each retrieval method fits × n (or × 1, the same for all): whether to retrieve, if fitted on the
    questions with a weight (fits × n)."""
    always, n_methods = np.ones((len(weights), 1), dtype=bool), len(asked.differences)
    decided: dict[Policy, Sequence[Values]] = {
        (ALWAYS, ALL): [always] * n_methods,
        (NEVER, ALL): [~always] * n_methods,
        (FIXED, ALL): [(weights @ difference > 0)[:, None] for difference in asked.differences],
    }
    slot = np.unique(np.append("", asked.relation), return_inverse=True)[1][
        1:
    ]  # from 1; 0: without a relation
    for signal, values, limits in _fit_signals(asked, weights, slot):
        decided[signal, ALL] = [values < limit[:, :1] for limit in limits]
        decided[signal, PER_RELATION] = [
            values < np.where(np.isneginf(limit), limit[:, :1], limit).take(slot, axis=1) for limit in limits
        ]
    return decided


def _fit_signals(asked: Asked, weights: Values, slot: Values) -> Iterator[tuple[str, Values, list[Values]]]:
    """Each signal with its values (fits × n), and for each retrieval method its thresholds (fits × slots)."""
    weights = np.ascontiguousarray(weights)
    gained = np.array([weights * difference for difference in asked.differences])
    for signal in (*asked.numbers, *asked.features, *([BEST] if asked.candidates else [])):
        if signal in asked.numbers:
            values = np.broadcast_to(asked.numbers[signal], weights.shape)
        elif signal == BEST:
            values = np.array([*asked.candidates.values()])[choose_signals(asked, weights)]
        else:
            values = probabilities(asked.features[signal], asked.parametric, weights)
        yield signal, values, _limits(values, weights, gained, slot)


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
class Gain(Spread):
    """The mean gain in accuracy over the splits, and how much the difference of two policies varies."""

    gain: float
    variance_of_splits: float | None


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
    spread = spread_of(by_question, resampled, unit, settled, share, ALIKE)
    if n_splits < 2:
        spread = replace(spread, undefined="fewer than two splits", gain_standard_error=None)
    variance = float(by_split.var(ddof=1) / n_splits) if n_splits > 1 else None
    return Gain(**vars(spread), gain=float(by_split.mean()), variance_of_splits=variance)


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
    gained = [(drawn * is_held * difference).reshape(-1, n) for difference in asked.differences]
    return {
        policy: [
            (decided * gain).sum(axis=1).reshape(N_PARTS, n_resamples).sum(axis=0) / drawn.sum(axis=1)
            for decided, gain in zip(by_method, gained, strict=True)
        ]
        for policy, by_method in decisions(asked, (drawn * ~is_held).reshape(-1, n)).items()
    }


MODEL = ("dataset", "prompt", "model", "parametric_method")
KEY = (*MODEL, "retrieval_method")
COSTS = ("device_seconds", "cost_usd", "latency_ms")
SIGNAL_COSTS = ("tokens", *COSTS)
LOG_CONFIDENCE = "log(confidence)"
LEAST_CONFIDENCE = 1e-30
"""A confidence below it has this one's logarithm."""
PREDICTED = (*SIGNALS, PredictorSet("popularity_confidence", (LOG_POPULARITY, LOG_CONFIDENCE), True))
_NEEDED = {signal.name: {*signal.numeric} for signal in PREDICTED}
_TEXTS = ("question_id", "relation", "cluster_id")
_OF_ANSWER = (CONFIDENCE, "least_probability", "first_probability", "first_margin", "mean_entropy")
"""Signals that are known only after the parametric method has answered."""
_JOINED = ("site_links", *_OF_ANSWER[1:])
"""Signals that only `best_signal` decides by."""
_COLUMNS = (
    *_TEXTS, "popularity", "confidence", "parametric", "retrieval", "scons", "cert", "parametric_tokens", *_JOINED,
    *(f"signal_{cost}" for cost in SIGNAL_COSTS),
    *(f"{side}_{cost}" for side in ("parametric", "retrieval") for cost in COSTS),
)  # fmt: skip


ROWS = (
    f"select {', '.join((*KEY, 'signal_prompt', *_COLUMNS))}"  # noqa: S608
    " from (select * replace (coalesce(relation, '') as relation) from (from int_signal_rows"
    " union all by name select * exclude (parametric_correct, retrieval_correct, parametric_confidence),"
    " parametric_confidence as confidence, parametric_correct::integer as parametric,"
    " retrieval_correct::integer as retrieval, null::varchar as signal_prompt"
    " from int_answer_pairs semi join (from int_method_pairs where n_questions = 0)"
    f" using ({', '.join(KEY)})))"
    f" left join (select {', '.join(MODEL[:-1])}, method as {MODEL[-1]}, question_id, {', '.join(_JOINED)}"
    " from int_signal_values)"
    f" using ({', '.join(MODEL)}, question_id) order by {', '.join(KEY)}, relation, question_id"
)
"""The questions of all pairs: those with popularity, and all of a pair that has none with popularity."""
SPLITS = (
    "select dataset, question_id, list(split order by split) filter (is_training) as trains"
    " from int_adaptive_splits group by all order by all"
)
N_SPLITS = "select dataset, max(split) + 1 as n from int_adaptive_splits group by all order by all"
NO_TEST, TOO_FEW, ONE_OUTCOME = "no test questions", "too few questions", "too few answers of one outcome"
NO_POPULARITY = "no popularity"
_MEASURES = "paraphrases and samples"

Columns = Mapping[str, Values]


@dataclass(frozen=True)
class Pair:
    """A pair of methods and its compared questions: `columns` in the order of relations; `counts` of those left out.

    `signal_prompt`: the prompt that asked paraphrases and samples. `unmeasured`, `unsure`: the reason why signals that
    need these, or confidence, are not compared.
    """

    key: Mapping[str, str]
    columns: Columns
    counts: Mapping[str, int]
    signal_prompt: str | None
    unmeasured: str | None
    unsure: str | None

    @functools.cached_property
    def unit(self) -> Values:
        """The number of each question's subject, from 0."""
        return np.unique(self.columns["cluster_id"], return_inverse=True)[1]


Training = Mapping[str, Values]
"""By question, whether each split trains on it."""


def training_of(splits: pa.Table, n_splits: pa.Table) -> Mapping[str, Training]:
    """By dataset, from the results of `SPLITS` and `N_SPLITS`."""
    n_splits = dict(zip(*n_splits.to_pydict().values(), strict=True))
    found: dict[str, dict[str, Values]] = {}
    for row in splits.to_pylist():
        is_training = np.zeros(n_splits[row["dataset"]], dtype=bool)
        is_training[row["trains"] or []] = True
        found.setdefault(row["dataset"], {})[row["question_id"]] = is_training
    return found


def groups_of(table: pa.Table) -> list[list[Pair]]:
    """The pairs that differ in the retrieval method alone, so have the same signals, from a result of query `ROWS`."""

    def shared(pair: Pair) -> tuple[Any, ...]:
        model = tuple(pair.key[name] for name in MODEL)
        return (*model, tuple(pair.columns["question_id"]), tuple(pair.columns["parametric"]))

    return [list(alike) for _, alike in itertools.groupby(_pairs_of(table), key=shared)]


def _pairs_of(table: pa.Table) -> Iterator[Pair]:
    """The pairs in a result of query `ROWS`, in which the questions of a pair stand together."""
    columns = {
        name: table[name].to_numpy() if name in _TEXTS else table[name].cast(pa.float64()).to_numpy()
        for name in _COLUMNS
    }
    numbers = [table[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in KEY]
    starts = np.flatnonzero(np.any([np.diff(number, prepend=-1) for number in numbers], axis=0))
    for start, stop in itertools.pairwise([*starts, len(table)]):
        key = {name: table[name][start].as_py() for name in KEY}
        prompt = pc.max(table["signal_prompt"].slice(start, stop - start)).as_py()
        yield _pair(
            key, prompt, {
                name: values[start:stop].astype(str if name in _TEXTS else float) for name, values in columns.items()
            },
        )  # fmt: skip


def _pair(key: Mapping[str, str], signal_prompt: str | None, columns: Columns) -> Pair:
    has_popularity = columns["popularity"] > 0
    if np.isnan(columns["popularity"]).all():  # a dataset without popularity: its questions are compared, too
        has_popularity = ~has_popularity
    is_measured = ~np.isnan(columns["scons"]) & ~np.isnan(columns["cert"])
    is_sure = ~np.isnan(columns["confidence"])
    kept, unmeasured = _with(_MEASURES, has_popularity, is_measured)
    kept, unsure = _with(CONFIDENCE, kept, is_sure)
    counts = {
        "n_questions": len(kept),
        "n_compared": int(kept.sum()),
        "n_zero_popularity": int((~has_popularity).sum()),
        "n_no_measures": int((has_popularity & ~is_measured).sum()),
        "n_no_confidence": int((has_popularity & ~is_sure).sum()),
    }
    chosen = {name: values[kept] for name, values in columns.items()}
    return Pair(key, chosen, counts, signal_prompt, unmeasured, unsure)


def _with(what: str, kept: Values, is_known: Values) -> tuple[Values, str | None]:
    """The kept questions for which `what` is known; or, if they are too few, all kept ones and the reason."""
    if (kept & is_known).sum() >= LEAST_QUESTIONS:
        return kept & is_known, None
    return kept, f"too few questions with {what}" if is_known.any() else f"no {what}"


def scored_splits(pair: Pair, training: Training) -> Values:
    """Splits × questions of the pair: whether the split trains on it. Splits without a test question are left out."""
    questions = pair.columns["question_id"]
    if not training:
        return np.zeros((0, len(questions)), dtype=bool)
    by_question = [training[one] for one in questions]
    n_splits = len(next(iter(training.values())))
    is_training = np.array(by_question, dtype=bool).reshape(len(questions), n_splits).T
    return np.asarray(is_training[~is_training.all(axis=1)])


def undefined_signals(pair: Pair, is_training: Values) -> dict[str, str | None]:
    """By signal, the reason why it cannot decide for the pair's questions."""
    n_right, n = is_training @ pair.columns["parametric"], is_training.sum(axis=1)
    nothing = None if len(is_training) else NO_TEST
    reason = nothing
    if pair.counts["n_compared"] < LEAST_QUESTIONS:
        reason = TOO_FEW
    elif ((n_right == 0) | (n_right == n)).any():
        reason = ONE_OUTCOME
    unpopular = NO_POPULARITY if np.isnan(pair.columns["popularity"]).any() else None
    found: dict[str, str | None] = {POPULARITY: unpopular or nothing, CONFIDENCE: pair.unsure or nothing}
    for name, needed in _NEEDED.items():
        unmeasured = pair.unmeasured if needs_measures(name) else None
        unsure = pair.unsure if needs_confidence(name) else None
        found[name] = (unpopular if LOG_POPULARITY in needed else None) or unmeasured or unsure or reason
    return found


def needs_measures(signal: str) -> bool:
    """Whether the signal is known only after sampling and asking paraphrases."""
    return signal in ("scons", "cert") or not _NEEDED.get(signal, {LOG_POPULARITY}).isdisjoint(
        {CONSISTENCY, CERTAINTY}
    )


def needs_confidence(signal: str) -> bool:
    """Whether the signal is known only after the parametric method has answered."""
    return signal in _OF_ANSWER or LOG_CONFIDENCE in _NEEDED.get(signal, ())


def signal_cost(signal: str, cost: str, columns: Columns, decided: Values) -> Values:
    """What a signal costs, as `decided` (splits × n): paraphrases and samples, and a parametric answer that is thrown
    away where its confidence says retrieve."""
    found = columns[f"signal_{cost}"] if needs_measures(signal) else 0.0
    thrown_away = columns[f"parametric_{cost}"] if needs_confidence(signal) else 0.0
    return np.asarray(found + np.where(decided, thrown_away, 0.0))


def asked_of(group: Sequence[Pair], undefined: Mapping[str, str | None]) -> Asked:
    """The questions that the pairs of a group have in common, with the signals that are not `undefined`.

    The best signal is chosen among those that are known for all of these questions.
    """
    columns = group[0].columns
    predictors = {
        LOG_POPULARITY: np.log(columns["popularity"]), CONSISTENCY: columns["scons"], CERTAINTY: columns["cert"],
        LOG_CONFIDENCE: np.log(np.maximum(columns["confidence"], LEAST_CONFIDENCE)),
    }  # fmt: skip
    names, number = np.unique(columns["relation"], return_inverse=True)
    features = {
        signal.name: Features(
            np.column_stack([predictors[one] for one in signal.numeric]),
            number if signal.by_relation else None,
            len(names) if signal.by_relation else 0,
        )
        for signal in PREDICTED
        if not undefined[signal.name]
    }
    numbers = {name: columns[name] for name in NUMBERS if not undefined[name]}
    known = [name for name in SINGLE_SIGNALS if not np.isnan(columns[name]).any()]
    candidates = {name: orient(name, columns[name]) for name in known}
    differences = tuple(pair.columns["retrieval"] - pair.columns["parametric"] for pair in group)
    right, unit = columns["parametric"], group[0].unit
    return Asked(columns["relation"], numbers, right, differences, features, unit, candidates)


def count_questions(pair: Pair) -> dict[str, Any]:
    """The key of a pair, and how many questions are compared and left out."""
    right, relation = pair.columns["parametric"], pair.columns["relation"]
    n_one = sum(len(set(right[rows])) == 1 for rows in relation_rows(relation)) if len(right) else 0
    return {**pair.key, **pair.counts, "n_one_outcome": n_one}
