"""Faults planted in the dbt project one at a time, and which of them the tests of `tests/dbt` catch.

This is a tool for developers (`make mutants-sql`), not a test. A fault is planted in memory: no file of the project
changes.

A fault meets, in this order, until it is caught: the unit tests of its model, or of all models that use its macro; its
SQL on four lakes, whose rows are compared with those of the build without it; where rows differ, the builds of all that
hangs on them with their data tests, and the Python tests that name a mart which differs, on these builds; and, where
unit tests and lakes show nothing, the Python tests that build lakes of their own. Statistics between dbt's two passes
are not computed again, so a few faults may be caught that count as missed here.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import resource
import shutil
import tempfile
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import jinja2
import pytest

from longtail.storage.home import PROJECT_ROOT
from longtail.study.file import load_study
from longtail.warehouse.build import STUDY_BUILD
from tests import edge_lakes, in_process_dbt, warehouses
from tools.mutants.sql_faults import DBT, Mutant, sample
from tools.mutants.sql_project import Project, failing_unit_tests, unit_tests

LAKES = {
    "awkward": ("recomputation_marts", "recomputation_costs", "edge_lakes", "recomputation"),
    "open": ("edge_questions",), "edges": ("edge_values",), "lonely": (),
}  # fmt: skip
"""The lakes, and the modules of `tests/dbt` that read them."""
OWN_LAKES = (
    "pairs_of_patterns",
    "retriever_consistency",
    "prompt_texts",
    "recomputation_marts",
    "edge_marts",
)
"""Modules that build more lakes."""
BUILT = "home/synthetic/build/warehouse.duckdb"
LIMIT = 400  # processor seconds; what takes longer counts as caught


class Lake:
    """A lake's build without the fault, and a copy in which a fault's models are built."""

    def __init__(self, project: Project, base: Path, name: str) -> None:
        self.project, self.base, self.name = project, base, name

    def sql(self, model: str) -> str:
        return self._here(self.project.sql(model))

    def _here(self, sql: str) -> str:
        return sql.replace(str(self.base / "awkward"), str(self.base / self.name))

    def differing(self, names: Iterable[str]) -> list[str]:
        """The models whose SQL gives other rows than it gave without the fault."""
        with duckdb.connect() as connection:
            connection.execute(
                f"attach '{self.base / self.name}.duckdb' as warehouse (read_only); use warehouse"
            )
            return [name for name in names if self._gives_others(connection, name)]

    def _gives_others(self, connection: duckdb.DuckDBPyConnection, name: str) -> bool:
        if name == "fct_prompts" or self.project.models[name]["language"] == "python":
            return True  # not known before it is built
        return self._differs(connection, f"({self.sql(name)})", name, "warehouse")

    def _differs(self, connection: duckdb.DuckDBPyConnection, new: str, name: str, database: str) -> bool:
        old = f"(from {database}.{self.project.place(name)})"
        types = {row[0]: row[1] for row in connection.sql(f"describe {old}").fetchall()}
        shown = ", ".join(  # sums depend on the order of rows
            f'round("{one}", 9)' if type_ in ("DOUBLE", "FLOAT") else f'"{one}"'
            for one, type_ in types.items()
        )
        new, old = (f"(select {shown} from {side})" for side in (new, old))
        return bool(
            connection.sql(f"({new} except all {old}) union all ({old} except all {new}) limit 1").fetchall()
        )

    def build(self, names: list[str]) -> tuple[list[str], list[str]]:
        """Build these models and what hangs on them: the data tests that fail, and the models whose rows differ."""
        ids = {self.project.models[name]["unique_id"] for name in names}
        statistics = {
            name
            for name, one in self.project.models.items()
            if "study_seed" in one["raw_code"] and name not in names
        }
        stale = {*self.project.after({self.project.models[name]["unique_id"] for name in statistics})}
        order = [name for name in self.project.after(ids) if name not in statistics]  # they take long
        with duckdb.connect(str(self.base / self.name / BUILT)) as connection:
            for name in order:
                self._build(connection, name)
            connection.execute(f"attach '{self.base / self.name}.duckdb' as old (read_only)")
            changed = [
                one
                for one in order
                if one in names or self._differs(connection, f"(from {self.project.place(one)})", one, "old")
            ]
            built = {self.project.models[one]["unique_id"] for one in order}
            left_out = {self.project.models[one]["unique_id"] for one in stale - {*names}}
            failing = []
            for test in self.project.tests:
                read = {*test["depends_on"]["nodes"]}
                if read & built and not read & left_out and self._finds(connection, test):
                    failing.append(test["name"])
        return failing, changed

    def _finds(self, connection: duckdb.DuckDBPyConnection, test: dict[str, Any]) -> bool:
        return connection.sql(self._here(self.project.compiled_test(test))).fetchone() is not None

    def _build(self, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        node, place = self.project.models[name], self.project.place(name)
        if node["original_file_path"].endswith(".py"):
            code: dict[str, Any] = {}
            exec(node["raw_code"], code)
            rows = code["model"](_Dbt(connection, self.project, node["config"], place), connection)
            connection.register("rows", rows)
            connection.execute(f"delete from {place}; insert into {place} by name from rows")
        elif node["config"]["materialized"] == "view":
            connection.execute(f"create or replace view {place} as {self.sql(name)}")
        else:
            connection.execute(f"delete from {place}; insert into {place} by name ({self.sql(name)})")


class _Dbt:
    """What a Python model asks of dbt."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, project: Project, config: dict[str, Any], this: str
    ) -> None:
        self._connection, self._project, self._config, self.this = connection, project, config, this

    def ref(self, name: str) -> duckdb.DuckDBPyRelation:
        return self._connection.sql(f"from {self._project.place(name)}")

    @property
    def config(self) -> Any:
        class Config:
            get = self._config.get

            def __call__(self, **_: Any) -> None: ...

        return Config()


def verdict(base: Path, mutant: Mutant, quick: bool) -> tuple[str, str]:
    """`caught`, `invalid`, or what survived: `marts` if rows of marts differ, `rows` if only others, or `equal`."""
    project = Project(base / "awkward" / Path(BUILT).parent / "dbt/target")
    names = project.plant(mutant)
    try:
        if failing := failing_unit_tests(project, base / "awkward.duckdb", names):
            return "caught", f"unit test {failing[0]}"
        marts, rows = set[str](), set[str]()
        for name in LAKES:
            lake = Lake(project, base, name)
            differing = lake.differing(names)
            if not differing:
                continue
            failing, changed = lake.build(differing)
            if failing:
                return "caught", f"{name}: {failing[0]}"
            here = {one for one in changed if one.startswith(("dim_", "fct_"))}
            if failed := _pytest(LAKES[name], here):
                return "caught", failed
            rows, marts = rows | {*changed}, marts | here
        if staging := [one for one in names if one.startswith("stg_")]:
            Lake(project, base, "unanswered").build(staging)
            if failed := _pytest(("staging",), {"staging"}):
                return "caught", failed
        own = {project.models[one]["unique_id"] for one in names}
        if not quick and (failed := _pytest(OWN_LAKES, {*project.after(own)})):
            return "caught", failed
    except (
        duckdb.BinderException,
        duckdb.ParserException,
        duckdb.CatalogException,
        jinja2.TemplateError,
    ) as error:
        return "invalid", str(error).splitlines()[0]
    except duckdb.Error as error:
        return "caught", str(error).splitlines()[0]
    return "marts" if marts else "rows" if rows else "equal", ", ".join(sorted(marts or rows))[:200]


def _pytest(modules: tuple[str, ...], names: set[str]) -> str:
    """Run those tests of the modules that name one of these models; the first that fails."""
    paths = [PROJECT_ROOT / f"tests/dbt/test_{name}.py" for name in modules]
    files = [str(one) for one in paths if any(name in one.read_text(encoding="utf-8") for name in names)]
    failed: list[str] = []

    class Watch:
        def pytest_collection_modifyitems(self, items: list[Any]) -> None:
            items[:] = [one for one in items if any(re.search(rf"{name}\b", _text(one)) for name in names)]

        def pytest_runtest_logreport(self, report: Any) -> None:
            failed.extend([report.nodeid] if report.failed else [])

    if files:
        pytest.main(["-q", "-x", "-p", "no:cacheprovider", *files], plugins=[Watch()])
    return failed[0] if failed else ""


def _text(item: Any) -> str:
    """What a test names: itself, or its module where that is one lake of its own."""
    whole = any(
        one in item.location[0]
        for one in ("pairs_of", "retriever_c", "prompt_t", "edge_q", "edge_v", "staging")
    )
    return item.name + inspect.getsource(item.module if whole else item.function)


def plant_in_dbt(base: Path, mutant: Mutant) -> None:
    """Whatever runs dbt in this process gets the fault, and tests read the lakes of this tool."""
    original, text = in_process_dbt._manifest_for, (DBT / mutant.file).read_text(encoding="utf-8")
    planted = mutant.planted_in(text)

    def manifest_for(study: Any) -> Any:
        manifest = original(study)
        for node in manifest.nodes.values():
            if node.original_file_path == mutant.file:
                node.raw_code = planted
        for macro in manifest.macros.values():
            if macro.original_file_path == mutant.file:
                own = macro.macro_sql.strip()
                here = text.find(own)
                if here <= mutant.start < here + len(own):
                    macro.macro_sql = planted[here : here + len(own) + len(planted) - len(text)]
        return manifest

    in_process_dbt._manifest_for = manifest_for
    plans = {warehouses.AWKWARD: base / "awkward", warehouses.UNANSWERED: base / "unanswered"}
    warehouses.folder_of = plans.__getitem__  # type: ignore[assignment]
    edge_lakes.edges_folder = lambda: base / "edges"  # type: ignore[assignment]
    edge_lakes.open_folder = lambda: base / "open"  # type: ignore[assignment]


def build_base(base: Path) -> None:
    """The lakes without a fault, each built with all data tests; their builds are kept beside them."""
    from tests.dbt.test_edge_lakes import LONELY
    from tests.lakes import write_study_tables

    for name in ("awkward", "unanswered", "open", "edges"):
        (base / name).mkdir(parents=True)
    edge_lakes._folder = lambda plan: base / ("edges" if plan == edge_lakes.EDGES else "open")
    warehouses._build(warehouses.AWKWARD, base / "awkward")
    warehouses._build(warehouses.UNANSWERED, base / "unanswered")
    edge_lakes.open_folder()
    edge_lakes.edges_folder()
    shutil.copytree(base / "awkward", base / "lonely")
    os.environ["LONGTAIL_HOME"] = str(base / "lonely/home")
    study = load_study(base / "lonely/study.yaml")
    write_study_tables(warehouses.lake_of(study), LONELY)
    in_process_dbt.invoke_dbt(study, *STUDY_BUILD)
    for name in (*LAKES, "unanswered"):
        shutil.copyfile(base / name / BUILT, base / f"{name}.duckdb")


def in_fork(base: Path, mutant: Mutant | None, quick: bool = False) -> tuple[str, str, float]:
    """The verdict on a mutant (none: the base is built) and its processor seconds, from a process of its own."""
    told, before = base / "verdict.json", resource.getrusage(resource.RUSAGE_CHILDREN)
    told.unlink(missing_ok=True)
    built_at = {name: (base / name / BUILT).stat().st_mtime_ns for name in (*LAKES, "unanswered") if mutant}
    child = os.fork()
    if not child:
        with (base / "log").open("w") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        try:
            if mutant is None:
                build_base(base)
            else:
                resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
                plant_in_dbt(base, mutant)
                told.write_text(json.dumps(verdict(base, mutant, quick)), encoding="utf-8")
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    failed = os.waitpid(child, 0)[1]
    for name, changed_at in built_at.items():
        if (base / name / BUILT).stat().st_mtime_ns != changed_at:
            shutil.copyfile(base / f"{name}.duckdb", base / name / BUILT)
            (base / name / f"{BUILT}.wal").unlink(missing_ok=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if failed and not (mutant and os.WIFSIGNALED(failed)):
        raise SystemExit(f"a trial ended badly ({mutant}): see {base / 'log'}")
    found = (
        json.loads(told.read_text(encoding="utf-8"))
        if told.exists()
        else ("caught", "killed: it took too long")
    )
    return found[0], found[1], spent


def main() -> None:
    options = argparse.ArgumentParser(
        description="Plant faults in the dbt project; say which the tests catch."
    )
    options.add_argument("--models", default=".", help="a regular expression of paths below dbt/")
    options.add_argument("--max", type=int, default=140, help="how many mutants")
    options.add_argument("--seed", type=int, default=23)
    options.add_argument("--only", default="", help="a regular expression of the lines that this tool prints")
    options.add_argument(
        "--base", type=Path, help="a folder that keeps the builds of the lakes for the next call"
    )
    options.add_argument(
        "--quick", action="store_true", help="leave out the tests that build lakes of their own"
    )
    told = options.parse_args()
    base = (told.base or Path(tempfile.mkdtemp(prefix="longtail-sql-mutants-"))).resolve()
    base.mkdir(parents=True, exist_ok=True)
    in_process_dbt.shared_folder = base
    try:
        if not (base / "unanswered.duckdb").exists():
            in_fork(base, None)
        in_process_dbt._packed_manifest(base / "parsed/partial_parse.msgpack")
        unit_tests()  # read once, for all forks
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for mutant in (
            one for one in sample(told.models, told.max, told.seed) if re.search(told.only, str(one))
        ):
            said, why, spent = in_fork(base, mutant, told.quick)
            print(f"{said:8}{spent:5.0f} s  {mutant}  [{why}]", flush=True)
            counts[str(Path(mutant.file).parent)][said] += 1
        for folder, of in sorted(counts.items()):
            print(f"{folder}: {of.total()} planted, " + ", ".join(f"{n} {one}" for one, n in of.items()))
    finally:
        if told.base is None:
            shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
