"""Does a model quote more when it is asked to, or with a passage in front? Compared question by question.

Every grounding prompt is compared with the null prompt, and every method with a passage with the one without. All
measures are ratios of sums over questions: both texts' QUIP over questions where both are defined, and the sum of
differences over the number of questions. All models, methods and prompts share the draws of a dataset's questions.

The test asks how often the mean difference would be as large if the names of the two texts were exchanged at random
for each question: a change of the difference's sign. It assumes no distribution.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dagster_project.core.progress import Progress
from dagster_project.core.statistics.resampling import Values, percentiles, resampled_ratios, seed_of
from dagster_project.core.statistics.statistic import Statistic

N_RESAMPLES = 1_000
N_SIGNS = 10_000
FEWEST = 5
"""With fewer questions there is neither interval nor test."""
_TABLE = "grounding_intervals"
_CHUNK = 4_000_000
"""Signs that are drawn at once."""
_KEY = ("dataset", "model", "method", "grounding_prompt", "compared_with")
_RATIOS = {"quip_ratio": "quip", "same_length_ratio": "same_length_quip"}
_DIFFERENCES = {
    "quip_difference": "quip",
    "same_length_difference": "same_length_quip",
    "score_difference": "score",
}
MEASURES = (*_RATIOS, *_DIFFERENCES)
_COMPARED = tuple(_DIFFERENCES.values())
_LISTS = ("question_id", *_COMPARED, *(f"base_{one}" for one in _COMPARED))
_QUERY = (
    f"select {', '.join(_KEY)}, {', '.join(f'list({one} order by question_id) as {one}' for one in _LISTS)} "  # noqa: S608
    "from intermediate.int_grounding_pairs group by all order by all"
)

Row = Mapping[str, Any]


def compare_prompts(
    tables: Sequence[pa.Table], seed: int, log: logging.Logger
) -> dict[str, list[dict[str, Any]]]:
    """The rows of lake table grounding_intervals. `tables`: each comparison, with lists of its questions."""
    groups = tables[0].to_pylist()
    found: list[dict[str, Any]] = []
    with Progress(log, "bootstrap of grounding prompts: comparisons", len(groups)) as progress:
        for dataset, own in itertools.groupby(groups, key=lambda group: group["dataset"]):
            together = list(own)
            found += _of_dataset(together, seed_of(seed, [_TABLE, dataset]))
            progress.add(len(together))
    return {_TABLE: found}


def _of_dataset(groups: Sequence[Row], seed: int) -> Iterator[dict[str, Any]]:
    numerators, denominators, has_both = _sums(groups)
    ratios = resampled_ratios(numerators, denominators, seed, N_RESAMPLES)
    p_values = sign_flip_p(numerators, seed)
    for place, (group, measure) in enumerate(itertools.product(groups, MEASURES)):
        n = int(has_both[:, place].sum())
        ends = percentiles(ratios[:, place]) if n >= FEWEST else None
        reason = "fewer than five questions" if n < FEWEST else "too few resamples with a value"
        yield {
            **{name: group[name] for name in _KEY}, "measure": measure, "n_paired": n, "n_resamples": N_RESAMPLES,
            "value_low": ends[0] if ends else None, "value_high": ends[1] if ends else None,
            "p_value": float(p_values[place]) if n >= FEWEST and measure in _DIFFERENCES else None,
            "undefined": None if ends else reason,
        }  # fmt: skip


def _sums(groups: Sequence[Row]) -> tuple[Values, Values, Values]:
    """Above and below the line, and whether a question has both scores: questions × (groups and their measures)."""
    places = {
        one: i for i, one in enumerate(sorted({one for group in groups for one in group["question_id"]}))
    }
    above, below = np.full((2, len(places), len(groups), len(MEASURES)), np.nan)
    for number, group in enumerate(groups):
        rows = [places[one] for one in group["question_id"]]
        own = {name: np.array(group[name], dtype=float) for name in _LISTS[1:]}
        ratios = [(own[one], own[f"base_{one}"]) for one in _RATIOS.values()]
        differences = [(own[one] - own[f"base_{one}"], np.ones(len(rows))) for one in _COMPARED]
        above[rows, number], below[rows, number] = np.array([*ratios, *differences]).transpose(1, 2, 0)
    flat = above.reshape(len(places), -1), below.reshape(len(places), -1)
    has_both = ~np.isnan(flat[0])
    numerators, denominators = (np.where(has_both, one, 0) for one in flat)
    return numerators, denominators, has_both


def sign_flip_p(differences: Values, seed: int, n_signs: int = N_SIGNS) -> Values:
    """Two-sided p of each column's sum, if every row's sign were random: questions × measures to measures.

    The observed signs count as one of the draws, so p is never 0. All columns share the signs of a row.
    """
    rng = np.random.default_rng(seed)
    observed = np.abs(differences.sum(axis=0)) * (1 - 1e-9)  # the same sum in another order is as large
    at_once = max(1, _CHUNK // len(differences))
    n_as_large = np.ones(differences.shape[1])
    for start in range(0, n_signs, at_once):
        size = min(at_once, n_signs - start), len(differences)
        signs = rng.integers(0, 2, size, np.int8).astype(float) * 2 - 1
        n_as_large += (np.abs(signs @ differences) >= observed).sum(axis=0)
    return n_as_large / (n_signs + 1)


GROUNDING_INTERVALS = Statistic(
    "grounding_intervals",
    tables=(_TABLE,),
    models=("int_grounding_pairs",),
    queries=(_QUERY,),
    compute=compare_prompts,
)
