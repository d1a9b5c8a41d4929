"""Sentences with numbers, and what computes the numbers: the form of a claim.

A claim is a piece of a sentence in which numbers are `{name}` or `{name:form}`. Forms beside Python's own: `w` a word
(three; `W`: Three), `p0` per cent (33), `d2` without the zero before the point (.33), `s2` the same with its sign
(+.33, −.33).
"""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import yaml

from longtail.report.figures import FIGURES
from longtail.storage.home import PROJECT_ROOT

Numbers = Mapping[str, Any]
Computed = Callable[[duckdb.DuckDBPyConnection], Numbers]
WORDS = [
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]
_NUMBER = r"(?:[+−-]?[\d.,]*\d|[A-Za-z]+)"
_CAPTION = "caption of "


@dataclass(frozen=True)
class Claim:
    """`says` stands in `place` (see `text_of`); `by` computes its numbers: SQL of one row, or a function."""

    place: str
    says: str
    by: str | Computed

    def rendered(self, marts: duckdb.DuckDBPyConnection) -> str:
        return Form().format(
            self.says, **(row_of(marts, self.by) if isinstance(self.by, str) else self.by(marts))
        )

    def pattern(self) -> re.Pattern[str]:
        """The sentence with any numbers in it."""
        parts = [
            re.escape(text) + (_NUMBER if name is not None else "")
            for text, name, *_ in string.Formatter().parse(self.says)
        ]
        return re.compile("".join(parts))


class Form(string.Formatter):
    """Python's own formatting, and the forms of claims."""

    def format_field(self, value: Any, spec: str) -> str:
        kind, digits = spec[:1], spec[1:]
        if spec in ("w", "W"):
            return WORDS[value].capitalize() if spec == "W" else WORDS[value]
        if kind == "p" and digits.isdigit():
            return f"{100 * value:.{digits}f}"
        if kind == "d" and digits.isdigit():
            return _unpadded(f"{value:.{digits}f}")
        if kind == "s" and digits.isdigit():
            return _unpadded(f"{value:+.{digits}f}")
        return format(value, spec)


def _unpadded(text: str) -> str:
    return re.sub(r"^([+-]?)0\.", r"\1.", text).replace("-", "−")


def row_of(marts: duckdb.DuckDBPyConnection, sql: str) -> Numbers:
    """Name → value of a query's one row."""
    cursor = marts.execute(sql)
    names = [column[0] for column in cursor.description or ()]
    (row,) = cursor.fetchall()
    return dict(zip(names, row, strict=True))


def by_model(sql: str) -> Computed:
    """Numbers `s`, `m`, `l` (or `s1`, `s2` …) of a query's rows: model, then one value or several."""

    def numbers(marts: duckdb.DuckDBPyConnection) -> Numbers:
        rows = {model.removeprefix("reference_"): values for model, *values in marts.execute(sql).fetchall()}
        single = all(len(values) == 1 for values in rows.values())
        return {
            name if single else f"{name}{at}": value
            for name, values in rows.items()
            for at, value in enumerate(values, 1)
        }

    return numbers


def constant(**numbers: Any) -> Computed:
    """Numbers that the code itself holds."""
    return lambda _: numbers


def dbt_variable(name: str) -> Any:
    """A variable of the dbt project."""
    return yaml.safe_load((PROJECT_ROOT / "dbt/dbt_project.yml").read_text(encoding="utf-8"))["vars"][name]


def written(place: str, pattern: str) -> str:
    """What a pattern finds in a file."""
    found = re.search(pattern, (PROJECT_ROOT / place).read_text(encoding="utf-8"), re.MULTILINE)
    assert found, f"{place} holds no {pattern}"
    return found[1]


def text_of(place: str) -> str:
    """The text of a file, of a figure's caption, or of a module's docstrings, white space as single blanks."""
    if place.startswith(_CAPTION):
        key = place.removeprefix(_CAPTION)
        return next(one_line(figure.shows) for figure in FIGURES if figure.key == key)
    text = (PROJECT_ROOT / place).read_text(encoding="utf-8")
    return one_line(" ".join(_docstrings(text)) if place.endswith(".py") else text)


def one_line(text: str) -> str:
    return " ".join(text.split())


def caption(key: str) -> str:
    return f"{_CAPTION}{key}"


def _docstrings(source: str) -> Sequence[str]:
    """Docstrings of the module, its classes and functions, and of what it names by a string below."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr)]
    return [
        node.value.value
        for node in nodes
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
