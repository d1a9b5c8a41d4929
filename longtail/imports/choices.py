"""Answers to multiple-choice questions, as texts: logs hold the letter or the likelihood of each choice."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from longtail.scoring.match import score_answer

_LETTER = re.compile(r"[A-Z]|[1-9]\d?")
_N_LETTERS = 26


def numbers_of(letters: str, n_choices: int) -> list[int] | None:
    """The choices that `A`, `A, C` or `27` name (after Z, Inspect counts from 1); None where it names no such choice."""
    found = [one.strip() for one in letters.strip().upper().split(",")]
    if not all(_LETTER.fullmatch(one) for one in found):
        return None
    numbers = sorted({int(one) - 1 + _N_LETTERS if one.isdigit() else ord(one) - ord("A") for one in found})
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
        score = score_answer(_text(choices, numbers), golds)
        if not (score.is_correct or score.is_correct_normalized):
            raise ValueError(
                f"target: the log's right choice is none of the question's gold answers: {_text(choices, numbers)[:40]!r}"
                f" where the dataset has {golds[0][:40]!r}"
            )
    return _text(choices, chosen)


def _text(choices: Sequence[str], numbers: Collection[int]) -> str:
    return ", ".join(choices[number].strip() for number in sorted(numbers))
