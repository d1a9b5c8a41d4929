"""Answers that others generated, as their files hold them: what all result formats share.

What belongs here: the shape of a row, and values as such files write them. What does not: the formats
(`adaptive_retrieval`, `lm_eval`, `formats.answers.table`, `inspect`), and scoring (`answers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dagster_project.core.errors import SourceError
from dagster_project.core.scoring.confidence import Confidence
from dagster_project.core.storage.lake import Lake
from dagster_project.core.study.study import Study

_TRUTHS = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}
_MISSING = frozenset({"", "nan", "none", "null"})


@dataclass(frozen=True)
class ImportedAnswer:
    """One row: the text that a model wrote for a question, and what the file says about it. None = it does not say.

    `shots` is the number of demonstrations, `prompt` the name of a prompt of the study, `grounding_prompt` that of a
    grounding prompt: the text is then an answer and its explanation, or a long answer. `passage` identifies a retrieved
    passage in the file's own terms, `background` is the text of a generated one. Only the SHA-256 of a prompt is kept,
    because prompts with passages before 15 demonstrations are long. `place` is file and row, for people.
    `unread` names what the file says, but not so that it can be read.
    """

    question_id: str
    method: str
    text: str
    place: str
    shots: int | None = None
    prompt_hash: str | None = None
    is_correct: bool | None = None
    has_answer: bool | None = None
    passage: str | None = None
    background: str | None = None
    quantisation: str = "none"
    made_by: str = ""
    prompt: str | None = None
    grounding_prompt: str | None = None
    prompt_tokens: int | None = None
    new_tokens: int | None = None
    latency_ms: float | None = None
    confidence: Confidence | None = None
    unread: tuple[str, ...] = ()


Questions = Mapping[str, Mapping[str, Any]]
"""Question id → its row of lake table questions, of the dataset that the results are of."""


def truth(value: object) -> bool | None:
    """True or false as files write it; None if it is missing. Errors: `ValueError` if it is neither."""
    text = str("" if value is None else value).strip().lower()
    if text in _MISSING:
        return None
    if text not in _TRUTHS:
        raise ValueError(f"true or false was expected, not {text[:40]!r}")
    return _TRUTHS[text]


def given(value: str) -> str | None:
    """The text, or None if the file leaves it out."""
    return None if value.strip().lower() in _MISSING else value


def only_log(place: Path, *patterns: str) -> Path:
    """The file at `place`, or the only log of that folder. Errors: `SourceError` if a folder has none or several."""
    if place.is_file():
        return place
    logs = sorted({log for pattern in patterns for log in place.glob(pattern)})
    if len(logs) != 1:
        there = f"holds {len(logs)}: {', '.join(log.name for log in logs[:5])}" if logs else "holds none"
        raise SourceError(
            f"{place}: one {' or '.join(patterns)} was expected, the folder {there}; name the file by path"
        )
    return logs[0]


def only_one(path: Path, key: str, wanted: Any, there: Iterable[Any]) -> Any:
    """What key `key` of results chooses among several in a log, or the only one; None where there is none.

    Errors: `SourceError` where it chooses none of several, or one that is not there.
    """
    found = sorted(set(there))
    shown = ", ".join(map(str, found)) or "none"
    if wanted is None and len(found) > 1:
        raise SourceError(f"{path}: holds several {key}s: {shown}; choose one by key {key} of results")
    if wanted is not None and wanted not in found:
        raise SourceError(f"{path}: has no {key} {wanted!r}; there are: {shown}")
    return next(iter(found), None) if wanted is None else wanted


def questions_by_dataset(study: Study, lake: Lake) -> dict[str, dict[str, dict[str, Any]]]:
    """Dataset → question_id → question, of all the study's datasets. Errors: `LakeError`."""
    found: dict[str, dict[str, dict[str, Any]]] = {dataset.name: {} for dataset in study.datasets}
    columns = ["dataset", "question_id", "subject_id", "question", "gold_answers"]
    for row in lake.read("questions", columns=columns).to_pylist():
        found.setdefault(row["dataset"], {})[row["question_id"]] = row
    return found
