"""The questions on which popularity, confidence and predicted correctness are compared, and what each signal knows.

All policies of a pair of methods are compared on the same questions, those with a popularity above 0. If at least
`LEAST_QUESTIONS` of them have paraphrases and samples, only these are compared, else the signals that need them have a
reason instead of numbers. The same then holds for confidence, that of the parametric answer.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longtail.statistics.prediction import LEAST_QUESTIONS, SIGNALS, Signal
from longtail.statistics.prediction_fit import CERTAINTY, CONSISTENCY
from longtail.statistics.prediction_fit import POPULARITY as LOG_POPULARITY
from longtail.statistics.signal_fit import Features, Values
from longtail.statistics.signal_policies import (
    CONFIDENCE,
    NUMBERS,
    POPULARITY,
    Asked,
    relation_rows,
)
from longtail.statistics.signal_quality import SIGNALS as SINGLE_SIGNALS
from longtail.statistics.signal_quality import orient

MODEL = ("dataset", "prompt", "model", "parametric_method")
KEY = (*MODEL, "retrieval_method")
COSTS = ("device_seconds", "cost_usd", "latency_ms")
SIGNAL_COSTS = ("tokens", *COSTS)
LOG_CONFIDENCE = "log(confidence)"
LEAST_CONFIDENCE = 1e-30
"""A confidence below it has this one's logarithm."""
PREDICTED = (*SIGNALS, Signal("popularity_confidence", (LOG_POPULARITY, LOG_CONFIDENCE), True))
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

    @property
    def shared(self) -> tuple[Any, ...]:
        """Pairs with the same value have the same signals."""
        model = tuple(self.key[name] for name in MODEL)
        return (*model, tuple(self.columns["question_id"]), tuple(self.columns["parametric"]))


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
    """The pairs that differ in the retrieval method alone, from a result of query `ROWS`."""
    return [list(alike) for _, alike in itertools.groupby(pairs_of(table), key=lambda pair: pair.shared)]


def pairs_of(table: pa.Table) -> list[Pair]:
    """The pairs in a result of query `ROWS`, in which the questions of a pair stand together."""
    columns = {
        name: table[name].to_numpy() if name in _TEXTS else table[name].cast(pa.float64()).to_numpy()
        for name in _COLUMNS
    }
    numbers = [table[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in KEY]
    starts = np.flatnonzero(np.any([np.diff(one, prepend=-1) for one in numbers], axis=0))
    found = []
    for start, stop in itertools.pairwise([*starts, len(table)]):
        key = {name: table[name][start].as_py() for name in KEY}
        prompt = pc.max(table["signal_prompt"].slice(start, stop - start)).as_py()
        own = {
            name: values[start:stop].astype(str if name in _TEXTS else float)
            for name, values in columns.items()
        }
        found.append(_pair(key, prompt, own))
    return found


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
            number if signal.has_relation else None,
            len(names) if signal.has_relation else 0,
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
