"""From build to published warehouse: marts only, in a new file that takes the old one's place at once.

What belongs here: copying, stamping, renaming, keeping the last versions. What does not: what a mart holds.
Marts are tables; a view is carried along where it reads nothing but marts, each named without its database.
The published file is never written to: who holds it open keeps the old snapshot, who opens it next sees the
new.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from dagster_project.core.errors import PublishError
from dagster_project.core.lake import code_version, sync
from dagster_project.core.study import Study
from dagster_project.core.warehouse.build import DBT_PROJECT, BuildVerdict, read_verdict

KEPT_VERSIONS = 3
STORAGE_VERSION = "v1.0.0"
SCHEMA = "marts"


@dataclass(frozen=True)
class PublishReport:
    """What was published: where, its number of rows by mart (views left out), and the dbt run that built it."""

    path: Path
    version: Path
    invocation_id: str
    published_at: datetime
    n_rows: dict[str, int]
    n_bytes: int


def publish_warehouse(study: Study, log: logging.Logger) -> PublishReport:
    """Publish the marts of `study`'s build.

    Errors: `PublishError` where there is no build, a model or test of it failed, or the disk does; what was
    published before then stays in place, whole.
    """
    build, target = study.home.build_warehouse, study.home.published_warehouse
    if not build.exists():
        raise PublishError(f"{build}: there is no build to publish; build the warehouse first")
    try:
        with _staging(study.home.published) as staging, _reading(build) as connection:
            new = staging / target.name
            report = _copy(connection, study, new)
            sync(new)
            kept = _replace(new, target, report.published_at)
    except (OSError, duckdb.IOException) as error:
        raise PublishError(f"{target}: could not be published ({error}); the version before stays") from error
    log.info("published %s: %d tables, %d bytes", target, len(report.n_rows), report.n_bytes)
    return replace(report, path=target, version=kept)


@contextmanager
def _staging(published: Path) -> Iterator[Path]:
    """A new folder beside the published file, one publisher at a time; what a killed one left is removed."""
    staging = published / ".staging"
    staging.mkdir(parents=True, exist_ok=True)
    with (published / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(staging, ignore_errors=True)
        folder = staging / uuid.uuid4().hex
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _reading(build: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """An in-memory connection with the build attached read-only as `build`."""
    with duckdb.connect() as connection:
        try:
            connection.execute(f"attach {_literal(str(build))} as build (read_only)")
        except duckdb.IOException as error:
            raise PublishError(
                f"{build} is in use by another process; publish when dbt has ended ({error})"
            ) from error
        yield connection


def _copy(connection: duckdb.DuckDBPyConnection, study: Study, new: Path) -> PublishReport:
    verdict = read_verdict(connection)
    if verdict.failures:
        more = f" (and {len(verdict.failures) - 1} more)" if len(verdict.failures) > 1 else ""
        raise PublishError(f"not published, the build failed: {verdict.failures[0]}{more}")
    connection.execute(f"attach {_literal(str(new))} as target (storage_version '{STORAGE_VERSION}')")
    connection.execute("use target")
    # One transaction: each statement of its own would be synced to the disk.
    connection.execute("begin")
    connection.execute(f"create schema target.{SCHEMA}")
    n_rows = {name: _copy_table(connection, name, ddl) for name, ddl in _marts(connection, "table")}
    if not n_rows:
        raise PublishError("the build holds no marts; build the warehouse first")
    views = [_copy_view(connection, name, ddl) for name, ddl in _marts(connection, "view")]
    _copy_comments(connection, [*n_rows, *views])
    published_at = datetime.now(UTC)
    _stamp(connection, study, verdict, published_at, n_rows)
    connection.execute("commit")
    connection.execute("checkpoint target")
    connection.execute("use memory")
    connection.execute("detach target")
    return PublishReport(new, new, verdict.invocation_id, published_at, n_rows, new.stat().st_size)


def _marts(connection: duckdb.DuckDBPyConnection, kind: str) -> list[tuple[str, str]]:
    """Name and `create` statement of every mart of a kind, table or view, that is a model of the last build.

    dbt leaves the table of a deleted or renamed model where it is; the audit knows today's models only.
    """
    return connection.execute(
        f"select {kind}_name, sql from duckdb_{kind}s() "  # noqa: S608
        f"where database_name = 'build' and schema_name = ? and {kind}_name in "
        f"(select name from build.audit.results where resource_type = 'model') order by {kind}_name",
        [SCHEMA],
    ).fetchall()


def _copy_table(connection: duckdb.DuckDBPyConnection, name: str, ddl: str) -> int:
    """Copy one mart with its constraints (`create table as` would drop them); returns its number of rows."""
    connection.execute(ddl)
    quoted = f'{SCHEMA}."{name}"'
    connection.execute(f"insert into target.{quoted} select * from build.{quoted} order by all")  # noqa: S608
    row = connection.execute(f"select count(*) from target.{quoted}").fetchone()  # noqa: S608
    return int(row[0]) if row else 0


def _copy_view(connection: duckdb.DuckDBPyConnection, name: str, ddl: str) -> str:
    """Copy one mart that is a view over other marts; returns its name. DuckDB binds it here, so what is missing shows."""
    try:
        connection.execute(ddl)
    except duckdb.CatalogException as error:
        reason = str(error).splitlines()[0]
        raise PublishError(
            f"view {name} reads what is not published ({reason}); name its tables by `published`"
        ) from error
    return name


def _copy_comments(connection: duckdb.DuckDBPyConnection, names: list[str]) -> None:
    for kind in ("table", "view"):
        commented = connection.execute(
            f"select {kind}_name, comment from duckdb_{kind}s() "  # noqa: S608
            "where database_name = 'build' and schema_name = ? and comment is not null "
            f"and list_contains(?, {kind}_name)",
            [SCHEMA, names],
        ).fetchall()
        for name, comment in commented:
            connection.execute(f'comment on {kind} {SCHEMA}."{name}" is {_literal(comment)}')
    columns = connection.execute(
        "select table_name, column_name, comment from duckdb_columns() "
        "where database_name = 'build' and schema_name = ? and comment is not null "
        "and list_contains(?, table_name)",
        [SCHEMA, names],
    ).fetchall()
    for table, column, comment in columns:
        connection.execute(f'comment on column {SCHEMA}."{table}"."{column}" is {_literal(comment)}')


_PUBLICATION = {
    "study": ("varchar", "name of the study"),
    "description": ("varchar", "what the study is about, as its file says"),
    "published_at": ("timestamptz", "when this file was published"),
    "dbt_invocation_id": ("varchar", "dbt run that finished the build"),
    "dbt_version": ("varchar", "version of dbt-core"),
    "duckdb_version": ("varchar", "version of DuckDB that wrote this file"),
    "code_version": ("varchar", "hash of the platform's Python sources and dbt models"),
    "n_rows": ("map(varchar, bigint)", "number of rows by published table"),
}


def _stamp(
    connection: duckdb.DuckDBPyConnection,
    study: Study,
    verdict: BuildVerdict,
    published_at: datetime,
    n_rows: dict[str, int],
) -> None:
    columns = ", ".join(f"{name} {type_} not null" for name, (type_, _) in _PUBLICATION.items())
    connection.execute(f"create table {SCHEMA}.publication ({columns})")
    connection.execute(
        f"insert into {SCHEMA}.publication values (?, ?, ?, ?, ?, ?, ?, map(?, ?))",  # noqa: S608
        [
            study.name,
            study.description,
            published_at,
            verdict.invocation_id,
            verdict.dbt_version,
            duckdb.__version__,
            platform_version(),
            list(n_rows),
            list(n_rows.values()),
        ],
    )
    connection.execute(
        f"comment on table {SCHEMA}.publication is 'One row: what this file is, and when it was made.'"
    )
    for name, (_, comment) in _PUBLICATION.items():
        connection.execute(f"comment on column {SCHEMA}.publication.{name} is {_literal(comment)}")


def platform_version() -> str:
    """A hash of all that computes: the modules of `core` and the dbt project."""
    digest = hashlib.sha256(code_version(".").encode())
    for file in sorted(file for pattern in ("*.sql", "*.yml") for file in DBT_PROJECT.rglob(pattern)):
        digest.update(str(file.relative_to(DBT_PROJECT)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _replace(new: Path, target: Path, published_at: datetime) -> Path:
    """Keep `new` among the versions, rename it over `target`, prune; returns the kept version."""
    versions = target.parent / "versions"
    versions.mkdir(exist_ok=True)
    kept = versions / f"{published_at:%Y%m%dT%H%M%S%fZ}.duckdb"
    try:
        os.link(new, kept)
    except OSError:
        # Some file systems know no hard links.
        shutil.copyfile(new, kept)
        sync(kept)
    sync(versions)
    # A log beside the old file would be replayed into the new one by the next to open it.
    target.with_name(target.name + ".wal").unlink(missing_ok=True)
    os.replace(new, target)
    sync(target.parent)
    for old in sorted(versions.glob("*.duckdb"))[:-KEPT_VERSIONS]:
        old.unlink()
    return kept


def _literal(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
