"""From build to published warehouse: marts only, in a new file that takes the old one's place at once.

What belongs here: who may publish, renaming, keeping the last versions. What does not: what the file holds
(`contents`).
The published file is never written to, and its mode says so: who holds it open keeps the old snapshot, who opens it
next sees the new. A hash of it is kept beside it (`publication.find_damage`). Kept versions are copies: nothing that
befalls the published file befalls them.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from dagster_project.core.errors import PublishError
from dagster_project.core.files import sync
from dagster_project.core.study.study import Study
from dagster_project.core.warehouse.build import read_verdict
from dagster_project.core.warehouse.comments import literal
from dagster_project.core.warehouse.contents import fill
from dagster_project.core.warehouse.publication import log_of, record_line, record_of
from dagster_project.core.warehouse.staging import staging_beside

KEPT_VERSIONS = 3
STORAGE_VERSION = "v1.0.0"


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
        with staging_beside(study.home.published, target.name) as staging, _reading(build) as connection:
            new = staging / target.name
            report = _copy(connection, study, new)
            kept = _replace(new, target, report.published_at)
    except (OSError, duckdb.IOException, duckdb.FatalException, duckdb.TransactionException) as error:
        reason = " ".join(str(error).split())
        raise PublishError(
            f"{target}: could not be published ({reason}); the version before stays"
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


def _copy(connection: duckdb.DuckDBPyConnection, study: Study, new: Path) -> PublishReport:
    verdict = read_verdict(connection)
    if verdict.failures:
        more = f" (and {len(verdict.failures) - 1} more)" if len(verdict.failures) > 1 else ""
        raise PublishError(f"not published, the build failed: {verdict.failures[0]}{more}")
    connection.execute(f"attach {literal(str(new))} as target (storage_version '{STORAGE_VERSION}')")
    connection.execute("use target")
    # One transaction: each statement of its own would be synced to the disk.
    connection.execute("begin")
    published_at = datetime.now(UTC)
    n_rows = fill(connection, study, verdict, published_at)
    connection.execute("commit")
    connection.execute("checkpoint target")
    connection.execute("use memory")
    connection.execute("detach target")
    return PublishReport(new, new, verdict.invocation_id, published_at, n_rows, new.stat().st_size)


def _replace(new: Path, target: Path, published_at: datetime) -> Path:
    """Keep a copy of `new` among the versions, rename it over `target`, prune; returns the kept version."""
    versions = target.parent / "versions"
    versions.mkdir(exist_ok=True)
    kept = versions / f"{published_at:%Y%m%dT%H%M%S%fZ}.duckdb"
    copy, record = new.with_name(kept.name), new.with_name(record_of(target).name)
    shutil.copyfile(new, copy)  # what the disk has no room for fails here, before anything is replaced
    record.write_text(record_line(new, target.name), encoding="ascii")
    for file in (new, copy, record):
        _forbid_writing(file)
        sync(file)
    os.replace(copy, kept)
    sync(versions)
    # A log beside the old file would be replayed into the new one by the next to open it.
    log_of(target).unlink(missing_ok=True)
    os.replace(new, target)
    os.replace(record, record_of(target))
    sync(target.parent)
    for old in sorted(versions.glob("*.duckdb"))[:-KEPT_VERSIONS]:
        old.unlink()
    return kept


def _forbid_writing(file: Path) -> None:
    file.chmod(file.stat().st_mode & ~0o222)
