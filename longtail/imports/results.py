"""Answers that others generated, as their files hold them: what all result formats share.

Logs of multiple-choice tasks hold the letter or the likelihood of each choice, where an answer is a text. How sure a
model was comes from lists of its tokens' numbers, or from numbers of the answer (SPEC §11).
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longtail.errors import SourceError
from longtail.imports.column_names import list_names, structure_of
from longtail.imports.table_rows import NULLS, Row, is_missing
from longtail.scoring.match import score_answer
from longtail.scoring.model_answer import (
    Confidence,
    NoAnswerError,
    confidence_of,
    is_message,
    read_answer_text,
)
from longtail.storage.lake import Lake
from longtail.study.study import Study

VERDICTS = {"C": True, "I": False, "N": False, "YES": True, "TRUE": True, "NO": False, "FALSE": False}
"""Inspect's grades (correct, incorrect, no answer), and texts that say as much."""
_NEITHER = ("P", "IMPROPER")


@dataclass(frozen=True)
class ImportedAnswer:
    """One request: the text that a model wrote for a question, and what the file says about it. None = it does not say.

    `shots` is the number of demonstrations, `prompt` the name of a prompt of the study, `grounding_prompt` that of a
    grounding prompt: the text is then an answer and its explanation, or a long answer. `passage` identifies a retrieved
    passage in the file's own terms, `background` is the text of a generated one. Only the SHA-256 of a prompt is kept,
    because prompts with passages before 15 demonstrations are long. `place` is file and row, for people.
    `failure` says why there is no answer; the text is then empty. `unread`: column → what is wrong with its value, which
    is then not known.
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
    reasoning_tokens: int | None = None
    confidence: Confidence | None = None
    is_declined: bool | None = None
    failure: str | None = None
    unread: Mapping[str, str] = field(default_factory=dict)


Questions = Mapping[str, Mapping[str, Any]]
"""Question id → its row of lake table questions, of the dataset that the results are of."""


def answer_of(text: object, **fields: str | None) -> dict[str, Any]:
    """The fields of an `ImportedAnswer` that one rule decides for all files (SPEC §12): text, is_declined, failure.

    `fields`: as of `read_answer_text`. Errors: `ValueError` where `text` is no text.
    """
    try:
        answer = read_answer_text(text, **fields)
    except NoAnswerError as none:
        return {"text": "", "failure": str(none)}
    return {"text": answer.text, "is_declined": answer.is_declined or None}


def only(value: object) -> Any:
    """What a list of one value holds; any other value as it is. A path through a list of objects gives such lists."""
    while isinstance(value, list) and len(value) == 1 and not isinstance(value[0], Mapping):
        value = value[0]
    return value


def text_of_field(field_: str) -> object:
    """What a field of a CSV or TSV holds, which knows no null and no lists: None where it is missing, and a list of
    one text or a message where it is one as JSON or Python writes it."""
    text = field_.strip()
    if text in NULLS:  # `none` and `n/a` may be what a model said
        return None
    try:
        listed = structure_of(text) if text.startswith(("[", "{")) else None
    except ValueError:
        return field_
    is_one = (
        isinstance(listed, list) and len(listed) <= 1 and all(isinstance(item, str | None) for item in listed)
    )
    return listed if is_one or (listed and is_message(listed)) else field_


def verdict(value: object) -> bool | None:
    """Right or wrong, as files and scorers write it; None where it is missing, a part of a point (P, or a number between
    0 and 1) or a judge's word that the question is improper, which is neither. Errors: `ValueError`."""
    if isinstance(value, str):
        text = value.strip().upper()
        if text in VERDICTS:
            return VERDICTS[text]
        value = None if text in _NEITHER or is_missing(text) else _number(text)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool | int | float) and 0 <= value <= 1:
        return bool(value) if value in (0, 1) else None
    raise ValueError(f"right, wrong or a number from 0 to 1 was expected, not {str(value)[:40]!r}")


def _number(text: str) -> float | str:
    """The number that a text is; the text itself if it is none."""
    try:
        return float(text)
    except ValueError:
        return text


def judge(column: str, value: object, unread: dict[str, str]) -> bool | None:
    """The verdict; None, and a line in `unread`, where the value is neither right nor wrong."""
    try:
        is_right = verdict(value)
        if is_right is None and not is_missing(value):
            raise ValueError(f"{str(value)[:40]!r} is neither right nor wrong")
    except ValueError as error:
        unread[column] = str(error)
        return None
    return is_right


def drop_missing(value: str) -> str | None:
    """The text, or None if the file leaves it out."""
    return None if is_missing(value) else value


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


def only_one(path: Path, key: str, wanted: Any, there: Iterable[Any], note: str = "") -> Any:
    """What key `key` of results chooses among several in a log, or the only one; None where there is none. `note`
    explains their names.

    Errors: `SourceError` where it chooses none of several, or one that is not there.
    """
    names = sorted(set(there))
    shown = f"{list_names(map(str, names)) or 'none'}{note}"
    if wanted is None and len(names) > 1:
        raise SourceError(f"{path}: holds several {key}s: {shown}; choose one by key {key} of results")
    if wanted is not None and wanted not in names:
        raise SourceError(f"{path}: has no {key} {wanted!r}; there are: {shown}")
    return next(iter(names), None) if wanted is None else wanted


def questions_by_dataset(study: Study, lake: Lake) -> dict[str, dict[str, dict[str, Any]]]:
    """Dataset → question_id → question, of all the study's datasets. Errors: `LakeError`."""
    by_dataset: dict[str, dict[str, dict[str, Any]]] = {dataset.name: {} for dataset in study.datasets}
    columns = ["dataset", "question_id", "subject_id", "question", "gold_answers"]
    for row in lake.read("questions", columns=columns).to_pylist():
        by_dataset.setdefault(row["dataset"], {})[row["question_id"]] = row
    return by_dataset


_LETTER = re.compile(r"[A-Z]|[1-9]\d?")
_N_LETTERS = 26


def numbers_of(letters: str, n_choices: int) -> list[int] | None:
    """The choices that `A`, `A, C` or `27` name (after Z, Inspect counts from 1); None where it names no such choice."""
    names = [name.strip() for name in letters.strip().upper().split(",")]
    if not all(_LETTER.fullmatch(name) for name in names):
        return None
    numbers = sorted(
        {int(name) - 1 + _N_LETTERS if name.isdigit() else ord(name) - ord("A") for name in names}
    )
    return numbers if numbers[-1] < n_choices else None


def letters_of(numbers: Collection[int]) -> str:
    """The letters of choices: `A, C`."""
    return ", ".join(
        chr(ord("A") + n) if n < _N_LETTERS else str(n + 1 - _N_LETTERS) for n in sorted(numbers)
    )


def chosen_text(
    choices: Sequence[str],
    chosen: Collection[int],
    right: Sequence[Collection[int]],
    question: Mapping[str, Any],
) -> str:
    """The text of the chosen; several are one text. `right`: each choice, or set of them, that the log calls right.

    A question whose gold answers are the letters themselves gets letters. Errors: `ValueError` where our rules would
    score a right choice as wrong, since the question's gold answers are others than the log's.
    """
    golds = [str(gold) for gold in question.get("gold_answers") or ()]
    letters = [letters_of(numbers) for numbers in right]
    if golds and {gold.strip().upper() for gold in golds} <= {*letters}:
        return letters_of(chosen)
    for numbers in right if golds else ():
        score = score_answer(_choice_text(choices, numbers), golds)
        if not (score.is_correct or score.is_correct_normalized):
            raise ValueError(
                "target: the log's right choice is none of the question's gold answers:"
                f" {_choice_text(choices, numbers)[:40]!r} where the dataset has {golds[0][:40]!r}"
            )
    return _choice_text(choices, chosen)


def _choice_text(choices: Sequence[str], numbers: Collection[int]) -> str:
    return ", ".join(choices[number].strip() for number in sorted(numbers))


ReadOptional = Callable[[str, Callable[[], Any]], Any]
"""Gives what is read of the column of a meaning; None where it cannot be read."""
_PROBABILITY = (0.0, 1.0, "a probability above 0, and at most 1,")
_LOGARITHM = (-math.inf, 0.0, "the logarithm of a probability")
_ENTROPY = (-1e-9, math.inf, "an entropy in nats, of at least 0,")
_LISTS = {
    "token_probabilities": _PROBABILITY,
    "token_log_probabilities": _LOGARITHM,
    "token_entropies": _ENTROPY,
}
_NUMBERS = {
    "sum_log_probability": _LOGARITHM,
    "mean_log_probability": _LOGARITHM,
    "least_probability": _PROBABILITY,
    "least_log_probability": _LOGARITHM,
    "first_probability": _PROBABILITY,
    "first_log_probability": _LOGARITHM,
    "first_margin": (-1e-9, 1.0, "a difference of probabilities"),
    "mean_entropy": _ENTROPY,
}
_BOUNDS = {**_LISTS, **_NUMBERS}
"""Meaning → what lies below the least value, the largest value, and what is expected."""
CONFIDENCE_MEANINGS = (*_LISTS, "confidence_tokens", *_NUMBERS)


def confidence_of_row(
    row: Row, optional: ReadOptional, new_tokens: int | None, *, has_end_token: bool
) -> Confidence | None:
    """The confidence that a row gives, None where it gives none that can be read. With `has_end_token`, lists end with
    the end token's. A list that has not as many numbers as the answer has tokens cannot be read."""

    def numbers(meaning: str, n_tokens: int | None) -> list[float] | None:
        values: list[float] | None = optional(
            meaning, lambda: _token_numbers(row, meaning, n_tokens, has_end_token)
        )
        return values

    probabilities = numbers("token_probabilities", new_tokens)
    logs = [math.log(probability) for probability in probabilities or ()] or numbers(
        "token_log_probabilities", new_tokens
    )
    if not logs:
        return _read_numbers(row, optional, new_tokens)
    entropies = numbers("token_entropies", len(logs))
    return confidence_of(logs, None, math.fsum(entropies) / len(logs) if entropies else None)


def goes_on(text: str, confidence_tokens: int) -> bool:
    """Whether so many tokens are more than the answer, the first line of `text`, needs: they are of what follows, too.

    A tokenizer of a language model rarely needs more than one token for two English letters, or for a byte of another
    letter, a digit or a sign.
    """
    line, _, rest = text.strip().partition("\n")
    letters = sum(character.isascii() and character.isalpha() for character in line)
    return bool(rest) or confidence_tokens > len("".join(line.split()).encode()) - letters / 2 + 2


def _read_numbers(row: Row, optional: ReadOptional, new_tokens: int | None) -> Confidence | None:
    def number(name: str) -> float | None:
        value: float | None = optional(name, lambda: _parse_number(name, row.values.get(name)))
        return value

    numbers = {name: number(name) for name in _NUMBERS}
    drop_missing = [name for name, value in numbers.items() if value is not None]
    n_tokens = optional("confidence_tokens", lambda: row.count("confidence_tokens")) or new_tokens
    total, mean = (numbers.pop(name) for name in ("sum_log_probability", "mean_log_probability"))
    if total is None and mean is not None and n_tokens:
        total = mean * n_tokens
    for part in ("least", "first"):
        logarithm = numbers.pop(f"{part}_log_probability")
        if logarithm is not None and numbers[f"{part}_probability"] is None:
            numbers[f"{part}_probability"] = max(math.exp(logarithm), sys.float_info.min)
    if n_tokens and total is not None:
        return Confidence(n_tokens, total, **numbers)

    def refuse() -> None:
        raise ValueError(
            "confidence_tokens is expected with it, and sum_log_probability or mean_log_probability"
        )

    return optional(drop_missing[0], refuse) if drop_missing else None


def _token_numbers(row: Row, meaning: str, n_tokens: int | None, has_end_token: bool) -> list[float] | None:
    """The numbers of a list; None where there are none. Errors: `ValueError`."""
    value = row.values.get(meaning)
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError(f"a list of numbers was expected, not {value[:40]!r}") from None
    if value in (None, "", []) or value != value:
        return None
    if not isinstance(value, list):
        raise ValueError(f"a list of numbers was expected, not {str(value)[:40]!r}")
    if (
        meaning == "token_probabilities"
        and any(value)
        and all(isinstance(p, int | float) and p <= 0 for p in value)
    ):
        raise ValueError(
            "no number is above 0, so they are logarithms; say so in the study: columns: {token_probabilities:"
            f" null, token_log_probabilities: {row.columns[meaning]}}}"
        )
    values = [_parse_number(meaning, item) for item in value]
    if None in values:
        raise ValueError(f"number {values.index(None) + 1} of the list is missing")
    tokens = [item for item in values if item is not None][: len(values) - has_end_token]
    if n_tokens and len(tokens) != n_tokens:
        hint = "; end_token: true leaves out the end token's" if len(tokens) == n_tokens + 1 else ""
        raise ValueError(f"{len(tokens)} numbers for {n_tokens} tokens{hint}")
    return tokens


def _parse_number(meaning: str, value: Any) -> float | None:
    """The number; None where there is none. Errors: `ValueError`."""
    if value is None or value == "":
        return None
    low, high, what = _BOUNDS[meaning]
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not low < number <= high:
        raise ValueError(f"{what} was expected, not {str(value)[:40]}")
    return number
