"""A dbt project of ten models over a lake of three tables, to be changed at random.

The project has each kind of node once: views and tables, a Python model, a model that reads dbt's graph, macros that call
macros, a var, and data tests; and the project's own macros of the audit and of materializations.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from longtail.warehouse.build import DBT_PROJECT
from longtail.warehouse.reuse import first_of, inputs_of, nodes_to_build, record
from tests.in_process_dbt import invoke_once

TABLES = ("a", "b", "c")


@dataclass
class Settings:
    """What a change may set: a number in each model and macro, a var, which models are views, what exists."""

    numbers: dict[str, int] = field(default_factory=dict)
    views: set[str] = field(default_factory=lambda: {"stg_a", "stg_b", "fct_low"})
    has_extra_model: bool = False
    has_extra_test: bool = False

    def of(self, name: str) -> int:
        return self.numbers.get(name, 0)


MODELS = {
    "stg_a": "select id, value + {n} as value from {{{{ source('lake', 'a') }}}}",
    "stg_b": "select id, value * (2 + {n}) as value from {{{{ source('lake', 'b') }}}}",
    "stg_c": "select id, value - {n} as value from {{{{ source('lake', 'c') }}}}",
    "int_ab": (
        "select id, {{{{ outer_macro('a.value') }}}} + coalesce(b.value, {n}) as value"
        " from {{{{ ref('stg_a') }}}} as a left join {{{{ ref('stg_b') }}}} as b using (id)"
    ),
    "int_c": "select id, value + {{{{ var('shift') }}}} + {n} as value from {{{{ ref('stg_c') }}}}",
    "fct_low": "select * from {{{{ ref('int_ab') }}}} where value < {n} + 50",
    "fct_sum": "select sum(value) + {n} as value from {{{{ ref('fct_low') }}}}",
    "fct_all": "select * from {{{{ ref('int_c') }}}} union all by name select * from {{{{ ref('int_py') }}}}",
    "books": (
        "{{% set nodes = graph.nodes.values() if execute else [] %}}"
        "{{% set models = nodes | selectattr('resource_type', 'equalto', 'model') | list %}}"
        "select * from (values {{% for node in models %}}"
        "('{{{{ node.name }}}}', '{{{{ node.config.materialized }}}}'), {{% endfor %}}('', '')) as t (name, kind)"
    ),
}
NUMBERED = [
    *(name for name in MODELS if name not in ("fct_all", "books")),
    "int_py",
    "outer",
    "inner",
    "shift",
]
_PYTHON = """def model(dbt, session):
    dbt.config(materialized="table")
    return dbt.ref("stg_b").project("id, value + {n} as value")
"""


class SmallProject:
    """A project, its lake and its build in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.settings = folder, Settings()
        self.dbt, self.lake, self.build = folder / "dbt", folder / "lake", folder / "build.duckdb"
        for table in TABLES:
            (self.lake / table).mkdir(parents=True)
        (self.dbt / "models").mkdir(parents=True)
        (self.dbt / "macros").mkdir()
        for name in ("audit", "materializations"):
            shutil.copy(DBT_PROJECT / f"macros/{name}.sql", self.dbt / "macros")

    def write_rows(self, table: str, partition: str, rows: list[tuple[int, int]]) -> None:
        ids, values = zip(*rows, strict=True) if rows else ((), ())
        data = pa.table({"id": pa.array(ids, pa.int64()), "value": pa.array(values, pa.int64())})
        pq.write_table(data, self.lake / table / f"{partition}.parquet")

    def state(self) -> tuple[Settings, dict[Path, bytes]]:
        """The settings and the lake, to be put back."""
        return copy.deepcopy(self.settings), {
            file: file.read_bytes() for file in self.lake.glob("*/*.parquet")
        }

    def put_back(self, state: tuple[Settings, dict[Path, bytes]]) -> None:
        self.settings, files = state
        for file in self.lake.glob("*/*.parquet"):
            file.unlink()
        for file, content in files.items():
            file.write_bytes(content)

    def write_project(self) -> None:
        """Write all files of the project, as the settings say."""
        s = self.settings
        models = {name: sql.format(n=s.of(name)) for name, sql in MODELS.items()}
        if s.has_extra_model:
            models["fct_extra"] = "select * from {{ ref('fct_all') }}"
        for file in (self.dbt / "models").glob("*"):
            file.unlink()
        for name, sql in models.items():
            kind = "view" if name in s.views else "table"
            self._write(f"models/{name}.sql", f"{{{{ config(materialized='{kind}') }}}}\n{sql}")
        self._write("models/int_py.py", _PYTHON.format(n=s.of("int_py")))
        self._write("macros/outer.sql", self._macro("outer_macro", "{{ inner_macro(x) }} + ", s.of("outer")))
        self._write("macros/inner.sql", self._macro("inner_macro", "{{ x }} * ", 2 + s.of("inner")))
        source = {
            "name": "lake",
            "config": {"meta": {"external_location": f"read_parquet('{self.lake}/{{name}}/*.parquet')"}},
            "tables": [{"name": table} for table in TABLES],
        }
        tests = {"stg_a": ["not_null"], "int_ab": ["not_null", *(["unique"] if s.has_extra_test else [])]}
        listed = [
            {"name": name, "columns": [{"name": "id", "data_tests": kinds}]} for name, kinds in tests.items()
        ]
        self._write(
            "models/schema.yml", yaml.safe_dump({"version": 2, "sources": [source], "models": listed})
        )
        hooks = {"on-run-start": "{{ start_audit() }}", "on-run-end": "{{ finish_audit(results) }}"}
        project = {"name": "small", "profile": "small", "vars": {"shift": s.of("shift")}, **hooks}
        self._write("dbt_project.yml", yaml.safe_dump(project))
        output = {"type": "duckdb", "path": "{{ env_var('SMALL_BUILD') }}", "threads": 1}
        self._write("profiles.yml", yaml.safe_dump({"small": {"target": "it", "outputs": {"it": output}}}))

    def _macro(self, name: str, before: str, n: int) -> str:
        return f"{{% macro {name}(x) %}}{before}{n}{{% endmacro %}}"

    def _write(self, name: str, text: str) -> None:
        (self.dbt / name).write_text(text, encoding="utf-8")

    def run(self, *args: str, build: Path | None = None, manifest: Any = None) -> Any:
        """Run dbt; the result, whether it is good or bad. `manifest`: of a parse, which is used up."""
        environment = {
            "SMALL_BUILD": str(build or self.build), "DBT_PROJECT_DIR": str(self.dbt), "DBT_PROFILES_DIR": str(self.dbt),
            "DBT_TARGET_PATH": str(self.folder / "target"), "DBT_LOG_LEVEL_FILE": "none",
        }  # fmt: skip
        return invoke_once(environment, *args, manifest=manifest)

    def manifest(self) -> dict[str, Any]:
        """As dbt parsed the project last."""
        parsed: dict[str, Any] = json.loads((self.folder / "target/manifest.json").read_text())
        return parsed

    def inputs(self) -> dict[str, str]:
        return inputs_of(self.manifest(), self.lake, self.dbt)

    def rebuild(self) -> set[str]:
        """Build what `reuse` says must be built; returns it. Parsing tells dbt's manifest."""
        self.write_project()
        parsed = self.run("parse")
        assert parsed.success
        manifest, inputs = self.manifest(), self.inputs()
        outdated = nodes_to_build(manifest, inputs, self.build)
        if outdated:
            first = first_of(manifest, outdated)
            self.run("--no-write-json", "build", "--select", *first, manifest=parsed.result)
            record(self.build, inputs)
        return outdated

    def built_at_once(self, number: int) -> Path:
        """Parsed on its own, too: another name of the build makes dbt read all files again."""
        build = self.folder / f"at_once_{number}.duckdb"
        assert self.run("--no-write-json", "build", build=build).success
        return build


def contents(build: Path, names: list[str]) -> dict[str, list[tuple[Any, ...]]]:
    """The sorted rows of each relation, after its kind."""
    with duckdb.connect(str(build), read_only=True) as connection:
        kinds = dict(
            connection.execute("select table_name, table_type from information_schema.tables").fetchall()
        )
        return {
            name: [(kinds[name],), *connection.execute(f"select * from main.{name} order by all").fetchall()]
            for name in names
        }


def random_change(small: SmallProject, rng: random.Random) -> str:
    """Change something; returns what."""
    s, table = small.settings, rng.choice(TABLES)
    kind = rng.choice(["rows", "rows", "rows", "gone", "number", "number", "number", "kind", "model", "test"])
    if kind == "rows":  # few values, so that earlier contents come back
        partition, seed = rng.choice(["p", "q"]), rng.randrange(3)
        own = 100 * "pq".index(partition)
        small.write_rows(table, partition, [(own + i, (i + 1) * (seed + 1)) for i in range(4 + seed)])
        return f"{table}/{partition} = {seed}"
    if kind == "gone":
        (small.lake / table / "q.parquet").unlink(missing_ok=True)
        return f"{table}/q is gone"
    if kind == "number":
        name = rng.choice(NUMBERED)
        s.numbers[name] = rng.randrange(3)
        return f"{name} = {s.numbers[name]}"
    if kind == "kind":
        name = rng.choice(["stg_a", "stg_c", "int_ab", "int_c", "fct_low"])
        s.views ^= {name}
        return f"{name} is a {'view' if name in s.views else 'table'}"
    if kind == "model":
        s.has_extra_model = not s.has_extra_model
        return "a model more or less"
    s.has_extra_test = not s.has_extra_test
    return "a test more or less"
