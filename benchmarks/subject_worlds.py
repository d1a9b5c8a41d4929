"""Worlds of subjects in which rates, means, differences, correlations and signals are known (`coverage`).

A subject has one to six questions. Answers on one subject depend on each other. A study draws subjects, and gets the
intervals that the platform computes: those in SQL from the macros of dbt, the others from the functions of the
statistics. `is_clustered`: with the subjects of the questions; otherwise each question is taken as a subject of its own,
as if they were independent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import jinja2
import numpy as np
import pyarrow as pa
from scipy.special import expit, logit

from benchmarks.gain_studies import N_TRUE, Study, training_splits
from longtail.statistics.adaptive_signals import ORACLE, arena
from longtail.statistics.correlation_intervals import MEASURES, bootstrap_correlations
from longtail.statistics.factual_consistency import add_means
from longtail.statistics.paired_comparisons import compare_prompts, difference_interval, kinds_of_subjects
from longtail.statistics.resampling import Values, sign_flip_p, sums_by_subject
from longtail.statistics.signal_policies import (
    ALL,
    ALWAYS,
    COSTS,
    KEY,
    NEVER,
    POPULARITY,
    SIGNAL_COSTS,
    Asked,
    Pair,
    choose_signals,
    decisions,
    resample_accuracies,
)
from longtail.statistics.signal_quality import BEST, SIGNALS, Answers
from longtail.warehouse.build import DBT_PROJECT

_N_POPULATION = 200_000
"""Subjects from which a truth without a formula is computed."""


@dataclass(frozen=True)
class SubjectWorld:
    """`rate`: share of right answers. `dependence`: correlation of two answers on one subject, or nearly so."""

    rate: float
    dependence: float

    def subjects(self, n_subjects: int, rng: np.random.Generator) -> Values:
        """The subject of each question, ascending."""
        return np.repeat(np.arange(n_subjects), rng.integers(1, 7, n_subjects))

    def chances(self, n_subjects: int, rng: np.random.Generator) -> Values:
        """The probability that an answer on each subject is right: a beta distribution, or the rate itself."""
        if not self.dependence:
            return np.full(n_subjects, self.rate)
        size = 1 / self.dependence - 1
        return rng.beta(self.rate * size, (1 - self.rate) * size, n_subjects)

    def answers(self, subject: Values, rng: np.random.Generator) -> Values:
        return (rng.random(len(subject)) < self.chances(int(subject.max()) + 1, rng)[subject]).astype(float)

    def popular(self, n_subjects: int, rng: np.random.Generator) -> tuple[Values, Values, Values, Values]:
        """Subject, relation, log10 popularity (with ties) and correctness: popularity helps, relations differ."""
        subject = self.subjects(n_subjects, rng)
        logs = np.log10(np.round(10 ** rng.normal(2, 0.8, n_subjects)) + 1)
        spread = np.pi * np.sqrt(self.dependence / (3 * (1 - self.dependence)))
        effect = logit(self.rate) + 0.8 * (logs - 2) + spread * rng.normal(size=n_subjects)
        relation = rng.integers(0, 3, len(subject))
        correct = rng.random(len(subject)) < expit(effect[subject] + 0.7 * (relation - 1))
        return subject, relation, logs[subject], correct.astype(float)

    def retrieved(self, subject: Values, logs: Values, rng: np.random.Generator) -> Values:
        """Correctness with a passage: it helps where popularity is low, and hurts where it is high."""
        spread = np.pi * np.sqrt(self.dependence / (3 * (1 - self.dependence)))
        effect = spread * rng.normal(size=int(subject.max()) + 1)[subject]
        return (rng.random(len(subject)) < expit(logit(self.rate) - 0.4 * (logs - 2) + effect)).astype(float)


WORLDS: Mapping[str, SubjectWorld] = {
    f"{rate:.0%} right, correlation {dependence:g}": SubjectWorld(rate, dependence)
    for rate in (0.5, 0.9, 0.03)
    for dependence in (0.0, 0.2, 0.5)
}
Studies = Iterator[dict[str, Study]]


def _ids(subject: Values, is_clustered: bool) -> Values:
    return subject if is_clustered else np.arange(len(subject))


@functools.cache
def _sql() -> Any:
    """dbt's macros of intervals, compiled as dbt does it."""
    return (
        jinja2.Environment(autoescape=False)  # noqa: S701 - SQL
        .from_string((DBT_PROJECT / "macros" / "intervals.sql").read_text(encoding="utf-8"))
        .module
    )


def rates(world: SubjectWorld, n_subjects: int, seeds: Sequence[int], is_clustered: bool) -> Studies:
    """A rate of right answers, and means of three measures, from the macros `rate` and `mean_of`: all studies at once."""
    drawn = []
    for number, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        subject = world.subjects(n_subjects, rng)
        correct, level = world.answers(subject, rng), rng.random(n_subjects)[subject]
        weight = np.sqrt(world.dependence)
        share = np.where(
            correct == 1, 1.0, np.round(weight * level + (1 - weight) * rng.random(len(subject)), 1)
        )
        skewed = np.exp(
            weight * rng.normal(size=n_subjects)[subject] + (1 - weight) * rng.normal(size=len(subject))
        )
        drawn.append((np.full(len(subject), number), _ids(subject, is_clustered), correct, share, skewed))
    names = ("study", "subject", "correct", "share", "skewed")
    rows = pa.table(dict(zip(names, map(np.concatenate, zip(*drawn, strict=True)), strict=True)))
    macro, measures = _sql(), {"share": (0, 1), "skewed": (0, None)}
    sums = ", ".join(str(macro.value_sums(name)) for name in measures)
    ends = ", ".join(str(macro.mean_of(name, name, *ends)) for name, ends in measures.items())
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        found = connection.execute(
            f"with by_subject as (select study, subject, sum(correct) as y, count(*) as m, "  # noqa: S608
            f"{', '.join(str(macro.subject_values(name)) for name in measures)} from rows group by all), "
            f"by_study as (select study, {macro.subject_sums('y', 'm')} as sums, {sums} from by_subject group by all) "
            f"select {macro.rate('sums', 'correct')}, {ends} from by_study order by study"
        ).to_arrow_table()
    truths = _means_of_rates(world)
    for row in found.to_pylist():
        yield {
            "rate" if name == "correct" else f"mean, {name}": Study(
                truths[name], row[name], row[f"{name}_ci_low"], row[f"{name}_ci_high"],
                None if row[f"{name}_ci_low"] is not None else "no interval",
            )
            for name in truths
        }  # fmt: skip


@functools.cache
def _means_of_rates(world: SubjectWorld) -> dict[str, float]:
    weight, rng = np.sqrt(world.dependence), np.random.default_rng(0)
    mixed = np.round(weight * rng.random(10**6) + (1 - weight) * rng.random(10**6), 1).mean()
    variance = weight**2 + (1 - weight) ** 2
    share = world.rate + (1 - world.rate) * float(mixed)
    return {"correct": world.rate, "share": share, "skewed": float(np.exp(variance / 2))}


def comparisons(world: SubjectWorld, n_subjects: int, seeds: Sequence[int], is_clustered: bool) -> Studies:
    """Two methods whose answers on a question depend on each other: `difference`, and a test where there is none.

    The interval of a test holds if p is at least .05.
    """
    other = SubjectWorld(world.rate + (0.1 if world.rate < 0.9 else -0.1), world.dependence)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        subject = world.subjects(n_subjects, rng)
        drawn = rng.random((2, len(subject)))
        drawn[1] = np.where(rng.random(len(subject)) < 0.5, drawn[0], drawn[1])
        chances = [one.chances(n_subjects, rng)[subject] for one in (world, other, world)]
        a, b, same = drawn[0] < chances[0], drawn[1] < chances[1], drawn[1] < chances[2]
        ids, found = _ids(subject, is_clustered), {}
        sums = sums_by_subject(np.column_stack([1.0 * b - a, 1.0 * same - a, np.ones(len(ids))]), ids).astype(
            int
        )
        kinds, counts = np.unique(sums[:, [0, 2]], axis=0, return_counts=True)
        rows = [
            {"difference": d, "n_questions": n, "n_subjects": k}
            for (d, n), k in zip(kinds, counts, strict=True)
        ]
        low, high, reason = difference_interval(kinds_of_subjects(rows), seed, 1_000)
        found["difference"] = Study(other.rate - world.rate, (1.0 * b - a).mean(), low, high, reason)
        (p_value,) = sign_flip_p(sums[:, 1:2].astype(float), seed)
        found["sign flips: p ≥ .05 without an effect"] = Study(0.05, p_value, 0.0, p_value, None)
        yield found


@functools.cache
def _truths(world: SubjectWorld) -> dict[str, float]:
    """Correlations with popularity and AUROC of popularity among many subjects."""
    from scipy.stats import rankdata

    subject, relation, logs, correct = world.popular(_N_POPULATION, np.random.default_rng(0))
    ranks = rankdata(logs)
    found = {
        "point_biserial": np.corrcoef(logs, correct)[0, 1],
        "spearman": np.corrcoef(ranks, correct)[0, 1],
    }
    within = np.zeros((3, len(subject)))
    for one in np.unique(relation):
        rows = relation == one
        own = logs[rows], rankdata(logs[rows]) / rows.sum(), correct[rows]
        within[:, rows] = [values - values.mean() for values in own]
    for measure, values in zip(MEASURES, within[:2], strict=True):
        found[f"{measure}_within"] = values @ within[2] / np.sqrt((values @ values) * (within[2] @ within[2]))
    n_right, n_wrong = correct.sum(), (1 - correct).sum()
    found["auroc"] = (ranks[correct == 1].sum() - n_right * (n_right + 1) / 2) / (n_right * n_wrong)
    return {name: float(value) for name, value in found.items()}


def signals(world: SubjectWorld, n_subjects: int, seeds: Sequence[int], is_clustered: bool) -> Studies:
    """Correlations of correctness with popularity, and the AUROC of popularity."""
    truths = _truths(world)
    for seed in seeds:
        subject, relation, logs, correct = world.popular(n_subjects, np.random.default_rng(seed))
        ids = _ids(subject, is_clustered)
        group = {
            **dict.fromkeys(("dataset", "prompt", "model", "method"), "x"), "cluster_id": [f"{one}" for one in ids],
            "question_id": [f"{i}" for i in range(len(ids))], "relation": [f"{one}" for one in relation],
            "subject_popularity": list(10**logs), "is_correct": list(correct == 1),
        }  # fmt: skip
        rows = bootstrap_correlations(pa.Table.from_pylist([group]), seed).to_pylist()
        (every,) = [row for row in rows if row["relation"] == "all"]
        found = {
            measure + scope: Study(
                truths[measure + scope], 0.0, every[f"{measure}{scope}_low"], every[f"{measure}{scope}_high"],
                every[f"no_interval{scope}"],
            )
            for measure in MEASURES for scope in ("", "_within")
        }  # fmt: skip
        answers = Answers(correct, ids, relation.astype(str))
        row = answers.quality(logs[:, None], seed)
        low, high = row["auroc_ci_low"], row["auroc_ci_high"]
        reason = None if low is not None else row.get("no_interval") or row["undefined"] or "no interval"
        yield found | {"auroc": Study(truths["auroc"], row["auroc"] or 0.0, low, high, reason)}


def grounding(world: SubjectWorld, n_subjects: int, seeds: Sequence[int], is_clustered: bool) -> Studies:
    """QUIP-Scores of two texts about a question: many are 0, and the texts depend on each other."""
    measures = {"quip_ratio": 1.25, "quip_difference": 0.25 * world.rate / 4, "score_difference": 0.0}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        subject = world.subjects(n_subjects, rng)
        chance = world.chances(n_subjects, rng)[subject] / 2
        base, asked = (factor * chance * rng.random(len(subject)) for factor in (1.0, 1.25))
        scores = (rng.random((2, len(subject))) < chance).astype(float)
        group = {
            **dict.fromkeys(("dataset", "model", "method", "grounding_prompt", "compared_with"), "x"),
            "cluster_id": [f"{one}" for one in _ids(subject, is_clustered)], "quip": list(asked), "base_quip": list(base),
            "same_length_quip": list(asked), "base_same_length_quip": list(base), "score": list(scores[0]),
            "base_score": list(scores[1]),
        }  # fmt: skip
        rows = compare_prompts(pa.Table.from_pylist([group]), seed).to_pylist()
        yield {
            row["measure"]: Study(measures[row["measure"]], 0.0, row["value_low"], row["value_high"], row["no_interval"])
            for row in rows if row["measure"] in measures
        }  # fmt: skip


def consistency(world: SubjectWorld, n_subjects: int, seeds: Sequence[int], is_clustered: bool) -> Studies:
    """Facts of two relations with five patterns each: agreement of pairs, and accuracy of the first pattern."""
    truths = {"accuracy": world.rate, "consistency": _agreement(world)}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        subject = world.subjects(n_subjects, rng)
        chance = world.chances(n_subjects, rng)[subject]
        right = rng.random((5, len(subject))) < chance
        n_right, relation = right.sum(axis=0), np.arange(len(subject)) % 2
        values = {
            "accuracy": (right[0].astype(float), np.ones(len(subject))),
            "consistency": (
                n_right * (n_right - 1) + (5 - n_right) * (4.0 - n_right),
                np.full(len(subject), 20.0),
            ),
        }
        ids, rows = _ids(subject, is_clustered), []
        for name in (0, 1):
            own = relation == name
            for measure, sums in values.items():
                above, below = (sums_by_subject(one[own], ids[own]).tolist() for one in sums)
                rows.append({
                    "dataset": "x", "relation": f"P{name}", "measure": measure, "n_drawn": int(ids.max()) + 1,
                    "subject": (np.unique(ids[own]) + 1).tolist(), "numerator": above, "denominator": below,
                })  # fmt: skip
        found = list(add_means(rows, ("dataset",), ("dataset",), seed))
        yield {
            f"{row['measure']}, {'mean over relations' if row['relation'] == 'all' else 'one relation'}": Study(
                truths[row["measure"]], 0.0, row["value_low"], row["value_high"], row["no_interval"]
            )
            for row in found if row["relation"] != "P1"
        }  # fmt: skip


def _agreement(world: SubjectWorld) -> float:
    """The probability that two patterns of a fact are both right or both wrong."""
    variance = world.rate * (1 - world.rate) * world.dependence
    return 1 - 2 * (world.rate * (1 - world.rate) - variance)


@functools.cache
def _with_and_without(world: SubjectWorld) -> tuple[Values, Values, float]:
    """Of many questions: popularity, ascending; accuracy when retrieving for so many of the first; the oracle's."""
    rng = np.random.default_rng(0)
    subject, _, logs, parametric = world.popular(_N_POPULATION, rng)
    retrieved, order = world.retrieved(subject, logs, rng), np.argsort(logs)
    gains = np.append(0, np.cumsum((retrieved - parametric)[order])) / len(order)
    return logs[order], parametric.mean() + gains, float(np.maximum(retrieved, parametric).mean())


def policies(world: SubjectWorld, n_subjects: int, seeds: Sequence[int], is_clustered: bool) -> Studies:
    """Accuracy, gain, and share of the oracle's gain of always retrieving, the oracle, and a threshold on popularity.

    The truth of the fitted threshold is its mean over splits of what it is right for among many questions.
    """
    ordered, right_below, oracle = _with_and_without(world)
    fixed = {NEVER: right_below[0], ALWAYS: right_below[-1]}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        subject, _, logs, parametric = world.popular(n_subjects, rng)
        retrieved = world.retrieved(subject, logs, rng)
        asked = _asked(parametric, retrieved, _ids(subject, is_clustered), {POPULARITY: logs}, {})
        training = training_splits(len(subject), rng)
        is_below = decisions(asked, training[:N_TRUE].astype(float))[POPULARITY, ALL][0]
        limits = [logs[~below].min(initial=np.inf) for below in is_below]
        fitted = right_below[np.searchsorted(ordered, limits)]
        better = np.where(training[:N_TRUE] @ asked.differences[0] > 0, fixed[ALWAYS], fixed[NEVER])
        truths = {ALWAYS: fixed[ALWAYS], ORACLE: oracle, POPULARITY: float(fitted.mean())}
        above = {name: truth - max(fixed.values()) for name, truth in truths.items()}
        gains = {**above, POPULARITY: float((fitted - better).mean())}
        studies = {}
        for row in _policies(asked, retrieved, training, seed):
            if (name := row["policy"]) in truths:
                for measure, truth, why in (
                    ("policy_accuracy", truths[name], "no_interval"),
                    ("policy_gain", gains[name], "no_gain_interval"),
                    ("gap_share", above[name] / above[ORACLE], "no_gap_interval"),
                ):
                    ends = row[f"{measure}_ci_low"], row[f"{measure}_ci_high"]
                    studies[f"{measure} of {name}"] = Study(truth, row[measure] or 0.0, *ends, row[why])
        yield studies


def false_gains(world: SubjectWorld, n_subjects: int, seeds: Sequence[int], is_clustered: bool) -> Studies:
    """Memory and passages are right equally often, and no signal says anything: deciding by the best one gains nothing.

    The interval of the test holds if p is at least .05, or speaks against the policy.
    """
    for seed in seeds:
        rng = np.random.default_rng(seed)
        subject = world.subjects(n_subjects, rng)
        memory, passages = (world.answers(subject, rng) for _ in range(2))
        noise = {name: rng.normal(size=n_subjects)[subject] for name in SIGNALS}
        asked = _asked(memory, passages, _ids(subject, is_clustered), {}, noise)
        rows = _policies(asked, passages, training_splits(len(subject), rng), seed)
        (row,) = (row for row in rows if row["policy"] == BEST)
        gain, low, high = (row[f"policy_gain{end}"] for end in ("", "_ci_low", "_ci_high"))
        in_favour = row["policy_p_value"] if gain > 0 and row["policy_p_value"] is not None else 1.0
        yield {
            BEST: Study(0.0, gain, low, high, row["no_gain_interval"]),
            "p ≥ .05 in favour without an effect": Study(0.05, in_favour, 0.0, in_favour, None),
        }


def _asked(
    memory: Values,
    passages: Values,
    ids: Values,
    signals: Mapping[str, Values],
    candidates: Mapping[str, Values],
) -> Asked:
    unit = np.unique(ids, return_inverse=True)[1]
    return Asked(np.full(len(memory), ""), signals, memory, (passages - memory,), {}, unit, candidates)


def _policies(asked: Asked, passages: Values, training: Values, seed: int) -> Iterator[dict[str, Any]]:
    """The rows of table policies of one pair of methods, whose costs are unknown."""
    n = len(passages)
    costs = (
        *(f"signal_{cost}" for cost in SIGNAL_COSTS),
        *(f"{side}_{cost}" for side in ("parametric", "retrieval") for cost in COSTS),
    )
    columns = {
        **dict.fromkeys(costs, np.full(n, np.nan)), "question_id": np.arange(n).astype(str),
        "cluster_id": asked.unit, "parametric": asked.parametric, "retrieval": passages,
    }  # fmt: skip
    pair = Pair(dict.fromkeys(KEY, "x"), columns, {}, None, None, None)
    decided = {policy: one for policy, (one,) in decisions(asked, training.astype(float)).items()}
    resampled = {policy: one for policy, (one,) in resample_accuracies(asked, seed).items()}
    names = [*asked.candidates]
    chosen = [names[place] for place in choose_signals(asked, training)] if names else []
    yield from arena(pair, training, decided, resampled, chosen, {}, seed)


SIMULATIONS: Mapping[str, Callable[[SubjectWorld, int, Sequence[int], bool], Studies]] = {
    "rates": rates, "comparisons": comparisons, "correlations": signals, "grounding": grounding,
    "consistency": consistency, "policies": policies, "false_gains": false_gains,
}  # fmt: skip
