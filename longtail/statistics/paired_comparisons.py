"""Is one side really better? Paired comparisons: of methods and of models, and of texts with another prompt or passage.

Methods and models are compared on the questions that both answered. Questions on one subject depend on each other, so
whole subjects change sign in the test and are drawn in the bootstrap. All that a subject adds is its number of questions
and by how many of them one side is better. So subjects are counted by these two numbers, and a draw of subjects is a
draw of these counts from a multinomial distribution. It has the same distribution as drawing subject by subject, and
takes a thousandth of the time.

Does a model quote more when it is asked to, or with a passage in front? Every grounding prompt is compared with the null
prompt, and every method with a passage with the one without. All measures are ratios of sums over questions: both texts'
QUIP over questions where both are defined, and the sum of differences over the number of questions. All models, methods
and prompts share the draws of a dataset's subjects.

The test asks how often the mean difference would be as large if the names of the two sides were exchanged at random for
each subject: a change of the sign of all its differences. It assumes no distribution.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from longtail.statistics.resampling import (
    LEAST_P,
    ROUNDING,
    Values,
    interval,
    n_deciding,
    reason_against,
    resample_ratios,
    seed_of,
    sign_flip_p,
    sums_by_subject,
)

N_RESAMPLES = 10_000
N_OF_PROMPTS = 1_000
_KEY = ("dataset", "prompt", "comparison", "model_a", "method_a", "model_b", "method_b")
_COUNTS = ("n", "n_subjects", "n_a_only", "n_b_only")
_METHOD_ROWS = pa.schema([
    *((name, pa.string()) for name in _KEY),
    *((name, pa.int64()) for name in _COUNTS),
    *((name, pa.float64()) for name in ("p_value", "p_mcnemar")),
    ("n_resamples", pa.int32()),
    *((name, pa.float64()) for name in ("difference_low", "difference_high")),
    ("no_interval", pa.string()),
])  # fmt: skip
METHODS_QUERY = (
    f"select {', '.join((*_KEY, *_COUNTS))}, subjects "  # noqa: S608
    "from int_method_comparisons where n > 0 order by all"
)


def compare_methods(pairs: pa.Table, seed: int) -> pa.Table:
    """The rows of int_method_tests. `pairs`: the counts of each pair, as `METHODS_QUERY` reads them."""
    return pa.Table.from_pylist(list(_compare(pairs.to_pylist(), seed)), schema=_METHOD_ROWS)


def _compare(rows: list[dict[str, Any]], seed: int) -> Iterator[dict[str, Any]]:
    for row in rows:
        seed_of_pair = seed_of(seed, (row[name] for name in _KEY))
        kinds = kinds_of_subjects(row["subjects"])
        low, high, reason = difference_interval(kinds, seed_of_pair)
        by_difference = np.unique(kinds[:, 0], return_inverse=True)
        n_subjects = np.bincount(by_difference[1], kinds[:, 2]).astype(int)
        (p_value,) = sign_flip_p(by_difference[0][:, None].astype(float), seed_of_pair, n_subjects)
        yield {
            **{name: row[name] for name in (*_KEY, *_COUNTS)}, "p_value": float(p_value),
            "p_mcnemar": mcnemar_exact(row["n_a_only"], row["n_b_only"]), "n_resamples": N_RESAMPLES,
            "difference_low": low, "difference_high": high, "no_interval": reason,
        }  # fmt: skip


def mcnemar_exact(a_only: int, b_only: int) -> float:
    """Two-sided p of McNemar's exact test: how likely `a_only` + `b_only` fair coins split at least as unevenly.

    It is twice the lower tail of the binomial distribution, at most 1, and 1 without discordant questions. The sum
    starts at the greatest term and is a multiple of it, so that neither thousands of questions nor tiny p lose digits.
    It takes questions as independent, and is at least `LEAST_P`.
    """
    n, fewer = a_only + b_only, min(a_only, b_only)
    log_term = math.lgamma(n + 1) - math.lgamma(fewer + 1) - math.lgamma(n - fewer + 1) - n * math.log(2)
    below = np.arange(fewer, 0, -1, dtype=float)
    ratios = np.cumprod(below / (n - below + 1))
    return min(1.0, max(LEAST_P, 2 * math.exp(log_term) * (1 + math.fsum(ratios.tolist()))))


def kinds_of_subjects(rows: Sequence[Mapping[str, int]]) -> Values:
    """Kinds × 3: by how many of a subject's questions the first side is better, how many they are, how many subjects."""
    return np.array([[row[name] for name in ("difference", "n_questions", "n_subjects")] for row in rows])


def difference_interval(
    kinds: Values, seed: int, n_resamples: int = N_RESAMPLES
) -> tuple[float | None, float | None, str | None]:
    """2.5th and 97.5th percentile of accuracy_a minus accuracy_b over resamples of subjects, or why there are none."""
    difference, n, n_subjects = kinds.T
    k = n_subjects.sum()
    drawn = np.random.default_rng(seed).multinomial(k, n_subjects / k, size=n_resamples)
    deviations = difference - n * (n_subjects @ difference) / (n_subjects @ n)
    decide = n_deciding(np.repeat(deviations, n_subjects))
    return interval(drawn @ difference / (drawn @ n), reason_against(int(k)), float(decide))


_TEXT_KEY = ("dataset", "model", "method", "grounding_prompt", "compared_with")
_RATIOS = {"quip_ratio": "quip", "same_length_ratio": "same_length_quip"}
_DIFFERENCES = {
    "quip_difference": "quip",
    "same_length_difference": "same_length_quip",
    "score_difference": "score",
}
_MEASURES = (*_RATIOS, *_DIFFERENCES)
_COMPARED = tuple(_DIFFERENCES.values())
_LISTS = ("cluster_id", *_COMPARED, *(f"base_{one}" for one in _COMPARED))
_PROMPT_ROWS = pa.schema([
    *((name, pa.string()) for name in (*_TEXT_KEY, "measure")),
    *((name, pa.int64()) for name in ("n_paired", "n_subjects")),
    ("n_resamples", pa.int32()),
    *((name, pa.float64()) for name in ("value_low", "value_high", "p_value")),
    ("no_interval", pa.string()),
])  # fmt: skip
PROMPTS_QUERY = (
    f"select {', '.join(_TEXT_KEY)}, {', '.join(f'list({one} order by question_id) as {one}' for one in _LISTS)} "  # noqa: S608
    "from int_grounding_pairs inner join (select dataset, question_id, cluster_id from "
    "int_questions) using (dataset, question_id) group by all order by all"
)


def compare_prompts(comparisons: pa.Table, seed: int) -> pa.Table:
    """The rows of int_grounding_intervals. `comparisons`: with lists of questions, as `PROMPTS_QUERY` reads them."""
    rows: list[dict[str, Any]] = []
    for dataset, groups in itertools.groupby(comparisons.to_pylist(), key=lambda group: group["dataset"]):
        rows += _of_dataset(list(groups), seed_of(seed, ["grounding_intervals", dataset]))
    return pa.Table.from_pylist(rows, schema=_PROMPT_ROWS)


def _of_dataset(groups: Sequence[Mapping[str, Any]], seed: int) -> Iterator[dict[str, Any]]:
    above, below, n_paired = _sums(groups)
    ratios = resample_ratios(above, below, seed, N_OF_PROMPTS)
    p_values = sign_flip_p(above, seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        decide = n_deciding(above - below * (above.sum(axis=0) / below.sum(axis=0)))
    for place, (group, measure) in enumerate(itertools.product(groups, _MEASURES)):
        n_subjects = int((n_paired[:, place] > 0).sum())
        n_different = (
            int((np.abs(above[:, place]) > ROUNDING).sum()) if measure in _DIFFERENCES else n_subjects
        )
        reason = reason_against(n_subjects) or reason_against(n_different)
        low, high, reason = interval(ratios[:, place], reason, decide[place])
        is_tested = n_subjects and measure in _DIFFERENCES
        yield {
            **{name: group[name] for name in _TEXT_KEY}, "measure": measure, "n_paired": int(n_paired[:, place].sum()),
            "n_subjects": n_subjects, "n_resamples": N_OF_PROMPTS, "value_low": low, "value_high": high,
            "p_value": float(p_values[place]) if is_tested else None, "no_interval": reason,
        }  # fmt: skip


def _sums(groups: Sequence[Mapping[str, Any]]) -> tuple[Values, Values, Values]:
    """Sums above and below the line, and numbers of questions with both scores: subjects × measures of all groups."""
    places = {
        name: i for i, name in enumerate(sorted({name for group in groups for name in group["cluster_id"]}))
    }
    sums = np.zeros((3, len(places), len(groups), len(_MEASURES)))
    for number, group in enumerate(groups):
        subject = np.array([places[name] for name in group["cluster_id"]])
        scores = {name: np.array(group[name], dtype=float) for name in _LISTS[1:]}
        ratios = [(scores[name], scores[f"base_{name}"]) for name in _RATIOS.values()]
        differences = [(scores[name] - scores[f"base_{name}"], np.ones(len(subject))) for name in _COMPARED]
        both = np.array([*ratios, *differences]).transpose(1, 2, 0)
        has_both = ~np.isnan(both[0])
        sums[:, np.unique(subject), number] = [
            sums_by_subject(name, subject) for name in (*np.where(has_both, both, 0), has_both)
        ]
    above, below, n_paired = sums.reshape(3, len(places), -1)
    return above, below, n_paired
