"""The contents of a published warehouse: the build's marts with their comments, and a table about the file itself."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime

import duckdb
import yaml

from longtail.errors import PublishError
from longtail.storage.fingerprints import fingerprint, folder_version
from longtail.study.study import Study
from longtail.warehouse.build import BuildVerdict, dbt_sources
from longtail.warehouse.comments import SCHEMA, comments_of, literal, marts_of, write_comments
from longtail.warehouse.sources import lake_texts

_PUBLICATION_TABLE = "One row: the study of this file, its versions, and when it was made."


def fill(
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
    texts = lake_texts()  # of columns that the mart's yml does not describe
    write_comments(
        connection, [replace(one, text=one.text or texts.get(f"lake_{one.column}", "")) for one in comments]
    )
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
    row = connection.execute(f"select count(*) from target.{quoted}").fetchone()  # noqa: S608
    return int(row[0]) if row else 0


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
