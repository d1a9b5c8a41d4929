"""Which column of anybody's table has which meaning: the names that are known, and paths into nested values.

What belongs here: the one table of names, the choice among a file's columns, and values by their path. What does not:
kinds of files (`table_rows`), and what the meanings do (`table`, `formats.answers.table`).

`metadata.s_pop` is the value at s_pop of an object in column metadata (an object, a struct, or a text of JSON), unless a
column has this whole name. A path through a list of objects gives a list.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dagster_project.core.errors import SourceError

USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "query", "problem", "input", "user_input"),
    "answers": (
        "answers", "answer", "possible_answers", "gold_answers", "golden_answers", "gold", "reference", "references",
        "ground_truth", "ground_truths", "target", "targets", "ideal", "expected_output", "answers.text",
        "answer.aliases",
    ),
    "id": ("id", "question_id", "_id", "qid", "query_id"),
    "subject": ("subject", "subj", "question_entity", "metadata.subj"),
    "relation": ("relation", "prop", "metadata.prop"),
    "popularity": ("popularity", "s_pop", "metadata.s_pop"),
    "passage": ("passage", "context"),
    "prediction": (
        "prediction", "pred", "output", "output.pred", "response", "Res", "completion", "generated_text",
        "actual_output", "model_answer", "predicted_answer",
    ),
    "model": ("model",),
    "method": ("method",),
    "prompt": (),
    "grounding_prompt": ("grounding_prompt",),
    "is_correct": ("is_correct",),
    "is_declined": ("is_declined",),
    "refusal": ("refusal",),
    "finish_reason": ("finish_reason", "stop_reason"),
    "reasoning": ("reasoning", "reasoning_content"),
    "error": ("error",),
    "prompt_tokens": ("prompt_tokens",),
    "new_tokens": ("new_tokens", "completion_tokens"),
    "reasoning_tokens": ("reasoning_tokens",),
    "latency_ms": ("latency_ms",),
    "token_probabilities": ("token_probabilities", "token_probs"),
    "token_log_probabilities": ("token_log_probabilities", "token_logprobs"),
    "token_entropies": ("token_entropies", "token_entropy"),
    "confidence_tokens": ("confidence_tokens",),
    "sum_log_probability": ("sum_log_probability",),
    "least_probability": ("least_probability",),
    "first_probability": ("first_probability",),
    "first_margin": ("first_margin",),
    "mean_entropy": ("mean_entropy",),
}  # fmt: skip
"""Meaning → names under which a column is found without key `columns`, in capitals or not; the first is the standard
one. A prompt has none: other tools call the text of a prompt so, where a study needs its name."""

Columns = Mapping[str, bool]
"""Name of a column, or path of a nested one → whether it holds nothing but lists."""

LISTS = ("answers", "token_probabilities", "token_log_probabilities", "token_entropies")
"""The meanings that a usual name has even where its column holds lists."""
_DEEPEST = 8
_SHOWN = 300


def columns_of_object(
    loaded: Mapping[str, Any], before: str = "", depth: int = 1
) -> Iterable[tuple[str, bool]]:
    """The keys of an object, those of objects in it as paths; each with whether it holds a list."""
    for name, value in loaded.items():
        if isinstance(value, Mapping) and value and depth < _DEEPEST:
            yield from columns_of_object(value, f"{before}{name}.", depth + 1)
        else:
            yield before + name, isinstance(value, list)


def chosen_columns(
    path: Path,
    there: Columns,
    declared: Mapping[str, str | None],
    meanings: Iterable[str],
    required: Iterable[str],
) -> dict[str, str]:
    """Meaning → the file's name of its column: as declared (None: not read), else by a usual name.

    Errors: `SourceError` where one that is declared or required is missing, or two columns may be meant.
    """
    shown = ", ".join(there)[:_SHOWN]
    found: dict[str, str] = {}
    free = {name.casefold(): name for name in reversed([*there]) if name not in declared.values()}
    for meaning in meanings:
        if meaning in declared:
            column = declared[meaning]
            if column is not None and not is_there(column, there):
                raise SourceError(
                    f"{path}: column {column} is missing, which columns.{meaning} names{near(column, there)}; there are:"
                    f" {shown}"
                )
            found |= {} if column is None else {meaning: column}
            continue
        known = [
            free[name.casefold()] for name in USUAL_NAMES.get(meaning, (meaning,)) if name.casefold() in free
        ]
        usable = [name for name in known if meaning in LISTS or not there[name] or name.casefold() == meaning]
        if len(usable) > 1 and usable[0].casefold() != meaning:
            raise SourceError(
                f"{path}: columns {' and '.join(usable)} may each be the {meaning}; say which in the study, or null for"
                f" none: columns: {{{meaning}: {usable[0]}}}"
            )
        found |= {meaning: usable[0]} if usable else {}
    for meaning in required:
        if meaning not in found:
            hint = next(
                filter(None, (near(name, there) for name in USUAL_NAMES.get(meaning, (meaning,)))), ""
            )
            raise SourceError(
                f"{path}: no column has a usual name of {meaning}{hint}; name it in the study: columns:"
                f" {{{meaning}: <column>}}; there are: {shown}"
            )
    return found


def is_there(column: str, there: Columns) -> bool:
    """Whether a column has this name, lies in one that has it, or may be inside one: a text of JSON, a list."""
    return column in there or any(
        name.startswith(f"{column}.") or column.startswith(f"{name}.") for name in there
    )


def near(wanted: str, there: Iterable[str]) -> str:
    """What to ask about a name that is missing: whether the nearest one is meant; empty where none is near."""
    lower = {name.casefold(): name for name in there}
    found = difflib.get_close_matches(wanted.casefold(), lower, n=1, cutoff=0.75)
    return f" (did you mean {lower[found[0]]}?)" if found else ""


def unusual(columns: Mapping[str, str], declared: Mapping[str, str | None]) -> list[str]:
    """A line for each column that was found by another name than its meaning."""
    return [
        f"column {name} is read as {meaning}"
        for meaning, name in columns.items()
        if name.casefold() != meaning and meaning not in declared
    ]


def value_at(value: object, name: str) -> Any:
    """The value of a column in a row, or at a path; None where nothing is there."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if isinstance(value, list):
        return [value_at(one, name) for one in value if isinstance(one, Mapping)]
    if not isinstance(value, Mapping):
        return None
    if name in value:
        return value[name]
    for place, sign in enumerate(name):
        if sign == "." and name[:place] in value:
            return value_at(value[name[:place]], name[place + 1 :])
    return None
