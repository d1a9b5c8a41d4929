"""Thresholds of adaptive retrieval in the style of a notebook: loops over splits, relations and candidates, in pandas.

They are found by brute force, as PopQA's section 6.1 says, and check ours.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable

import pandas as pd

Found = dict[tuple[int, str], float]


def thresholds(
    questions: pd.DataFrame, edges: dict[str, list[float]], splits: Iterable[int], search: str
) -> Found:
    """The best threshold by (split, relation), and by (split, all): the smallest of several equally good ones.

    `questions`: question_id, relation, popularity, parametric, retrieval (right or not). `edges`: the candidates of
    search binned10 by relation and for all; search exact tries every popularity of the training questions.
    """
    found: Found = {}
    for split in splits:
        order = questions.question_id.map(lambda id_: hashlib.md5(f"{split}:{id_}".encode()).hexdigest())  # noqa: B023, S324
        train = questions.loc[order.sort_values().index[: math.floor(0.75 * len(questions) + 0.5)]]
        for relation in train.relation.unique():
            rows = train[train.relation == relation]
            found[split, relation] = _best(rows, edges[relation], search)
        found[split, "all"] = _best(train, edges["all"], search)
    return found


def _best(rows: pd.DataFrame, edges: list[float], search: str) -> float:
    candidates = edges if search == "binned10" else [*sorted(rows.popularity.unique()), math.inf]
    best, most = candidates[0], -1
    for threshold in candidates:
        right = (
            rows[rows.popularity < threshold].retrieval.sum()
            + rows[rows.popularity >= threshold].parametric.sum()
        )
        if right > most:
            best, most = threshold, right
    return best
