"""The published marts as Parquet files with a dataset card: a folder to share, or to push to a hub.

`published/export` is a link to the newest of `published/exports`. The link changes in one step, and the previous folder
stays for its readers until the next export. View `fct_prompts` is not a file: the SQL in `load.sql` rebuilds it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from longtail.progress import Progress
from longtail.study.imports import NO_LICENCE
from longtail.study.study import Study
from longtail.warehouse.publication import (
    SCHEMA,
    Publication,
    comments_of,
    literal,
    marts_of,
    open_publication,
    publication_of,
    publish_folder,
    statement,
)

_CARD = Path(__file__).with_name("card.md")
_DATA = "data"
_ROW_GROUP = 122_880  # rows per group, as in DuckDB itself
_MARKUP = re.compile(r"[\\|<>\[\]*_`&~#!]")
_SIZES = (
    (10**3, "n<1K"),
    (10**4, "1K<n<10K"),
    (10**5, "10K<n<100K"),
    (10**6, "100K<n<1M"),
    (10**7, "1M<n<10M"),
)
_LICENCES = {
    ("sandbox",): (
        "apache-2.0",
        "The sandbox's world (names, facts, views, articles) is synthetic and describes nobody.",
    ),
    ("wikidata", "wikimedia"): (
        "cc0-1.0",
        "Entities and facts are Wikidata's, page views the Wikimedia Foundation's: CC0 1.0.",
    ),
    ("wikipedia",): (
        "cc-by-sa-4.0",
        "Texts of passages are English Wikipedia's: CC BY-SA 4.0, credit each article.",
    ),
    ("popqa",): ("mit", "Questions, gold answers and popularity of PopQA: MIT, by Alex Mallen and others."),
    ("entity_questions",): (
        "mit",
        "Questions and gold answers of EntityQuestions: MIT, by Princeton's NLP group.",
    ),
    ("rdf_file", "answers", "paraphrases"): (
        "other",
        "Facts, wordings and answers from other files stay under those files' licences: ask who made them.",
    ),
}
"""By the sources in the rows that require it: the licence's name on the hub, and a sentence. `answers` and `paraphrases`
mean imported ones."""
_HUB = frozenset(
    {"apache-2.0", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0", "cc0-1.0", "mit", "odc-by"}
)
"""Names of licences on the hub that a collection's own words may stand for."""


@dataclass(frozen=True)
class ExportedTable:
    """One exported table: its file, its columns (name, comment, Arrow type), rows, bytes, and the catalogue's words."""

    name: str
    path: str
    columns: tuple[tuple[str, str, pa.DataType], ...]
    n_rows: int
    n_bytes: int
    description: str
    grain: str | None
    source: str | None


Licence = tuple[str, str]
"""A licence's name on the hub, empty for rows that are left out; and what whoever shares the data must know or name."""


def licence_of_collection(
    collection: str, source: str, date: str | None, licence: str, n_passages: int
) -> Licence:
    """The licence of a collection whose passages are published. `source`: whose texts they are."""
    dated = f", {date}" if date else ""
    return _hub_name(licence), (
        f"{n_passages:,} passages of `dim_passages` are from collection {_plain(collection)}: {_plain(source)}{dated}; "
        f"{_plain(licence)}. Column `title` names the article to credit."
    )


def licence_of_files(licence: str, rows: Sequence[str]) -> Licence:
    """The licence, or `NO_LICENCE`, of rows of imported files: questions of a dataset, answers of a model to one."""
    named = ", ".join(rows)
    if licence == NO_LICENCE:
        return (
            "",
            f"Left out, because their sources state no licence: rows with {named}. Rates over them are here.",
        )
    return _hub_name(licence), f"{_plain(licence)}: {named}."


def _hub_name(licence: str) -> str:
    """The licence's name on the hub; `other` for licences that are not known."""
    name = "-".join(licence.lower().split())
    return name if name in _HUB else "other"


def card(publication: Publication, tables: Sequence[ExportedTable], licences: Sequence[Licence]) -> str:
    """The whole README.md, with the licences that apply, in order."""
    front = yaml.safe_dump(
        _front(publication, tables, [name for name, _ in licences if name]),
        sort_keys=False, allow_unicode=True, width=1_000,
    )  # fmt: skip
    return f"---\n{front}---\n\n{_text(publication, tables, licences)}"


def _front(publication: Publication, tables: Sequence[ExportedTable], names: Sequence[str]) -> dict[str, Any]:
    licences = list(dict.fromkeys(names))
    n_rows = max((table.n_rows for table in tables), default=0)
    return {
        "pretty_name": f"Longtail: {publication.study}",
        "license": licences[0] if len(licences) == 1 else licences or "unknown",
        "language": ["en"],
        "task_categories": ["question-answering"],
        "tags": ["popqa", "long-tail", "retrieval-augmented-generation", "adaptive-retrieval"],
        "size_categories": [next((name for most, name in _SIZES if n_rows < most), "n>10M")],
        "configs": [
            {
                "config_name": table.name,
                "data_files": [{"split": "train", "path": table.path}],
                **({"default": True} if table.name == "fct_answers" else {}),
            }
            for table in tables
        ],
        "longtail": {
            "study": publication.study,
            "dbt_invocation_id": publication.invocation_id,
            "published_at": publication.published_at.isoformat(),
            "code_version": publication.code_version,
        },
    }


def _text(publication: Publication, tables: Sequence[ExportedTable], licences: Sequence[Licence]) -> str:
    overview = [
        f"| `{table.name}` | {table.n_rows:,} | {table.n_bytes:,} | {_plain(table.description)} |"
        for table in tables
    ]
    said = [f"- `{name}`: {sentence}" if name else f"- {sentence}" for name, sentence in licences]
    parts = {
        "study": _plain(publication.study),
        "description": _plain(publication.description),
        "licences": "\n".join(said),
        "n_tables": len(tables),
        "n_bytes": sum(table.n_bytes for table in tables),
        "overview": "\n".join(overview),
        "sections": "\n".join(line for table in tables for line in _section(table)),
    }
    return _CARD.read_text(encoding="utf-8").rstrip("\n").format(**{**vars(publication), **parts})


def _section(table: ExportedTable) -> list[str]:
    return [
        f"### {table.name}",
        "",
        _plain(table.description),
        *([f"Key: {_plain(table.grain)}."] if table.grain else []),
        *([f"Source: {_plain(table.source)}."] if table.source else []),
        "",
        "| column | type | |",
        "|---|---|---|",
        *(f"| `{name}` | `{type_}` | {_plain(comment)} |" for name, comment, type_ in table.columns),
        "",
    ]


def _plain(text: str) -> str:
    """Text on one line that no Markdown reader interprets as markup."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split()))


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
    with Progress(log, "export of the marts"), open_publication(published) as connection:
        connection.execute("set enable_progress_bar = false")
        publication = publication_of(connection)

        def write(folder: Path) -> None:
            _write(connection, publication, study, folder)

        # Other licences leave other rows out.
        was_current = publish_folder(target, publication, "longtail.warehouse", write, study.licences)
    n_bytes = sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
    files = [target / _DATA / f"{name}.parquet" for name in publication.n_rows]
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
        *(licence for sources, licence in _LICENCES.items() if in_rows.intersection(sources)),
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
