"""A published warehouse of any shape, generated from the contracts of the marts: every table, typed, filled.

Key columns take every combination of their values, all others a number or text that follows from the row. Labels are
the caller's, as hostile as it likes.
"""

from __future__ import annotations

import functools
import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import yaml

from longtail.storage.home import PROJECT_ROOT

MARTS = PROJECT_ROOT / "dbt" / "models" / "marts"
_PUBLICATION = (
    "create table marts.publication (study varchar, description varchar, published_at timestamptz, "
    "dbt_invocation_id varchar, dbt_version varchar, duckdb_version varchar, code_version varchar, "
    "n_rows map(varchar, bigint))"
)
_LONG = (
    "fct_answers",
    "fct_paraphrase_answers",
    "fct_sampled_answers",
    "dim_entities",
    "fct_question_consistency",
)
_NEVER_NULL = ("name", "text")


@dataclass(frozen=True)
class World:
    """The labels of a generated warehouse."""

    datasets: Sequence[str] = ("d1", "d2")
    prompts: Sequence[str] = ("p1", "p2")
    models: Sequence[str] = ("small", "large")
    methods: Sequence[str] = ("closed_book", "bm25", "oracle")
    relations: Sequence[str] = ("capital", "father")
    texts: Sequence[str] = ("Who is it?", "Someone", "Somewhere")
    study: str = "generated"
    source: str = "sandbox"
    n_questions: int = 6
    empty: frozenset[str] = frozenset()
    keys: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def values(self, name: str) -> Sequence[Any] | None:
        """The values that a key column runs through, or None where a column is no key."""
        relations = ("all", *self.relations)
        fixed: dict[str, Sequence[Any]] = {
            "dataset": self.datasets, "prompt": self.prompts, "model": self.models, "method": self.methods,
            "relation": relations, "parametric_method": self.methods[:1], "retrieval_method": self.methods[1:],
            "retriever": self.methods[1:], "model_a": self.models[:1], "model_b": self.models[1:],
            "method_a": self.methods[:1], "method_b": self.methods[1:], "comparison": ("methods", "models"),
            "search": ("binned10", "exact"), "threshold_scope": ("all", "per_relation"), "bin": range(10),
            "third": range(1, 4),
            "level": ("below", "[1,2)", "[2,3)", "[3,4)", "[4,5)", "[5,∞)"), "n_least": (100, 1000, 4000),
            "parametric_correct": (False, True), "retrieval_correct": (False, True),
            "grounding_prompt": ("null", "according_to_wikipedia"),
            "question_id": [f"q{n}" for n in range(self.n_questions)],
            "memory": ("right", "wrong"), "binned_by": ("none", "popularity"),
            "binning": ("deciles", "quarters"), "rule": ("is_correct", "is_exact_match"),
            "setting": ("all_relations",), "predictors": ("all", "cert"), "fit": ("all_rows", "held_out"),
            "estimator": ("gradient_boosting", "logistic"), "signal": ("all", "consistency", "popularity", "confidence"),
            "predictor": ("scons", "cert"), "compared_with": ("null_prompt", "no_passage"),
            "measure": ("scons", "cert", "consistency", "accuracy", "quip_difference"),
            "entity_id": [f"e{n}" for n in range(4)], "passage_id": [f"s{n}" for n in range(4)],
        }  # fmt: skip
        return self.keys.get(name) or fixed.get(name)


def write_marts(path: Path, world: World) -> Path:
    """Write a warehouse of `world` with every table that has a contract."""
    with duckdb.connect(str(path)) as connection:
        connection.execute("begin; create schema marts")
        for name, columns in contracts().items():
            declared = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
            connection.execute(f'create table marts."{name}" ({declared})')
            if name not in world.empty:
                _fill(connection, name, columns, world)
        connection.execute(_PUBLICATION)
        connection.execute(
            "insert into marts.publication values (?, ?, now(), 'i', '1', '1', 'c', map {'fct_answers': 3})",
            [world.study, f"A study of {world.texts[0]}"],
        )
        connection.execute("commit")
    return path


@functools.cache
def contracts() -> dict[str, dict[str, str]]:
    """Column and DuckDB type by mart, as the yml files promise."""
    found = {}
    for file in sorted(MARTS.rglob("*.yml")):
        for model in yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader).get("models") or ():
            columns = {column["name"]: column["data_type"] for column in model["columns"]}
            found[model["name"]] = columns
    return found


def _fill(connection: duckdb.DuckDBPyConnection, name: str, columns: Mapping[str, str], world: World) -> None:
    rows = list(_rows(name, columns, world))
    table = pa.table({column: pa.array([row[column] for row in rows]) for column in columns})
    chosen = ", ".join(f'"{column}"' for column in columns)
    connection.register("generated", table)
    connection.execute(f'insert into marts."{name}" select {chosen} from generated')
    connection.unregister("generated")


def _rows(name: str, columns: Mapping[str, str], world: World) -> Iterator[dict[str, Any]]:
    if name.startswith("dim_"):
        key = name.removeprefix("dim_").rstrip("s").replace("entitie", "entity") + (
            "_id" if name in _BY_ID else ""
        )
        keys = {key: list(world.values(key) or ("x",))}
        if name == "dim_relations":
            keys = {"relation": list(world.relations)}
    elif name in _LONG:
        keys = {column: list(world.values(column) or ())[:2] for column in columns if world.values(column)}
    else:
        keys = {column: list(world.values(column) or ()) for column in columns if world.values(column)}
        if "question_id" in keys:
            keys.pop("relation", None)
    for at, chosen in enumerate(itertools.product(*keys.values())):
        row = dict(zip(keys, chosen, strict=True))
        if name == "fct_passage_effects" and _number(name, "kept", at) > 0.2:
            continue
        known = {**_special(name, row, at, world), **row}
        yield {
            column: known[column] if column in known else _value(name, column, kind, at, world)
            for column, kind in columns.items()
        }


_BY_ID = ("dim_questions", "dim_entities", "dim_passages")


def _special(name: str, row: Mapping[str, Any], at: int, world: World) -> dict[str, Any]:
    """Values of columns that mean the same in all tables, by the row's keys and its number."""
    return {
        "source": world.source, "is_parametric": row.get("method") == world.methods[0], "path": "sandbox:s",
        "popularity_measure": "page_views", "effect": ("misled", "rescued")[at % 2], "family": "family",
        "passage_of": ("subject", "namesake", "other")[at % 3], "n_parameters": 10**6 * (1 + at),
        "bin_center_log10": row.get("bin", 0) + 0.5, "relation": world.relations[at % len(world.relations)],
        "bin_low": 10.0 ** row.get("bin", 0), "bin_high": 10.0 ** (row.get("bin", 0) + 1), "rank": at + 1,
        "subject_popularity": 10 ** (6 * _number(name, "subject_popularity", at)), "month": "2026-10", "method": "m",
        "level_low_log10": at % 6, "z_low": row.get("bin", 0) / 2 - 2, "z_high": row.get("bin", 0) / 2 - 1.5,
        "prompt": world.prompts[0], "is_adaptive": at % 2 == 0, "dataset": world.datasets[0],
        "decade_low": 10.0 ** (at % 6), "is_condition": False, "position_in_study": at, "ci_low": 0.1, "ci_high": 0.9,
        "kind": "memory" if row.get("method") == world.methods[0] else "retrieval",
    }  # fmt: skip


def _value(name: str, column: str, kind: str, at: int, world: World) -> Any:
    number = _number(name, column, at)
    if kind == "integer[]":
        return [at % 5]
    if kind == "double[]":
        return [number]
    if kind.endswith("[]"):
        return [world.texts[at % len(world.texts)]]
    if kind == "boolean":
        return number > 0.5
    if kind in ("bigint", "integer"):
        return 50 + int(100 * number)
    if kind == "double":
        return None if at % 11 == 10 and not column.startswith(_NEVER_NULL) else number
    if kind == "date":
        return "2026-01-01"
    return world.texts[at % len(world.texts)] if kind == "varchar" else None


def _number(name: str, column: str, at: int) -> float:
    return zlib.crc32(f"{name}.{column}.{at}".encode()) / 2**32
