"""What is said of answers as soon as they are in the lake: whether they are whole, and how many are right."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pyarrow.compute as pc

from longtail.generation.tasks.answers import Answers
from longtail.scoring.intervals import share_interval
from longtail.storage.lake import Lake, Outcome

_QUESTION = ["dataset", "question_id"]
_TABLE = Answers.table
_KEYS = list(Answers.keys)
_COLUMNS = ["dataset", "prompt", "question_id", "is_correct", "prediction"]
_MANY_EMPTY = 0.2


def count_faults(lake: Lake, run_id: str) -> tuple[int, int]:
    """Doubled rows of all answers, and rows that run `run_id` wrote for questions that are not in the lake.

    A damaged partition is left to the stage that makes it again: the run may be another model's.
    """
    asked = lake.read("questions", columns=_QUESTION)
    n_doubled, n_unknown = 0, 0
    for partition in filter(lambda name: lake.stamp(_TABLE, name), lake.partitions(_TABLE)):
        rows = lake.read(_TABLE, partition, [*_KEYS, "run_id"])
        n_doubled += rows.num_rows - rows.group_by(_KEYS).aggregate([]).num_rows
        ours = rows.filter(pc.equal(rows["run_id"], run_id))
        n_unknown += ours.join(asked, _QUESTION, join_type="left anti").num_rows
    return n_doubled, n_unknown


def tell_accuracy(lake: Lake, outcome: Outcome, log: logging.Logger) -> list[dict[str, Any]]:
    """The accuracy of each dataset and prompt of answers, with its interval; none for other tables.

    A line of the log tells each that was written just now, and another one if many predictions are empty.
    """
    if outcome.table != _TABLE:
        return []
    rows = lake.read(_TABLE, outcome.partition, _COLUMNS)
    rows = rows.append_column("is_empty", pc.equal(pc.utf8_trim_whitespace(rows["prediction"]), ""))
    subjects = {
        (row["dataset"], row["question_id"]): row["subject_id"] or f"question {row['question_id']}"
        for row in lake.read("questions", columns=["dataset", "question_id", "subject_id"]).to_pylist()
    }
    counted = rows.group_by(["dataset", "prompt"]).aggregate(
        [("is_correct", "list"), ("question_id", "list"), ("is_empty", "sum")]
    )
    groups = sorted(zip(*(counted[name].to_pylist() for name in counted.column_names), strict=True))
    several = len({dataset for dataset, *_ in groups}) > 1
    accuracies = []
    for dataset, prompt, correct, question_ids, n_empty in groups:
        n, share = len(correct), float(np.mean(correct))
        ends = share_interval(
            correct,
            [subjects.get((dataset, question_id), f"question {question_id}") for question_id in question_ids],
        )
        names = {"partition": outcome.partition, "dataset": dataset, "prompt": prompt}
        low, high = ends or (None, None)
        accuracies.append({**names, "accuracy": share, "low": low, "high": high, "n": n})
        if not outcome.was_current:
            shown = [*outcome.partition.split("|"), prompt, *([dataset] if several else [])]
            name = " · ".join(shown)
            log.info(
                "%s: accuracy %.1f %%%s of n = %s (provisional; the mart decides)",
                name, 100 * share, f" [{100 * ends[0]:.1f}, {100 * ends[1]:.1f}]" if ends else "", f"{n:,}",
            )  # fmt: skip
            if n_empty > _MANY_EMPTY * n:
                log.warning(
                    "%s: %s of %s predictions are empty; often the model begins with a line break: key shots of "
                    "the prompt shows it how an answer looks, key format asks in other words (docs/study_file.md)",
                    name, f"{n_empty:,}", f"{n:,}",
                )  # fmt: skip
    return accuracies
