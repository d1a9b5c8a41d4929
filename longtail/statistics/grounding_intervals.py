"""Does a model quote more when it is asked to, or with a passage in front? Compared question by question.

Every grounding prompt is compared with the null prompt, and every method with a passage with the one without. All
measures are ratios of sums over questions: both texts' QUIP over questions where both are defined, and the sum of
differences over the number of questions. All models, methods and prompts share the draws of a dataset's subjects.

The test asks how often the mean difference would be as large if the names of the two texts were exchanged at random
for each subject: a change of the sign of all its differences. It assumes no distribution.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from longtail.statistics.resampling import (
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

N_RESAMPLES = 1_000
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
SCHEMA = pa.schema([
    *((name, pa.string()) for name in (*_KEY, "measure")),
    *((name, pa.int64()) for name in ("n_paired", "n_subjects")),
    ("n_resamples", pa.int32()),
    *((name, pa.float64()) for name in ("value_low", "value_high", "p_value")),
    ("no_interval", pa.string()),
])  # fmt: skip
QUERY = (
    f"select {', '.join(_KEY)}, {', '.join(f'list({one} order by question_id) as {one}' for one in _LISTS)} "  # noqa: S608
    "from int_grounding_pairs inner join (select dataset, question_id, cluster_id from "
    "int_questions) using (dataset, question_id) group by all order by all"
)

Row = Mapping[str, Any]


def compare_prompts(comparisons: pa.Table, seed: int) -> pa.Table:
    """The rows of int_grounding_intervals. `comparisons`: each with lists of its questions, as `QUERY` reads them."""
    rows: list[dict[str, Any]] = []
    for dataset, groups in itertools.groupby(comparisons.to_pylist(), key=lambda group: group["dataset"]):
        rows += _of_dataset(list(groups), seed_of(seed, ["grounding_intervals", dataset]))
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _of_dataset(groups: Sequence[Row], seed: int) -> Iterator[dict[str, Any]]:
    above, below, n_paired = _sums(groups)
    ratios = resample_ratios(above, below, seed, N_RESAMPLES)
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
        name: i for i, name in enumerate(sorted({name for group in groups for name in group["cluster_id"]}))
    }
    sums = np.zeros((3, len(places), len(groups), len(MEASURES)))
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
