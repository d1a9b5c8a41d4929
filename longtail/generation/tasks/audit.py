"""Whether the answers in the lake are whole."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from longtail.generation.tasks.answers import Answers
from longtail.storage.lake import Lake

_QUESTION = ["dataset", "question_id"]
_TABLE = Answers.table
_KEYS = list(Answers.keys)


def count_faults(lake: Lake, run_id: str) -> tuple[int, int]:
    """Doubled rows of all answers, and rows that run `run_id` wrote for questions that are not in the lake.

    A damaged partition is left to the stage that makes it again: the run may be another model's.
    """
    asked = lake.read("questions", columns=_QUESTION)
    n_doubled, n_unknown = 0, 0
    for partition in filter(lambda one: lake.stamp(_TABLE, one), lake.partitions(_TABLE)):
        rows = lake.read(_TABLE, partition, [*_KEYS, "run_id"])
        n_doubled += rows.num_rows - _distinct(rows, _KEYS).num_rows
        ours = rows.filter(pc.equal(rows["run_id"], run_id))
        n_unknown += ours.join(asked, _QUESTION, join_type="left anti").num_rows
    return n_doubled, n_unknown


def _distinct(rows: pa.Table, keys: list[str]) -> pa.Table:
    return rows.group_by(keys).aggregate([])
