"""From the build to the published warehouse: only the marts, in a new file that replaces the old one in one step.

The published file is read-only and never written to. A reader that has it open keeps the old snapshot, and the next
reader sees the new one. A hash of the file is kept beside it (`publication.find_damage`). Kept versions are copies, so
that damage to the published file does not reach them.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import yaml

from longtail.errors import PublishError
from longtail.progress import Progress
from longtail.storage.checksums import compare_files, file_checksum
from longtail.storage.files import sync
from longtail.storage.fingerprints import fingerprint, folder_version
from longtail.study.study import Study
from longtail.warehouse.build import BuildVerdict, dbt_sources, read_verdict
from longtail.warehouse.publication import (
    SCHEMA,
    comments_of,
    literal,
    log_of,
    marts_of,
    next_version,
    record_of,
    staging_beside,
    write_comments,
)
from longtail.warehouse.sources import describe_column

KEPT_VERSIONS = 3
STORAGE_VERSION = "v1.0.0"
ALLOW_FEWER = "LONGTAIL_PUBLISH_FEWER"
"""The variable by which an operator publishes fewer rows than before."""
_PUBLICATION_TABLE = "One row: the study of this file, its versions, and when it was made."
_NAMED = 5
_LOSSES = """
with counted as (
    select 'now' as version, * from build.marts.fct_answer_coverage
    union all by name
    select 'then' as version, * from published.marts.fct_answer_coverage
),
cells as (
    select
        table_name, model,
        coalesce(sum(n_expected - n_missing) filter (version = 'now'), 0) as n_now,
        coalesce(sum(n_expected - n_missing) filter (version = 'then'), 0) as n_then,
        sum(n_missing) filter (version = 'now') > coalesce(sum(n_missing) filter (version = 'then'), 0) as is_missing
    from counted
    group by table_name, dataset, prompt, model, method
)
select table_name, model, sum(n_now)::bigint, sum(n_then)::bigint
from cells
where n_now < n_then and (? or is_missing)
group by table_name, model
order by sum(n_then - n_now) desc, table_name, model
"""


@dataclass(frozen=True)
class PublishReport:
    """The result of publishing: the path, the number of rows by mart (without views), and the dbt run that built it."""

    path: Path
    version: Path
    invocation_id: str
    published_at: datetime
    n_rows: dict[str, int]
    n_bytes: int


def publish_warehouse(study: Study, log: logging.Logger, *, allows_fewer: bool = False) -> PublishReport:
    """Publish the marts of `study`'s build.

    Errors: `PublishError` if there is no build, if one of its models or tests failed, if it has fewer generated rows than
    the published file for a reason that is not in the study file (unless that `allows_fewer`), or if the disk fails. The
    previously published file then stays in place, whole.
    """
    build, target = study.home.build_warehouse, study.home.published_warehouse
    if not build.exists():
        raise PublishError(f"{build}: there is no build to publish; build the warehouse first")
    try:
        with (
            Progress(log, "publication of the warehouse"),
            staging_beside(study.home.published, target.name) as staging,
            _reading(build) as connection,
        ):
            new = staging / target.name
            report = _copy(connection, study, new, None if allows_fewer else _last_whole(target))
            kept = _replace(new, target)
    except (OSError, duckdb.IOException, duckdb.FatalException, duckdb.TransactionException) as error:
        reason = " ".join(str(error).split())
        raise PublishError(
            f"{target}: could not be published ({reason}); the previous version stays"
        ) from error
    log.info("published %s: %d tables, %d bytes", target, len(report.n_rows), report.n_bytes)
    return replace(report, path=target, version=kept)


@contextmanager
def _reading(build: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """An in-memory connection with the build attached read-only as `build`."""
    with duckdb.connect() as connection:
        connection.execute("set enable_progress_bar = false")
        try:
            connection.execute(f"attach {literal(str(build))} as build (read_only)")
        except duckdb.IOException as error:
            raise PublishError(
                f"{build} is in use by another process; publish when dbt has ended ({error})"
            ) from error
        yield connection


def _copy(
    connection: duckdb.DuckDBPyConnection, study: Study, new: Path, before: Path | None
) -> PublishReport:
    verdict = read_verdict(connection)
    if verdict.failures:
        more = f" (and {len(verdict.failures) - 1} more)" if len(verdict.failures) > 1 else ""
        raise PublishError(f"not published, the build failed: {verdict.failures[0]}{more}")
    if before:
        _require_no_loss(connection, study, before)
    connection.execute(f"attach {literal(str(new))} as target (storage_version '{STORAGE_VERSION}')")
    connection.execute("use target")
    # One transaction, because otherwise each statement would be synced to the disk.
    connection.execute("begin")
    published_at = datetime.now(UTC)
    n_rows = _fill(connection, study, verdict, published_at)
    connection.execute("commit")
    connection.execute("checkpoint target")
    connection.execute("use memory")
    connection.execute("detach target")
    return PublishReport(new, new, verdict.invocation_id, published_at, n_rows, new.stat().st_size)


def _last_whole(target: Path) -> Path | None:
    """The published file, or the newest kept version where that is damaged or missing."""
    if target.exists() and not compare_files(record_of(target)) and not log_of(target).exists():
        return target
    versions = sorted((target.parent / "versions").glob("*.duckdb"), reverse=True)
    return next(
        (version for version in versions if version.stem.endswith(f"-{file_checksum(version)[:16]}")), None
    )


def _require_no_loss(connection: duckdb.DuckDBPyConnection, study: Study, before: Path) -> None:
    """Errors: `PublishError` where the build has fewer rows than `before` of a lake table and model.

    With the study file of that time, any row that is gone counts. With another one, only what the study still declares
    does: dataset, model, method and prompt together have fewer rows, and more of those that the study asks for are
    missing.
    """
    connection.execute(f"attach {literal(str(before))} as published (read_only)")
    try:
        ((declared,),) = connection.execute("select declared from published.marts.publication").fetchall()
        losses = connection.execute(_LOSSES, [declared == study_version(study)]).fetchall()
    except (duckdb.CatalogException, duckdb.BinderException):  # of a version that did not count them
        return
    finally:
        connection.execute("detach published")
    if losses:
        named = [f"{now:,} {of} of {model} instead of {then:,}" for of, model, now, then in losses[:_NAMED]]
        more = f" (and {len(losses) - _NAMED} more)" if len(losses) > _NAMED else ""
        raise PublishError(
            "not published: the study file does not ask for less than before, but there would be "
            f"{', '.join(named)}{more}; correct the cause and run again, or publish all the same with {ALLOW_FEWER}=1 "
            "(--publish-fewer)"
        )


def _replace(new: Path, target: Path) -> Path:
    """Keep a copy of `new` among the versions, rename it over `target`, prune; returns the kept version."""
    versions, checksum = target.parent / "versions", file_checksum(new)
    versions.mkdir(exist_ok=True)
    kept = versions / f"{next_version(versions, checksum[:16])}.duckdb"
    copy, record = new.with_name(kept.name), new.with_name(record_of(target).name)
    shutil.copyfile(new, copy)  # a full disk fails here, before anything is replaced
    record.write_text(f"{checksum}  {target.name}\n", encoding="ascii")
    for file in (new, copy, record):
        file.chmod(file.stat().st_mode & ~0o222)
        sync(file)
    os.replace(copy, kept)
    sync(versions)
    # The next reader would replay a log of the old file into the new one.
    log_of(target).unlink(missing_ok=True)
    os.replace(new, target)
    os.replace(record, record_of(target))
    sync(target.parent)
    for old in sorted(versions.glob("*.duckdb"))[:-KEPT_VERSIONS]:
        old.unlink()
    return kept


def _fill(
    connection: duckdb.DuckDBPyConnection, study: Study, verdict: BuildVerdict, published_at: datetime
) -> dict[str, int]:
    """Fill the database `target` from the one attached as `build`; returns the number of rows by table.

    Errors: `PublishError` if the build has no marts, or if a view reads a table that is not published.
    """
    connection.execute(f"create schema target.{SCHEMA}")
    n_rows = {name: _copy_table(connection, name, ddl) for name, ddl in _marts(connection, "table")}
    if not n_rows:
        raise PublishError("the build has no marts; build the warehouse first")
    views = [_copy_view(connection, name, ddl) for name, ddl in _marts(connection, "view")]
    comments = comments_of(connection, "build", [*n_rows, *views])
    described = [replace(one, text=one.text or describe_column(one.column or "")) for one in comments]
    write_comments(connection, described)
    if "catalogue" in n_rows:
        n_rows["catalogue"] += 1  # the row of `publication`
        _count_in_catalogue(connection, n_rows)
    _stamp(connection, study, verdict, published_at, n_rows)
    _open_in_main(connection)
    return n_rows


def _marts(connection: duckdb.DuckDBPyConnection, kind: str) -> list[tuple[str, str]]:
    """Name and `create` statement of every mart of a kind, table or view, that is a model of the last build.

    dbt does not drop the table of a deleted or renamed model. The audit has only today's models.
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
    ((n_rows,),) = connection.execute(f"select count(*) from target.{quoted}").fetchall()  # noqa: S608
    return int(n_rows)


def _copy_view(connection: duckdb.DuckDBPyConnection, name: str, ddl: str) -> str:
    """Copy one mart that is a view over other marts; returns its name. A missing table is an error here."""
    try:
        connection.execute(ddl)
    except duckdb.CatalogException as error:
        reason = str(error).splitlines()[0]
        raise PublishError(
            f"view {name} reads a table that is not published ({reason}); name its tables by `published`"
        ) from error
    return name


def _count_in_catalogue(connection: duckdb.DuckDBPyConnection, n_rows: dict[str, int]) -> None:
    """Write the number of rows by table, which is known only now, and the row of the table that is not a model."""
    connection.execute(
        f"update {SCHEMA}.catalogue set n_rows = counted.n "  # noqa: S608
        "from (select unnest(?) as name, unnest(?) as n) as counted where table_name = counted.name",
        [list(n_rows), list(n_rows.values())],
    )
    connection.execute(
        f"insert into {SCHEMA}.catalogue by name select 'publication' as table_name, 'catalogue' as topic, "  # noqa: S608
        "'table' as kind, 'one row' as grain, 'docs/sql.md' as source, ? as description, "
        "'select * from publication' as example_query, ? as n_columns, 1 as n_rows, [] as lake_tables",
        [_PUBLICATION_TABLE, len(_PUBLICATION)],
    )


_PUBLICATION = {
    "study": ("varchar", "name of the study"),
    "description": ("varchar", "description of the study, from its file"),
    # No timestamptz: Python clients need a package of their own to read one.
    "published_at": ("timestamp", "when this file was published, UTC"),
    "dbt_invocation_id": ("varchar", "dbt run that finished the build"),
    "dbt_version": ("varchar", "version of dbt-core"),
    "duckdb_version": ("varchar", "version of DuckDB that wrote this file"),
    "code_version": ("varchar", "hash of the platform's Python sources and dbt models"),
    "declared": ("varchar", "hash of what the study file declares, without its description"),
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
        f"insert into {SCHEMA}.publication values (?, ?, ?, ?, ?, ?, ?, ?, map(?, ?))",  # noqa: S608
        [
            study.name,
            study.description,
            published_at.astimezone(UTC).replace(tzinfo=None),
            verdict.invocation_id,
            verdict.dbt_version,
            duckdb.__version__,
            platform_version(),
            study_version(study),
            list(n_rows),
            list(n_rows.values()),
        ],
    )
    connection.execute(f"comment on table {SCHEMA}.publication is {literal(_PUBLICATION_TABLE)}")
    for name, (_, comment) in _PUBLICATION.items():
        connection.execute(f"comment on column {SCHEMA}.publication.{name} is {literal(comment)}")


def _open_in_main(connection: duckdb.DuckDBPyConnection) -> None:
    """A view of the same name in schema main for each mart: a DuckDB file opens there and stores no search path."""
    marts = marts_of(connection, "target")
    for name in marts:
        connection.execute(f'create view main."{name}" as from {SCHEMA}."{name}"')
    write_comments(connection, comments_of(connection, "target", marts), "main", "view")


def study_version(study: Study) -> str:
    """A hash of all that the study file declares; comments and the description do not count."""
    declared = yaml.safe_load(study.path.read_bytes())
    return fingerprint({key: value for key, value in declared.items() if key != "description"}, study.limit)


def platform_version() -> str:
    """A hash of all code that computes: the library and the dbt project."""
    digest = hashlib.sha256(folder_version("longtail").encode())
    for path, text in dbt_sources():
        digest.update(path.encode())
        digest.update(text.encode())
    return digest.hexdigest()[:16]
