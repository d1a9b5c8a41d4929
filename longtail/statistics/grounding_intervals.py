"""Does a model quote more when it is asked to, or with a passage in front? Compared question by question.

Every grounding prompt is compared with the null prompt, and every method with a passage with the one without. All
measures are ratios of sums over questions: both texts' QUIP over questions where both are defined, and the sum of
differences over the number of questions. All models, methods and prompts share the draws of a dataset's subjects.

The test asks how often the mean difference would be as large if the names of the two texts were exchanged at random
for each subject: a change of the sign of all its differences. It assumes no distribution.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from longtail.progress import Progress
from longtail.statistics.resampling import (
    ROUNDING,
    Values,
    interval,
    n_deciding,
    reason_against,
    resampled_ratios,
    seed_of,
    sign_flip_p,
    sums_by_subject,
)
from longtail.statistics.statistic import Statistic

N_RESAMPLES = 1_000
_TABLE = "grounding_intervals"
_KEY = ("dataset", "model", "method", "grounding_prompt", "compared_with")
_RATIOS = {"quip_ratio": "quip", "same_length_ratio": "same_length_quip"}
_DIFFERENCES = {
    "quip_difference": "quip",
    "same_length_difference": "same_length_quip",
    "score_difference": "score",
}
MEASURES = (*_RATIOS, *_DIFFERENCES)
_COMPARED = tuple(_DIFFERENCES.values())
_LISTS = ("cluster_id", *_COMPARED, *(f"base_{one}" for one in _COMPARED))
_QUERY = (
    f"select {', '.join(_KEY)}, {', '.join(f'list({one} order by question_id) as {one}' for one in _LISTS)} "  # noqa: S608
    "from intermediate.int_grounding_pairs inner join (select dataset, question_id, cluster_id from "
    "intermediate.int_questions) using (dataset, question_id) group by all order by all"
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
    above, below, n_paired = _sums(groups)
    ratios = resampled_ratios(above, below, seed, N_RESAMPLES)
    p_values = sign_flip_p(above, seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        decide = n_deciding(above - below * (above.sum(axis=0) / below.sum(axis=0)))
    for place, (group, measure) in enumerate(itertools.product(groups, MEASURES)):
        n_subjects = int((n_paired[:, place] > 0).sum())
        n_different = (
            int((np.abs(above[:, place]) > ROUNDING).sum()) if measure in _DIFFERENCES else n_subjects
        )
        reason = reason_against(n_subjects) or reason_against(n_different)
        low, high, reason = interval(ratios[:, place], reason, decide[place])
        is_tested = n_subjects and measure in _DIFFERENCES
        yield {
            **{name: group[name] for name in _KEY}, "measure": measure, "n_paired": int(n_paired[:, place].sum()),
            "n_subjects": n_subjects, "n_resamples": N_RESAMPLES, "value_low": low, "value_high": high,
            "p_value": float(p_values[place]) if is_tested else None, "no_interval": reason,
        }  # fmt: skip


def _sums(groups: Sequence[Row]) -> tuple[Values, Values, Values]:
    """Sums above and below the line, and numbers of questions with both scores: subjects × measures of all groups."""
    places = {
        one: i for i, one in enumerate(sorted({one for group in groups for one in group["cluster_id"]}))
    }
    sums = np.zeros((3, len(places), len(groups), len(MEASURES)))
    for number, group in enumerate(groups):
        subject = np.array([places[one] for one in group["cluster_id"]])
        own = {name: np.array(group[name], dtype=float) for name in _LISTS[1:]}
        ratios = [(own[one], own[f"base_{one}"]) for one in _RATIOS.values()]
        differences = [(own[one] - own[f"base_{one}"], np.ones(len(subject))) for one in _COMPARED]
        both = np.array([*ratios, *differences]).transpose(1, 2, 0)
        has_both = ~np.isnan(both[0])
        sums[:, np.unique(subject), number] = [
            sums_by_subject(one, subject) for one in (*np.where(has_both, both, 0), has_both)
        ]
    above, below, n_paired = sums.reshape(3, len(places), -1)
    return above, below, n_paired


GROUNDING_INTERVALS = Statistic(
    "grounding_intervals",
    tables=(_TABLE,),
    models=("int_grounding_pairs", "int_questions"),
    queries=(_QUERY,),
    compute=compare_prompts,
)
