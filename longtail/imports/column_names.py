"""Which column of anybody's table has which meaning: the names that are known, and paths into nested values.

`metadata.s_pop` is the value at s_pop of an object in column metadata (an object, a struct, or a text of JSON), unless a
column has this whole name. A path through a list of objects gives a list.
"""

from __future__ import annotations

import ast
import difflib
import io
import json
import re
import tokenize
from collections.abc import Iterable, Mapping
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from longtail.errors import SourceError, single_line

USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "query", "problem", "input", "user_input"),
    "answers": (
        "answers", "answer", "possible_answers", "gold_answers", "golden_answers", "gold", "reference", "references",
        "ground_truth", "ground_truths", "target", "targets", "ideal", "expected_output", "answers.text",
        "answer.aliases",
    ),
    "id": ("id", "question_id", "_id", "qid", "query_id", "QuestionId"),
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
    "mean_log_probability": ("mean_log_probability", "mean_logprob"),
    "least_probability": ("least_probability",),
    "least_log_probability": ("least_log_probability", "min_logprob"),
    "first_probability": ("first_probability",),
    "first_log_probability": ("first_log_probability", "first_token_logprob"),
    "first_margin": ("first_margin",),
    "mean_entropy": ("mean_entropy",),
}  # fmt: skip
"""Meaning → names under which a column is found without key `columns`, in capitals or not; the first is the standard
one. A prompt has none: other tools call the text of a prompt so, where a study needs its name."""

Columns = Mapping[str, bool]
"""Name of a column, or path of a nested one → whether it holds nothing but lists."""

ROWS = "rows."
"""What begins the meaning of a column by which rows are chosen."""
LISTS = ("answers", "token_probabilities", "token_log_probabilities", "token_entropies")
"""The meanings that a usual name has even where its column holds lists."""
MOST_COLUMNS = 10_000
SHOWN = 40
"""How many characters of a file's content a message may show."""
_MOST_NEAR = 1_000
_DEEPEST = 8
_NAME = re.compile(r"[\w.:/()%#?-]+( [\w.:/()%#?-]+){0,3}")
_GOLD = re.compile(
    r"gold|possible|reference|truth|target|expected|correct|right|ideal|label|accept|valid|alias"
)
_ANSWER = re.compile(r"answers?", re.IGNORECASE)
_SAID = re.compile(r"pred|infer|generat|model|respon|output|complet", re.IGNORECASE)
_OBJECT = re.compile(r"\{\s*([\"']|\w+\s*[:=])")
_CALLED = re.compile(r"([a-z_][\w.]*\(\s*([\[{(<]|\w+\s*=)|c\(\s*[\"']).*\)", re.IGNORECASE | re.DOTALL)
_COLLECTIONS = frozenset({"array", "set", "frozenset", "list", "tuple", "dict_values", "dict_keys"})
_SCALAR = re.compile(r"(str|int|float|bool)\d*_?")
_LONGEST_CODE = 100_000


def columns_of_object(
    loaded: Mapping[str, Any], before: str = "", depth: int = 1
) -> Iterable[tuple[str, bool]]:
    """The keys of an object, those of objects in it as paths; each with whether it holds a list."""
    for name, value in loaded.items():
        if isinstance(value, Mapping) and 0 < len(value) < MOST_COLUMNS and depth < _DEEPEST:
            yield from columns_of_object(value, f"{before}{name}.", depth + 1)
        else:
            yield before + name, isinstance(value, list)


def columns_of_objects(objects: Iterable[Mapping[str, Any]]) -> Columns:
    """The keys of objects, those of objects in them as paths."""
    columns: dict[str, bool] = {}
    for name, is_list in (column for loaded in objects for column in columns_of_object(loaded)):
        columns[name] = columns.get(name, True) and is_list
    return columns


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
    columns: dict[str, str] = {}
    free = {name.casefold(): name for name in reversed([*there]) if name not in declared.values()}
    for meaning in meanings:
        if meaning in declared:
            column = declared[meaning]
            if column is not None and not is_there(column, there):
                key = meaning if meaning.startswith(ROWS) else f"columns.{meaning}"
                raise SourceError(
                    f"{path}: column {column} is missing, which {key} names"
                    f"{near(column, _plausible_columns(meaning, there))}; there are: {list_names(there)}"
                )
            columns |= {} if column is None else {meaning: column}
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
        # TriviaQA's objects have the answer beside its aliases
        columns |= {meaning: re.sub(r"(?i)\.aliases$", "", usable[0])} if usable else {}
    for meaning in required:
        if meaning not in columns:
            names = USUAL_NAMES.get(meaning, (meaning,))
            hint = next(filter(None, (near(name, _plausible_columns(meaning, there)) for name in names)), "")
            raise SourceError(
                f"{path}: no column has a usual name of {meaning}{hint}; name it in the study: columns:"
                f" {{{meaning}: <column>}}; there are: {list_names(there)}"
            )
    return columns


def _plausible_columns(meaning: str, there: Iterable[str]) -> list[str]:
    """The columns that may be meant: none with a usual name of another meaning, and never a model's for gold answers."""
    others = {name.casefold() for other, names in USUAL_NAMES.items() if other != meaning for name in names}
    return [
        name
        for name in there
        if name.casefold() not in others and (meaning != "answers" or _may_be_gold(name))
    ]


def _may_be_gold(name: str) -> bool:
    """Whether a name may be meant for gold answers, unlike `gpt_answer` and `inference`."""
    words = re.sub(_ANSWER, "", name)
    return bool(_GOLD.search(name.casefold())) or (not _SAID.search(name) and words in ("", name))


def list_names(names: Iterable[str]) -> str:
    """The names of columns for a message; only the beginning of what is no list of names, as a file without a header."""
    first = [*islice(names, 50)]
    text = single_line(", ".join(first))
    longest = 300 if all(len(name) <= SHOWN and _NAME.fullmatch(name) for name in first) else SHOWN
    return text if len(text) <= longest else f"{text[:longest]}…"


def refuse_columns(path: Path, n: int) -> None:
    """Errors: `SourceError` where a file has more columns than a table of rows has."""
    if n > MOST_COLUMNS:
        raise SourceError(
            f"{path}: has {n:,} columns; at most {MOST_COLUMNS:,} are read (are rows and columns exchanged?)"
        )


def is_there(column: str, there: Columns) -> bool:
    """Whether a column has this name, lies in one that has it, or may be inside one: a text of JSON, a list."""
    return column in there or any(
        name.startswith(f"{column}.") or column.startswith(f"{name}.") for name in there
    )


def near(wanted: str, there: Iterable[str]) -> str:
    """What to ask about a name that is missing: whether the nearest one is meant; empty where none is near."""
    lower = {name.casefold(): name for name in islice(there, _MOST_NEAR)}
    matches = difflib.get_close_matches(wanted.casefold(), lower, n=1, cutoff=0.75)
    return f" (did you mean {lower[matches[0]]}?)" if matches else ""


def unusual(columns: Mapping[str, str], declared: Mapping[str, str | None]) -> list[str]:
    """A line for each column that was found by another name than its meaning."""
    return [
        f"column {name} is read as {meaning}"
        for meaning, name in columns.items()
        if name.casefold() != meaning and meaning not in declared and not meaning.startswith(ROWS)
    ]


def value_at(value: object, name: str) -> Any:
    """The value of a column in a row, or at a path; None where nothing is there."""
    if isinstance(value, str):
        try:
            value = _parse(value)
        except ValueError:
            return None
    if isinstance(value, list | tuple):
        return [value_at(item, name) for item in value if isinstance(item, Mapping)]
    if not isinstance(value, Mapping):
        return None
    if name in value:
        return value[name]
    for place, sign in enumerate(name):
        if sign == "." and name[:place] in value:
            return value_at(value[name[:place]], name[place + 1 :])
    return None


def structure_of(text: str) -> Any:
    """The list, tuple or object that a text holds, in JSON or as Python and numpy print it; None for a plain text.

    Errors: `ValueError` where it looks like one and cannot be read.
    """
    text = text.strip()
    is_open = text.startswith("[") or _OBJECT.match(text) or _CALLED.fullmatch(text)
    if is_open or (text.startswith("{") and text.endswith("}")):
        return _parse(text)
    if not (text.startswith("(") and text.endswith(")")):
        return None
    try:
        parsed = _parse(text)
    except ValueError:
        return None  # "(I Can't Get No) Satisfaction (live)"
    return (
        parsed
        if isinstance(parsed, tuple) and not all(isinstance(item, int | float) for item in parsed)
        else None
    )


def _parse(text: str) -> Any:
    """What a text holds, in JSON or in Python's notation; sets are tuples. Errors: `ValueError`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    if len(text) > _LONGEST_CODE:
        raise ValueError("neither JSON nor a short text of Python")
    try:
        tokens = [
            token
            for token in tokenize.generate_tokens(io.StringIO(text.strip()).readline)
            if token.string.strip()
        ]
        if any(token.type == tokenize.ERRORTOKEN for token in tokens):
            raise ValueError("no Python")
        # numpy prints no commas between texts
        lacks_comma = [left.type == right.type == tokenize.STRING for left, right in pairwise(tokens)]
        code = " ".join(
            token.string + "," * lacks for token, lacks in zip(tokens, [*lacks_comma, False], strict=True)
        )
        return _literal(ast.parse(code, mode="eval").body)
    except (SyntaxError, tokenize.TokenError, ValueError, RecursionError, MemoryError):
        raise ValueError("neither JSON nor a text of Python") from None


def _literal(node: ast.AST) -> Any:
    """The value of a constant, a collection of them, or numpy's `array([…], dtype=object)`. Errors: `ValueError`."""
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.List(elts=items):
            return [*map(_literal, items)]
        case ast.Tuple(elts=items) | ast.Set(elts=items):
            return tuple(map(_literal, items))
        case ast.Dict(keys=keys, values=values):
            return {
                str(_literal(key)): _literal(value) for key, value in zip(keys, values, strict=True) if key
            }
        case ast.Call(func=ast.Name(id="c"), args=items, keywords=[]):  # a vector of R
            return tuple(map(_literal, items))
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.Name(id="nan"):
            return None
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[inner, *_]) if (
            name in _COLLECTIONS or _SCALAR.fullmatch(name)
        ):
            return _literal(inner)
    raise ValueError("no constant")
