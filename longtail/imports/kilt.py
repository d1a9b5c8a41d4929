"""Questions with ids and answers as JSON objects: a list of them, or one a line, as KILT publishes all its datasets.

KILT: {"id": …, "input": question, "output": [{"answer": …, "provenance": …}, …]}. An output without an answer is
provenance alone, and is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longtail.imports.dataset import ImportedDataset
from longtail.imports.records import RejectedRows
from longtail.imports.table import Reading, questions_of
from longtail.imports.table_rows import Row, Rows, numbered_objects

_KILT = {"id": "id", "question": "input", "answers": "output"}


def read_objects(
    path: Path, dataset_name: str, own: Mapping[str, str], longest_answer: int
) -> ImportedDataset:
    """The questions of a file in KILT's form, or in that of `own`: meaning → the object's key, for id, question, answers.

    Errors: `SourceError` where the file is neither, or has no question that can be used.
    """
    rejected = RejectedRows(path.name)
    objects = list(numbered_objects(path, rejected))
    keys = _KILT if any(_KILT["question"] in one for _, one in objects) else own
    rows = (Row(number, _values(one, keys), keys) for number, one in objects)
    return questions_of(path, Rows(keys, rows), rejected, Reading(dataset_name, None, "", longest_answer))


def _values(one: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    answers = one.get(keys["answers"])
    if isinstance(answers, Mapping):  # ELI5's own form has the texts of answers beside their ids and votes
        answers = answers.get("text")
    listed = answers if isinstance(answers, list) else [answers]
    golds = [gold.get("answer") if isinstance(gold, Mapping) else gold for gold in listed]
    return {"id": one.get(keys["id"]), "question": one.get(keys["question"]), "answers": golds}
