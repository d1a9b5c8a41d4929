"""The published marts as Parquet files with a dataset card: a folder to share, or to push to a hub.

`published/export` is a link to the newest of `published/exports`. The link changes in one step, and the previous folder
stays for its readers until the next export. View `fct_prompts` is not a file: the SQL in `load.sql` rebuilds it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from longtail.errors import PublishError
from longtail.progress import Progress
from longtail.study.imports import NO_LICENCE
from longtail.study.study import Study
from longtail.warehouse.card import (
    LICENCES,
    ExportedTable,
    Licence,
    card,
    licence_of_collection,
    licence_of_files,
)
from longtail.warehouse.comments import SCHEMA, comments_of, literal, marts_of, statement
from longtail.warehouse.publication import Publication, connect_to_publication, publication_of
from longtail.warehouse.staging import (
    check_link,
    find_version,
    identity_of,
    move_folder,
    next_version,
    point_to,
    staging_beside,
)

_DATA = "data"
_ROW_GROUP = 122_880  # rows per group, as in DuckDB itself
_KINDS = {
    "sandbox": {"sandbox"},
    "wikidata": {"wikidata", "wikimedia"},
    "wikipedia": {"wikipedia"},
    "popqa": {"popqa"},
    "entity_questions": {"entity_questions"},
    "imported": {"rdf_file", "answers", "paraphrases"},
}
"""By licence (`card`): the sources in the rows that require it. `answers` and `paraphrases` mean imported ones."""


@dataclass(frozen=True)
class ExportReport:
    """The result of an export: the folder, rows by table, total bytes, and whether the folder existed already."""

    path: Path
    invocation_id: str
    n_rows: dict[str, int]
    n_bytes: int
    was_current: bool


def export_marts(study: Study, log: logging.Logger) -> ExportReport:
    """Export the study's published warehouse to `published/export`.

    Errors: `PublishError` if nothing is published yet or the disk fails. The previous export then stays.
    """
    published, target = study.home.published_warehouse, study.home.published_export
    check_link(target, "an export", "export")
    try:
        with (
            Progress(log, "export of the marts"),
            connect_to_publication(published) as connection,
            staging_beside(study.home.published, "export") as staging,
        ):
            connection.execute("set enable_progress_bar = false")
            publication = publication_of(connection)
            # Other licences leave other rows out.
            identity = identity_of(publication, "longtail.warehouse", study.licences)
            exports = study.home.published / "exports"
            current = find_version(exports, identity)
            was_current = current is not None
            folder = current or exports / next_version(exports, identity)
            if not was_current:
                new = staging / "export"
                _write(connection, publication, study, new)
                move_folder(new, folder)
            point_to(target, folder, staging)
    except (OSError, duckdb.Error) as error:
        raise PublishError(f"{target}: could not be exported ({error}); the previous export stays") from error
    n_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    files = [folder / _DATA / f"{name}.parquet" for name in publication.n_rows]
    n_rows = {file.stem: pq.read_metadata(file).num_rows for file in files}
    log.info("exported %d tables to %s, %d bytes", len(n_rows), target, n_bytes)
    return ExportReport(target, publication.invocation_id, n_rows, n_bytes, was_current)


def _write(
    connection: duckdb.DuckDBPyConnection, publication: Publication, study: Study, folder: Path
) -> None:
    (folder / _DATA).mkdir(parents=True)
    described = connection.execute(
        f"select table_name, description, grain, source from {SCHEMA}.catalogue where kind = 'table' "  # noqa: S608
        "order by table_name"
    ).fetchall()
    tables = [_write_table(connection, study, folder, *row) for row in described]
    (folder / "load.sql").write_text(_load_sql(connection, tables), encoding="utf-8")
    readme = card(publication, tables, _licences(connection, study))
    (folder / "README.md").write_text(readme, encoding="utf-8")


def _write_table(
    connection: duckdb.DuckDBPyConnection,
    study: Study,
    folder: Path,
    name: str,
    description: str,
    grain: str | None,
    source: str | None,
) -> ExportedTable:
    path = f"{_DATA}/{name}.parquet"
    columns = connection.execute(
        "select column_name, data_type, coalesce(comment, '') from duckdb_columns() "
        "where schema_name = ? and table_name = ? order by column_index",
        [SCHEMA, name],
    ).fetchall()
    # The readers of the hub do not know maps, so maps become lists of keys with values.
    maps = [
        f'map_entries("{column}") as "{column}"' for column, type_, _ in columns if type_.startswith("MAP(")
    ]
    chosen = f"* replace ({', '.join(maps)})" if maps else "*"
    comments = {column: comment for column, _, comment in columns}
    file = folder / path
    rows = connection.sql(f'select {chosen} from {SCHEMA}."{name}" where {_export_table(study, comments)}')  # noqa: S608
    _write_with_comments(rows, description, comments, file)
    metadata, schema = pq.read_metadata(file), pq.read_schema(file)
    types = tuple((column, comment, schema.field(column).type) for column, comment in comments.items())
    return ExportedTable(
        name, path, types, metadata.num_rows, file.stat().st_size, description, grain, source
    )


def _write_with_comments(
    rows: duckdb.DuckDBPyRelation, description: str, comments: Mapping[str, str], file: Path
) -> None:
    """Write rows with the comments of table and columns: in the metadata of Arrow's fields, which Arrow returns, and in
    that of the file (`comment`, `column_comments` as JSON), which any reader of Parquet shows.
    """
    reader = rows.to_arrow_reader(_ROW_GROUP)
    fields = [field.with_metadata({"comment": comments[field.name]}) for field in reader.schema]
    of_file = {"comment": description, "column_comments": json.dumps(comments, ensure_ascii=False)}
    schema = pa.schema(fields, of_file)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))


def _load_sql(connection: duckdb.DuckDBPyConnection, tables: Sequence[ExportedTable]) -> str:
    """SQL that makes schema marts from the files, including the published views."""
    views = connection.execute(
        "select sql from duckdb_views() where schema_name = ? and not internal order by view_name", [SCHEMA]
    ).fetchall()
    (database,) = connection.sql("select current_database()").fetchall()[0]
    comments = comments_of(connection, database, marts_of(connection, database))
    return "\n".join([
        "-- Run in this folder: every table as a view on its file.",
        f"create schema {SCHEMA};",
        *(f'create view {SCHEMA}."{table.name}" as from {literal(table.path)};' for table in tables),
        *(sql for (sql,) in views),
        *(f"{statement(comment, kind='view')};" for comment in comments),
        f"use {SCHEMA};  -- so that the tables' names alone find them",
        "",
    ])  # fmt: skip


def _licences(connection: duckdb.DuckDBPyConnection, study: Study) -> list[Licence]:
    """The licences that apply to the published data: of its sources, of collections, and of imported files."""
    rows = connection.execute(
        "select source from marts.dim_entities union select source from marts.dim_passages "
        "union select source from marts.fct_popularity_history union select source from marts.dim_datasets "
        "union select 'answers' from marts.fct_answers where engine = 'imported'"
    ).fetchall()
    in_rows = {source for (source,) in rows}
    if any(dataset.paraphrases for dataset in study.datasets):
        in_rows.add("paraphrases")
    collections = connection.execute(
        "select collection, collection_source, collection_date, licence, count(*) from marts.dim_passages "
        "where collection is not null group by all order by all"
    ).fetchall()
    files: dict[str, dict[str, None]] = {}
    for licence, what in study.licences:
        if licence:
            files.setdefault(licence, {})[what] = None
    return [
        *(LICENCES[licence] for licence, sources in _KINDS.items() if in_rows & sources),
        *(licence_of_collection(*row) for row in collections),
        *(licence_of_files(licence, [*named]) for licence, named in files.items()),
    ]


def _export_table(study: Study, columns: Collection[str]) -> str:
    """Which rows of a table with these columns are exported: a condition that leaves out single questions, their
    subjects and answers whose source states no licence."""
    datasets = [
        dataset.name
        for dataset in study.datasets
        if dataset.imported and dataset.imported.licence == NO_LICENCE
    ]
    conditions = ["true"]
    if {"dataset", "question_id"} <= {*columns}:
        conditions.append(f"not list_contains({datasets}::text[], dataset)")
        if "model" in columns:
            answers = [
                f"{model.name}|{results.dataset}"
                for model in study.models
                for results in model.results
                if results.licence == NO_LICENCE
            ]
            conditions.append(f"not list_contains({answers}::text[], model || '|' || dataset)")
    elif "entity_id" in columns:
        subjects = (
            f"select subject_id from {SCHEMA}.dim_questions where list_contains({datasets}::text[], dataset)"  # noqa: S608
        )
        conditions.append(f"coalesce(entity_id not in ({subjects} and subject_id is not null), true)")
    return " and ".join(conditions)
