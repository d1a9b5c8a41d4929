"""By how much the gain of adaptive retrieval changes if no subject is on both sides of a split.

What belongs here: the held-out gains of a home's warehouse, over splits by question (as published) and by subject.
What does not: the published gains, which are dbt models.

A split by subject orders the subjects by the md5 of `split:subject_id` and trains on whole subjects, in this order, while
they have fewer than 75 % of the questions. A question without a subject is a subject of its own.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from benchmarks.harness import last_line, table
from dagster_project.core.statistics.adaptive_thresholds import NO_RELATION, Fitted, PairRows, fit_pair

N_SPLITS = 100
_ROWS = """
select rows.pair_id, rows.dataset, rows.question_id, coalesce(rows.relation, '') as relation, rows.popularity,
    rows.parametric, rows.retrieval
from intermediate.int_adaptive_rows as rows order by all
"""
_QUESTIONS = """
select dataset, question_id, coalesce(nullif(subject_id, ''), question_id) as subject_id
from intermediate.int_questions where subject_popularity is not null order by all
"""
_PAIRS = "select * from intermediate.int_method_pairs order by pair_id"

Values = npt.NDArray[Any]


def training(keys: Values, split: int) -> Values:
    """Whether each question is in training, from its key: its own id, or its subject's."""
    names, group, counts = np.unique(keys, return_inverse=True, return_counts=True)
    digests = [hashlib.md5(f"{split}:{name}".encode(), usedforsecurity=False).hexdigest() for name in names]
    order = np.lexsort((names, np.array(digests)))
    before = np.cumsum(counts[order]) - counts[order]
    taken = np.empty(len(names), dtype=bool)
    taken[order] = before < np.floor(0.75 * len(keys) + 0.5)
    return np.asarray(taken[group])


def held_out_gains(pair: PairRows) -> dict[str, Values]:
    """By threshold scope (search exact): the gain of each split over the better fixed method of its training."""
    fitted = {found.relation: found for found in fit_pair(pair) if found.search == "exact"}
    overall, is_test = fitted["all"], ~pair.training
    difference = (pair.retrieval - pair.parametric).astype(int)
    fixed = (overall.n_retrieval > overall.n_parametric)[:, None]
    found = {}
    for scope in ("all", "per_relation"):
        limits = np.tile(overall.threshold[:, None], len(difference))
        for name in set(pair.relation) - {NO_RELATION} if scope == "per_relation" else ():
            limits[:, pair.relation == name] = _own(fitted[name], overall)[:, None]
        departs = (pair.popularity < limits).astype(int) - fixed
        found[scope] = (departs * difference * is_test).sum(axis=1) / is_test.sum(axis=1)
    return found


def _own(fitted: Fitted, overall: Fitted) -> Values:
    return np.where(fitted.n > 0, fitted.threshold, overall.threshold)


def compared(connection: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    """A row per pair and scope: share of test questions with a subject in training, and the mean gain by both splits."""
    rows, questions, pairs = (connection.sql(query).df() for query in (_ROWS, _QUESTIONS, _PAIRS))
    found = []
    for pair in pairs.itertuples():
        asked = questions[questions.dataset == pair.dataset].reset_index(drop=True)
        mine = rows[rows.pair_id == pair.pair_id]
        at = asked.reset_index().set_index("question_id")["index"].loc[mine.question_id].to_numpy()
        relation, *others = (
            mine[name].to_numpy() for name in ("relation", "popularity", "parametric", "retrieval")
        )
        edges = {name: np.array([np.inf]) for name in {"all", *relation}}
        gains, subjects = {}, asked.subject_id.to_numpy()
        for by, keys in (("question", asked.question_id.to_numpy()), ("subject", subjects)):
            chosen = np.array([training(keys, split) for split in range(N_SPLITS)])[:, at]
            gains[by] = held_out_gains(PairRows(relation, others[0], others[1], others[2], chosen, edges))
            if by == "question":
                shared = [np.isin(subjects[at][~is_in], subjects[at][is_in]).mean() for is_in in chosen]
        for scope in gains["question"]:
            means = [float(gains[by][scope].mean()) for by in ("question", "subject")]
            named = (pair.dataset, pair.model, pair.retrieval_method, scope, len(mine))
            found.append((*named, float(np.mean(shared)), *means))
    return found


def main() -> None:
    """Print a table for people and, as the last line, JSON for machines."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.subject_splits", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("warehouse", type=Path, help="build/warehouse.duckdb of a finished home")
    with duckdb.connect(str(parser.parse_args().warehouse), read_only=True) as connection:
        found = compared(connection)
    table(
        "Held-out gain over the fixed method of the training (search exact)",
        ("dataset", "model", "retrieval", "scope", "n", "subject in training", "by question", "by subject", "change"),
        [
            (*row[:4], f"{row[4]:,}", f"{row[5]:.1%}", f"{row[6]:+.2%}", f"{row[7]:+.2%}", f"{row[7] - row[6]:+.2%}")
            for row in found
        ],
    )  # fmt: skip
    last_line({"largest_change": max((abs(row[7] - row[6]) for row in found), default=0.0), "n": len(found)})


if __name__ == "__main__":
    main()
