"""Runs dbt on a study: its environment and command line, its manifest, and the result of its last run.

dbt writes the manifest, from which Dagster knows the assets, in place. On a full disk it would be truncated, and another
process may read a part of it. So dbt writes it to a folder of its own, from which it is moved when dbt has succeeded.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import duckdb

from longtail.errors import PublishError
from longtail.progress import Progress
from longtail.storage.files import STAGING, atomic_file, full_disk, is_disk_full, stage, sync
from longtail.storage.fingerprints import code_version, fingerprint, folder_version
from longtail.storage.home import PROJECT_ROOT, longtail_home
from longtail.storage.lake import Lake
from longtail.storage.lake_files import checksum_of
from longtail.storage.ownership import only_one
from longtail.study.study import Study
from longtail.tables import TABLES

DBT_PROJECT = PROJECT_ROOT / "dbt"
DBT = ("-m", "longtail.warehouse.dbt_process")
"""How Python starts dbt."""
STUDY_BUILD = ("build", "--no-write-json", "--exclude-resource-type", "unit_test")
"""How a study is built, without JSON that nobody reads, and without unit tests, which test the SQL and not the lake."""

_PUBLISHING = tuple(f"longtail.{one}" for one in ("warehouse", "statistics", "report", "router"))
"""Packages whose code, with that of their imports, decides what is published."""
_NAMED = 5
_OUTDATED = """
with recursive lineage (model, ancestor) as (
    select unique_id, unnest(upstream) from build.audit.results where resource_type = 'model'
    union
    select lineage.model, unnest(results.upstream)
    from lineage
    inner join build.audit.results on lineage.ancestor = results.unique_id
)
select model.name || ' (' || max_by(ancestor.name, ancestor.built_in) || ' is newer)'
from lineage
inner join build.audit.results as model on lineage.model = model.unique_id
inner join build.audit.results as ancestor on lineage.ancestor = ancestor.unique_id
where ancestor.built_in > coalesce(model.built_in, 0)
group by model.name
order by starts_with(model.name, 'int_') or starts_with(model.name, 'stg_'), model.name
"""
"""Models that were not built again after a dbt run built one of their parents. Two dbt runs never overlap, and one run
keeps the order."""
_DONE = re.compile(r"(?:\S+\s+)?\d+ of (\d+) (?:PASS|OK)(?! hook)")
_TROUBLE = re.compile(r"\b(?:ERROR|FAIL|WARN)\b(?!=)|Database Error|Compilation Error|Runtime Error")
_GOOD = ("success", "pass", "warn", "no-op", "reused")
_LAST_RUN = """
select invocation_id, results.unique_id, results.status, results.message
from audit.invocations
inner join audit.results using (invocation_id)
where results.resource_type in ('model', 'test') and results.status != 'skipped'
    and invocations.number = (select max(number) from audit.invocations) and invocations.finished_at is not null
"""


@dataclass(frozen=True)
class NodeResult:
    """dbt's word for what became of a node, and what it says about that."""

    status: str
    message: str

    @property
    def is_good(self) -> bool:
        return self.status in _GOOD


@dataclass(frozen=True)
class DbtRun:
    """A run of dbt: the results of its models and tests, by unique_id, and one line where it failed."""

    invocation_id: str
    results: Mapping[str, NodeResult]
    failure: str | None = None


@dataclass(frozen=True)
class BuildVerdict:
    """The last finished dbt run of a build, the nodes whose last result was bad, and a line about outdated models."""

    invocation_id: str
    dbt_version: str
    failures: tuple[str, ...]


def warehouse_inputs(study: Study) -> str:
    """A fingerprint of all inputs of the published warehouse: lake files, dbt project, study, code, versions."""
    return fingerprint(
        _lake_files(study.home.lake),
        dbt_sources(),
        [folder_version(package) for package in _PUBLISHING],
        code_version(*_PUBLISHING),
        (study.seed, study.description, study.licences),
        [version(package) for package in ("dbt-core", "dbt-duckdb", "duckdb")],
    )


def dbt_sources() -> list[tuple[str, str]]:
    """Path and text of every file of the dbt project."""
    files = sorted(path for path in DBT_PROJECT.rglob("*") if path.suffix in {".sql", ".py", ".yml", ".md"})
    return [(str(path.relative_to(DBT_PROJECT)), path.read_text(encoding="utf-8")) for path in files]


def _lake_files(lake: Path) -> list[tuple[str, str]]:
    """The path in the lake and the checksum of every finished Parquet file of an input table."""
    files = []
    for path in sorted(path for table in TABLES for path in (lake / table).glob("*.parquet")):
        with suppress(FileNotFoundError):  # another run is replacing it
            files.append((str(path.relative_to(lake)), checksum_of(path)))
    return files


def check_memory() -> None:
    """Errors: `PublishError` if DuckDB cannot read `$LONGTAIL_WAREHOUSE_MEMORY`."""
    if memory := os.environ.get("LONGTAIL_WAREHOUSE_MEMORY"):
        try:
            duckdb.connect(config={"memory_limit": memory}).close()
        except duckdb.Error:
            raise PublishError(
                f"{memory!r} is no amount of memory; give a number and a unit, such as 12GB"
            ) from None


def dbt_environment(study: Study) -> dict[str, str]:
    """The environment variables that point dbt at a study. Creates the folders that dbt expects."""
    home = study.home
    home.build.mkdir(parents=True, exist_ok=True)
    return {
        "LONGTAIL_HOME": str(longtail_home()),  # dbt runs in another folder, which decides where a home is
        "LONGTAIL_LAKE": str(home.lake),
        "LONGTAIL_BUILD": str(home.build),
        "LONGTAIL_SEED": str(study.seed),
        "DBT_PROJECT_DIR": str(DBT_PROJECT),
        "DBT_PROFILES_DIR": str(DBT_PROJECT),
        "DBT_TARGET_PATH": str(home.build / "dbt" / "target"),
        "DBT_LOG_PATH": str(home.build / "dbt" / "logs"),
        # Dagster keeps dbt's output. On a full disk, each line of a log file would cause a long trace.
        "DBT_LOG_LEVEL_FILE": "none",
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    }


def dbt_command(
    study: Study, args: Sequence[str], show: Callable[[str], object] = lambda _: None
) -> subprocess.CompletedProcess[str]:
    """Run dbt on a study with `args` (as in `["build"]`), and `show` each line of its output at once.

    Returns its exit code and all its output as `stdout`, and raises nothing. dbt runs in a separate process, because a
    DuckDB file is locked by the process that writes it. It ends with this one.
    """
    command, said = [sys.executable, *DBT, *args], ""
    with subprocess.Popen(
        command,
        cwd=DBT_PROJECT,
        env={**os.environ, **dbt_environment(study)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            for line in process.stdout or ():
                show(line)
                said += line
        except BaseException:  # Ctrl-C: else the end of dbt would be waited for
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, said)


def require_dbt(study: Study, command: str, *options: str) -> None:
    """Run a dbt command that must succeed. Errors: `PublishError`, in one line with dbt's own words."""
    done = dbt_command(study, ["--quiet", *command.split(), *options])
    if done.returncode:
        said = " ".join(done.stdout.split())
        if is_disk_full(said):
            raise PublishError(full_disk(study.home.build, f"dbt {command}"))
        raise PublishError(f"dbt {command} failed: {said[-2000:]}")


def run_build(study: Study, command: Sequence[str], show: Callable[[str], object]) -> DbtRun:
    """Run `dbt build`: as `dbt_command`, with the results of the nodes and, if it failed, the reason in one line.

    What fails is logged as soon as dbt says so, and how far it is.
    """
    before = _read_run(study.home.build_warehouse)
    steps: list[Progress] = []

    def follow(line: str) -> None:
        show(line)
        if _TROUBLE.search(line):
            _LOG.warning("dbt: %s", line.strip())
        elif done := _DONE.match(line):
            if not steps:
                steps.append(Progress(_LOG, "dbt: models and tests", int(done[1])))
            steps[0].add(1)

    try:
        done = dbt_command(study, command, follow)
    finally:
        for step in steps:
            step.done()
    run = _read_run(study.home.build_warehouse)
    if run.invocation_id == before.invocation_id:
        run = DbtRun("", {})
    if not done.returncode:
        return run
    if is_disk_full(done.stdout):
        return replace(run, failure=full_disk(study.home.build, "dbt build"))
    failures = [f"{node}: {result.message}" for node, result in run.results.items() if not result.is_good]
    reason = "; ".join(failures[:_NAMED]) or done.stdout[-2000:]
    return replace(run, failure=f"dbt build failed: {' '.join(reason.split())}")


def _read_run(build: Path) -> DbtRun:
    """The last finished run of dbt in `build`; without an id where none has finished."""
    try:
        with duckdb.connect(str(build), read_only=True) as connection:
            rows = connection.execute(_LAST_RUN).fetchall()
    except duckdb.Error:
        return DbtRun("", {})
    return DbtRun(rows[0][0] if rows else "", {row[1]: NodeResult(*row[2:]) for row in rows})


def clear_build(study: Study, log: logging.Logger) -> None:
    """Before a build: remove a warehouse that does not open.

    If the disk is full while DuckDB creates the file, the file has no header, and nothing can open it. dbt then makes
    all of it again. A warehouse that another process has open is left alone.
    """
    build = study.home.build_warehouse
    if not build.exists():
        return
    try:
        duckdb.connect(str(build), read_only=True).close()
    except duckdb.ConnectionException:  # this process has it open, so it can be opened
        return
    except duckdb.Error as error:
        if "Could not set lock on file" in str(error) or not os.access(build, os.R_OK):
            return
        log.warning("%s: cannot be opened (%s); it is built again", build, str(error).splitlines()[0])
        for path in (build, build.with_name(f"{build.name}.wal")):
            path.unlink(missing_ok=True)


def count_rows(build: Path) -> dict[tuple[str, str], int]:
    """The number of rows of each table in `build`, by schema and name. Errors: `duckdb.Error`."""
    with duckdb.connect(str(build), read_only=True) as connection:
        tables = connection.execute(
            "select schema_name, table_name from duckdb_tables() where database_name = current_database()"
        ).fetchall()
        return {
            (schema, name): connection.execute(f'select count(*) from "{schema}"."{name}"').fetchall()[0][0]  # noqa: S608
            for schema, name in tables
        }


def read_verdict(connection: duckdb.DuckDBPyConnection) -> BuildVerdict:
    """What schema `audit` says about a build that is attached as `build`.

    Errors: `PublishError` if no dbt run has finished.

    A run that began and did not finish (killed, or still running) counts as a failure, because the results of its tests
    are not known. A model that is older than one of its parents also counts as a failure, because the two would show
    different states of the lake.
    """
    try:
        runs = connection.execute(
            "select invocation_id, dbt_version, finished_at is not null from build.audit.invocations "
            "order by coalesce(number, 0)"
        ).fetchall()
        bad = connection.execute(
            "select resource_type || ' ' || name || ': ' || coalesce(nullif(message, ''), status) "
            "from build.audit.results where not list_contains(?, status) "
            "order by status = 'skipped', resource_type = 'model', name",
            [list(_GOOD)],
        ).fetchall()
        outdated = [row[0] for row in connection.execute(_OUTDATED).fetchall()]
    except (duckdb.CatalogException, duckdb.BinderException):
        # The second case: it was built before audit had these columns.
        raise PublishError("the build has no finished dbt run; build the warehouse first") from None
    finished = [run for run in runs if run[2]]
    if not finished or not runs[-1][2]:
        raise PublishError("the last dbt run did not finish; build the warehouse again")
    failures = [row[0] for row in bad]
    if outdated:
        more = f" and {len(outdated) - _NAMED} more" if len(outdated) > _NAMED else ""
        failures.append(
            f"models older than their parents: {', '.join(outdated[:_NAMED])}{more}; build them again"
        )
    return BuildVerdict(finished[-1][0], finished[-1][1], tuple(failures))


_NOTE = "parsed_from"
_FILES = ("partial_parse.msgpack", "manifest.json")
"""Of what dbt writes when it parses, what dbt and Dagster read later."""
_LOG = logging.getLogger(__name__)


def prepare_manifest(study: Study) -> Path:
    """The path of the study's manifest. dbt writes it, unless it is whole and belongs to this project.

    One process does so, and others wait for it. Errors: `PublishError` with dbt's own words if the project does not
    parse, or if the disk is full.
    """
    project, target = project_version(study), Path(dbt_environment(study)["DBT_TARGET_PATH"])
    manifest = target / _FILES[-1]
    if _is_current(study, project, manifest):
        return manifest
    with only_one(study.home.locks / "manifest.lock", None):
        if not _is_current(study, project, manifest):
            Lake(study.home.lake).ensure_schemas()
            with Progress(_LOG, "dbt: reading the project"):
                _parse(study, target)
            note_parse(study, project)
    return manifest


def _is_current(study: Study, project: str, manifest: Path) -> bool:
    """Whether the manifest is whole, and the note beside it names this version of the project."""
    with suppress(OSError, ValueError, TypeError):
        is_whole = "nodes" in json.loads(manifest.read_bytes())
        return is_whole and _note(study).read_text(encoding="ascii") == project
    return False


def _parse(study: Study, target: Path) -> None:
    with stage(target.parent / STAGING, target.name) as folder:
        folder.mkdir()
        with suppress(FileNotFoundError):  # what dbt has parsed before, and need not parse again
            shutil.copy(target / _FILES[0], folder)
        require_dbt(study, "parse", "--target-path", str(folder))
        target.mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            sync(folder / name)
            os.replace(folder / name, target / name)


def project_version(study: Study) -> str:
    """A fingerprint of what dbt parses for a study: the project, the study's places, dbt's versions."""
    packages = [version(package) for package in ("dbt-core", "dbt-duckdb")]
    return fingerprint(dbt_sources(), dbt_environment(study), packages)


def note_parse(study: Study, project: str) -> None:
    """Note that the study's manifest was parsed from that version of the project."""
    with atomic_file(_note(study)) as temporary:
        temporary.write_text(project, encoding="ascii")


def _note(study: Study) -> Path:
    return study.home.build / "dbt" / _NOTE
