"""The parsed dbt project with at most one fault, its SQL as dbt compiles it, and its unit tests, without dbt."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import jinja2
import yaml

from tools.mutants.sql_faults import DBT, Mutant


class Project:
    """The parsed dbt project, with at most one fault: its SQL as dbt compiles it."""

    def __init__(self, target: Path) -> None:
        """`target`: the folder into which dbt compiled it."""
        self.target, parsed = target, json.loads((target / "manifest.json").read_text(encoding="utf-8"))
        self.children: dict[str, list[str]] = parsed["child_map"]
        self.models = {
            one["name"]: one for one in parsed["nodes"].values() if one["resource_type"] == "model"
        }
        self.tests = [
            one
            for one in parsed["nodes"].values()
            if one["resource_type"] == "test" and one["config"]["severity"].lower() == "error"
        ]
        self._sources = {one["name"]: one["relation_name"] for one in parsed["sources"].values()}
        self._macros = {
            key: one for key, one in parsed["macros"].items() if one["package_name"] == "longtail"
        }
        files = {one["original_file_path"] for one in self._macros.values()}
        self._texts = {
            file: (DBT / file).read_text(encoding="utf-8") for file in files if "generic" not in file
        }

    def plant(self, mutant: Mutant) -> list[str]:
        """Plant a fault; the names of the models that it changes."""
        if mutant.file not in self._texts:
            (name,) = (name for name, one in self.models.items() if one["original_file_path"] == mutant.file)
            self.models[name]["raw_code"] = mutant.planted_in((DBT / mutant.file).read_text(encoding="utf-8"))
            return [name]
        self._texts[mutant.file] = mutant.planted_in(self._texts[mutant.file])
        changed = {key for key, one in self._macros.items() if one["original_file_path"] == mutant.file}
        for _ in range(4):  # macros that call macros
            changed |= {key for key, one in self._macros.items() if changed & {*one["depends_on"]["macros"]}}
        return [name for name, one in self.models.items() if changed & {*one["depends_on"]["macros"]}]

    def sql(self, name: str, variables: dict[str, Any] | None = None, schema: str = "") -> str:
        """The compiled SQL of a model; with a schema, all its inputs are there."""

        def relation(name: str) -> str:
            table = name.rpartition(".")[2]
            return f"{schema}.{table}" if schema else name

        text = "".join(self._texts.values()) + self.models[name]["raw_code"]
        return (
            _jinja()
            .from_string(text)
            .render(
                ref=lambda table: relation(f"warehouse.{self.place(table)}"),
                source=lambda _, table: f"{schema}.{table}" if schema else self._sources[table],
                var={**_variables(), **(variables or {})}.__getitem__,
                config=lambda **_: "",
                execute=False,
            )
        )

    def place(self, name: str) -> str:
        return f"{self.models[name]['schema']}.{name}"

    def relation(self, name: str) -> str:
        """Where the rows of a model or a source are."""
        return f"warehouse.{self.place(name)}" if name in self.models else self._sources[name]

    def after(self, keys: Iterable[str]) -> list[str]:
        """The models among these nodes and all that hang on these, parents first."""
        reached, more = set(keys), set(keys)
        while more:
            more = {child for one in more for child in self.children.get(one, ())} - reached
            reached |= more
        waiting, done = [one for one in self.models.values() if one["unique_id"] in reached], []
        while waiting:
            ids = {one["unique_id"] for one in waiting}
            done += [one["name"] for one in waiting if not ids & {*one["depends_on"]["nodes"]}]
            waiting = [one for one in waiting if one["name"] not in done]
        return done

    def compiled_test(self, test: dict[str, Any]) -> str:
        """The SQL of a data test, as dbt compiled it: rows that are wrong."""
        path = self.target / "compiled/longtail" / test["original_file_path"]
        return (path if path.is_file() else path / test["path"]).read_text(encoding="utf-8")


@functools.cache
def _jinja() -> jinja2.Environment:
    return jinja2.Environment(extensions=["jinja2.ext.do"])


@functools.cache
def unit_tests() -> list[dict[str, Any]]:
    """The unit tests of all models."""
    files = sorted(DBT.glob("models/**/*.yml"))
    described = [yaml.load(one.read_text(encoding="utf-8"), yaml.CSafeLoader) for one in files]
    return [test for one in described for test in one.get("unit_tests", ())]


@functools.cache
def _variables() -> dict[str, Any]:
    return dict(yaml.safe_load((DBT / "dbt_project.yml").read_text(encoding="utf-8"))["vars"])


def failing_unit_tests(project: Project, build: Path, names: Iterable[str]) -> list[str]:
    """The unit tests of these models that fail; `build` has the types of their inputs."""
    failing = []
    for test in (one for one in unit_tests() if one["model"] in names):
        with duckdb.connect() as connection:
            connection.execute(f"attach '{build}' as warehouse (read_only); create schema given")
            for given in test["given"]:
                _put(connection, project, re.split(r"['\"]", given["input"])[-2], given)
            variables = test.get("overrides", {}).get("vars", {})
            connection.execute(f"create table actual as ({project.sql(test['model'], variables, 'given')})")
            expected = test["expect"]
            if expected.get("format") == "sql":
                connection.execute(f"create table expected as {expected['rows']}")
            elif expected["rows"]:
                columns = ", ".join(expected["rows"][0])
                connection.execute(f"create table expected as select {columns} from actual limit 0")
                _insert(connection, "expected", expected["rows"])
            else:
                connection.execute("create table expected as from actual limit 0")
            columns = ", ".join(f'"{column[0]}"' for column in connection.sql("describe expected").fetchall())
            if _rows(connection, f"select {columns} from actual") != _rows(
                connection, f"select {columns} from expected"
            ):
                failing.append(test["name"])
    return failing


def _put(connection: duckdb.DuckDBPyConnection, project: Project, name: str, given: dict[str, Any]) -> None:
    if given.get("format") == "sql":
        connection.execute(f"create table given.{name} as {given['rows']}")
        return
    connection.execute(f"create table given.{name} as from {project.relation(name)} limit 0")
    _insert(connection, f"given.{name}", given["rows"])


def _insert(connection: duckdb.DuckDBPyConnection, table: str, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        columns = ", ".join(f'"{column}"' for column in row)
        values = ", ".join("?" for _ in row)
        connection.execute(f"insert into {table} ({columns}) values ({values})", list(row.values()))


def _rows(connection: duckdb.DuckDBPyConnection, sql: str) -> list[str]:
    def told(value: Any) -> Any:
        return f"{value:.9g}" if isinstance(value, (int, float, Decimal)) else value

    return sorted(repr([told(value) for value in row]) for row in connection.sql(sql).fetchall())
