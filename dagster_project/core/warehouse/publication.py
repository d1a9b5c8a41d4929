"""What a published warehouse says of itself: its table `publication`, for all that is made from the file.

What belongs here: opening the file, reading the table. What does not: writing it (`contents`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from dagster_project.core.errors import PublishError

_UNREADABLE = (
    duckdb.IOException,
    duckdb.SerializationException,
    duckdb.CatalogException,
    duckdb.BinderException,
)
"""No database, a damaged one, or one published when tables and columns were others."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Publication:
    """The one row of table `publication`: which study, which dbt run, when, by which versions."""

    study: str
    description: str
    published_at: datetime
    invocation_id: str
    dbt_version: str
    duckdb_version: str
    code_version: str
    n_rows: dict[str, int]


def connect_published(published: Path) -> duckdb.DuckDBPyConnection:
    """A read-only connection to a published file. Errors: `PublishError` where it is missing or no DuckDB file."""
    if not published.exists():
        raise PublishError(f"{published}: nothing is published yet; run `make run`")
    try:
        return duckdb.connect(str(published), read_only=True)
    except duckdb.Error as error:
        raise unreadable(published, error) from error


def unreadable(published: Path, error: duckdb.Error) -> PublishError:
    """What to raise where DuckDB cannot make out a published file."""
    reason = str(error).splitlines()[0]
    return PublishError(f"{published} cannot be read ({reason}); publish the warehouse again")


@contextmanager
def open_published(published: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The same connection while the context is open, in which the file may also turn out to be unreadable."""
    with connect_published(published) as connection:
        try:
            yield connection
        except _UNREADABLE as error:
            raise unreadable(published, error) from error


def read_publication(published: Path) -> Publication:
    """What the published file at `published` says of itself. Errors: `PublishError` where it is missing or unreadable."""
    with open_published(published) as connection:
        return publication_of(connection)


def publication_of(connection: duckdb.DuckDBPyConnection) -> Publication:
    """The same of an open connection, whose file stays what it was although another one takes its place."""
    # The moment as a number: older files hold it with a time zone, newer ones in UTC without.
    row = connection.execute(
        "select study, description, epoch_us(published_at), dbt_invocation_id, dbt_version, duckdb_version, "
        "code_version, n_rows from marts.publication"
    ).fetchone()
    if row is None:
        raise PublishError("table publication of the published warehouse is empty; publish it again")
    study, description, microseconds, *rest = row
    return Publication(study, description, _EPOCH + timedelta(microseconds=microseconds), *rest)
