"""Published files: what a warehouse says about itself (table `publication`, comments, a headline), and how a new version
appears."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from longtail.errors import PublishError
from longtail.storage.checksums import RECORD, compare_files, record
from longtail.storage.files import sync
from longtail.storage.fingerprints import code_version, fingerprint, folder_version
from longtail.storage.home import StudyHome, command
from longtail.storage.ownership import only_one

_UNREADABLE = (
    duckdb.IOException,
    duckdb.SerializationException,
    duckdb.CatalogException,
    duckdb.BinderException,
)
"""Not a database, a damaged one, or one with the tables and columns of an older version."""


@dataclass(frozen=True)
class Publication:
    """The one row of table `publication`: study, dbt run, time and versions."""

    study: str
    description: str
    published_at: datetime
    invocation_id: str
    dbt_version: str
    duckdb_version: str
    code_version: str
    n_rows: dict[str, int]


def connect_to_publication(published: Path) -> duckdb.DuckDBPyConnection:
    """A read-only connection to a published file.

    Errors: `PublishError` if it is missing or not a DuckDB file, or if a log is beside it. DuckDB would replay the log,
    and Longtail never publishes one.
    """
    if not published.exists():
        raise PublishError(f"{published}: nothing is published yet; run `{command('run')}`")
    if log_of(published).exists():
        raise PublishError(
            f"{log_of(published)}: Longtail writes no such log; `{command('run')}` publishes again"
        )
    try:
        return duckdb.connect(str(published), read_only=True)
    except duckdb.Error as error:
        raise unreadable(published, error) from error


def unreadable(published: Path, error: duckdb.Error) -> PublishError:
    """The error for a published file that DuckDB cannot read."""
    reason = str(error).splitlines()[0]
    return PublishError(f"{published} cannot be read ({reason}); publish the warehouse again")


@contextmanager
def open_publication(published: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The same connection as a context. It reads no other file; a file that proves unreadable raises the same error."""
    with connect_to_publication(published) as connection:
        connection.execute("set enable_external_access = false")
        try:
            yield connection
        except _UNREADABLE as error:
            raise unreadable(published, error) from error


def read_publication(published: Path) -> Publication:
    """What the published file at `published` says about itself. Errors: `PublishError` if it is missing or unreadable."""
    with open_publication(published) as connection:
        return publication_of(connection)


def publication_of(connection: duckdb.DuckDBPyConnection) -> Publication:
    """The same for an open connection, which keeps its file even if another file takes its place."""
    row = connection.execute(
        "select study, description, published_at, dbt_invocation_id, dbt_version, duckdb_version, code_version, n_rows "
        "from marts.publication"
    ).fetchone()
    if row is None:
        raise PublishError("table publication of the published warehouse is empty; publish it again")
    study, description, published_at, *rest = row
    return Publication(study, description, published_at.replace(tzinfo=UTC), *rest)


def log_of(published: Path) -> Path:
    """Where DuckDB keeps the log of changes to a file. The next process that opens the file replays the log."""
    return published.with_name(published.name + ".wal")


def record_of(published: Path) -> Path:
    """Where the checksums of a published file, and of what belongs to it, are recorded, in the form of `sha256sum`."""
    return published.with_name(published.name + ".sha256")


def find_damage(home: StudyHome) -> str | None:
    """What is wrong with the published files, in words. None means that all are there, and every byte is as published.

    Reads each file once: 0.4 s for 500 MB, the size of a warehouse of half a million answers.
    """
    warehouse = home.published_warehouse
    try:
        read_publication(warehouse)
    except PublishError as error:
        return str(error)
    pages = (warehouse, home.published_report, home.published_answers, home.published_docs)
    folders = (home.published_export, home.published_router)
    for file in (*map(record_of, pages), *(folder / RECORD for folder in folders)):
        for name, wrong in compare_files(file).items():
            return f"{file.parent / name} {wrong}"
    return None


SCHEMA = "marts"


@dataclass(frozen=True)
class Comment:
    """The comment of a mart, or of its `column`; `kind` is that of the mart: table or view."""

    mart: str
    kind: str
    column: str | None
    text: str


def literal(text: str) -> str:
    """A text as an SQL literal, for statements that take no parameters."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def marts_of(connection: duckdb.DuckDBPyConnection, database: str) -> dict[str, str]:
    """Every relation of the database's marts by name: table or view."""
    return dict(
        connection.execute(
            "select table_name, 'table' from duckdb_tables() where database_name = $1 and schema_name = $2 "
            "union all select view_name, 'view' from duckdb_views() where database_name = $1 and schema_name = $2 "
            "order by all",
            [database, SCHEMA],
        ).fetchall()
    )


def comments_of(
    connection: duckdb.DuckDBPyConnection, database: str, marts: Collection[str]
) -> list[Comment]:
    """The comments of `marts` in a database: first each mart's own comment, then those of its columns, in order."""
    rows = connection.execute(
        "with relations as ("
        "    select table_name, 'table' as kind, comment from duckdb_tables() "
        "    where database_name = $1 and schema_name = $2 "
        "    union all select view_name, 'view', comment from duckdb_views() "
        "    where database_name = $1 and schema_name = $2"
        "), said as ("
        "    select table_name, kind, null as column_name, comment, -1 as position from relations "
        "    union all select table_name, relations.kind, columns.column_name, columns.comment, columns.column_index "
        "    from duckdb_columns() as columns inner join relations using (table_name) "
        "    where columns.database_name = $1 and columns.schema_name = $2"
        ") select table_name, kind, column_name, comment from said "
        "where comment is not null and list_contains($3, table_name) order by table_name, position",
        [database, SCHEMA, list(marts)],
    ).fetchall()
    return [Comment(*row) for row in rows]


def write_comments(
    connection: duckdb.DuckDBPyConnection,
    comments: Sequence[Comment],
    schema: str = SCHEMA,
    kind: str | None = None,
) -> None:
    """Write comments in `schema`, all at once: a call per comment takes twice as long."""
    connection.execute("".join(f"{statement(comment, schema, kind)};\n" for comment in comments))


def statement(comment: Comment, schema: str = SCHEMA, kind: str | None = None) -> str:
    """The SQL that writes a comment in `schema`, where the relation may have another `kind`."""
    name = f'{schema}."{comment.mart}"'
    what = f'column {name}."{comment.column}"' if comment.column else f"{kind or comment.kind} {name}"
    return f"comment on {what} is {literal(comment.text)}"


KEPT_FOLDERS = 2


@contextmanager
def staging_beside(published: Path, name: str) -> Iterator[Path]:
    """A new folder for the future `published / name`. Removes what a killed process left of the same."""
    staging = published / f".staging-{name}"
    with only_one(published / f".lock-{name}", None):
        shutil.rmtree(staging, ignore_errors=True)
        folder = staging / uuid.uuid4().hex
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def next_version(folder: Path, identity: str) -> str:
    """The name of the next version in `folder`, whose content `identity` tells from any other.

    It begins with a number that counts publications, so that versions sorted by name are in the order of publication: no
    clock decides which one is the newest.
    """
    numbers = (path.name.partition("-")[0] for path in folder.glob("*-*"))
    number = max((int(number) for number in numbers if number.isdecimal()), default=0) + 1
    return f"{number:06d}-{identity}"


def publish_folder(
    target: Path, publication: Publication, package: str, write: Callable[[Path], object], *settings: object
) -> bool:
    """Make `target` a link to a folder that `write` fills, or to the last one if that was made from the same; whether it
    was.

    It is made from a publication, the code of `package` and of its imports, and `settings`. The link changes in one step,
    and the folder before it stays for its readers until the next one. Errors: `PublishError` if the disk fails, or if
    something else than a link is at `target`, which must not be replaced.
    """
    if target.exists() and not target.is_symlink():
        raise PublishError(f"{target}: is not a link to a version of it; move it away, then run again")
    made_from = (publication.invocation_id, publication.published_at.isoformat())
    identity = fingerprint(made_from, folder_version(package), code_version(package), settings)[:16]
    versions = target.with_name(f"{target.name}s")
    try:
        with staging_beside(target.parent, target.name) as staging:
            same = sorted(versions.glob(f"*-{identity}"))
            is_current = bool(same) and not compare_files(same[-1] / RECORD)
            folder = same[-1] if is_current else versions / next_version(versions, identity)
            if not is_current:
                new = staging / "new"
                write(new)
                record(new)
                (new / RECORD).chmod(0o444)
                for path in (*new.rglob("*"), new):
                    sync(path)
                versions.mkdir(exist_ok=True)
                os.replace(new, folder)
                sync(versions)
            link = staging / "link"
            link.symlink_to(folder.relative_to(target.parent))
            os.replace(link, target)
            sync(target.parent)
            others = sorted(other for other in versions.iterdir() if other != folder)
            for old in others[: max(0, len(others) - KEPT_FOLDERS + 1)]:
                shutil.rmtree(old, ignore_errors=True)
    except (OSError, duckdb.Error) as error:
        raise PublishError(
            f"{target}: could not be published ({error}); the previous version stays"
        ) from error
    return is_current


HEADLINE_SQL = """select accuracy.dataset, accuracy.prompt, accuracy.model, accuracy.method, accuracy.n,
    accuracy.n_correct, accuracy.accuracy, accuracy.ci_low, accuracy.ci_high,
    nullif(accuracy.share_declined, 0) as share_declined,
    if(accuracy.n_declined > 0, accuracy.accuracy_attempted, null) as accuracy_attempted,
    if(accuracy.n_declined > 0, accuracy.accuracy_attempted_ci_low, null) as accuracy_attempted_ci_low,
    if(accuracy.n_declined > 0, accuracy.accuracy_attempted_ci_high, null) as accuracy_attempted_ci_high,
    correlation.pearson_binned,
    adaptive.accuracy_adaptive, adaptive.accuracy_always, adaptive.accuracy_never,
    adaptive.share_retrieved
from marts.fct_accuracy as accuracy
left join marts.fct_popularity_correlation as correlation using (dataset, prompt, model, method, relation)
left join (
    select found.* from marts.fct_adaptive_accuracy as found
    inner join marts.dim_methods as memory on found.parametric_method = memory.method
    where memory.kind = 'memory' and found.search = 'exact' and found.threshold_scope = 'per_relation'
) as adaptive
    on accuracy.dataset = adaptive.dataset and accuracy.prompt = adaptive.prompt
    and accuracy.model = adaptive.model and accuracy.method = adaptive.retrieval_method
left join marts.dim_models as models on accuracy.model = models.model
left join marts.dim_methods as methods on accuracy.method = methods.method
left join marts.dim_datasets as datasets on accuracy.dataset = datasets.dataset
left join marts.dim_prompts as prompts on accuracy.prompt = prompts.prompt
where accuracy.relation = 'all'
order by datasets.position_in_study, prompts.position_in_study, models.n_parameters, accuracy.model,
    not methods.is_parametric, accuracy.method"""
"""The query of the terminal and of the report."""


def headline(published: Path) -> list[dict[str, Any]]:
    """The rows of `HEADLINE_SQL` in a published file: one per (dataset, prompt, model, method).

    `pearson_binned` is the correlation of bin accuracy with log popularity. `share_declined` and the accuracy of the
    other answers, `accuracy_attempted`, are None where no answer is declined; `share_retrieved` and the accuracies
    beside it are None for methods that do not retrieve. These three accuracies are held-out: means over splits,
    thresholds per relation, against memory alone, on the questions with popularity and both answers.

    Errors: `PublishError` if the file is missing or unreadable.
    """
    with open_publication(published) as connection:
        cursor = connection.execute(HEADLINE_SQL)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


_COLUMNS = {
    "dataset": ("dataset", ""),
    "prompt": ("prompt", ""),
    "model": ("model", ""),
    "method": ("method", ""),
    "n": ("n", ","),
    "accuracy": ("accuracy", ".3f"),
    "95 % interval": ("interval", ""),
    "declined": ("share_declined", ".0%"),
    "of the rest": ("accuracy_attempted", ".3f"),
    "r(popularity)": ("pearson_binned", "+.3f"),
    "adaptive": ("accuracy_adaptive", ".3f"),
    "always": ("accuracy_always", ".3f"),
    "never": ("accuracy_never", ".3f"),
    "retrieved": ("share_retrieved", ".0%"),
}
"""By heading: the column, and how Python formats its numbers."""
_TEXTS = ("dataset", "prompt", "model", "method")


def render_headline(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table in plain text: a header, a rule, one line per row; one sentence if there are no rows.

    Columns dataset and prompt are left out if they have only one value, those of declined answers if there are none.
    """
    if not rows:
        return "The published marts have no answers to questions; table catalogue lists what they have."
    rows = [{**row, "interval": f"{row['ci_low']:.3f} to {row['ci_high']:.3f}"} for row in rows]
    cells = {
        heading: ["" if row[column] is None else format(row[column], spec) for row in rows]
        for heading, (column, spec) in _COLUMNS.items()
    }
    left_out = {heading for heading in ("dataset", "prompt") if len({*cells[heading]}) == 1}
    left_out |= {heading for heading in ("declined", "of the rest") if not any(cells[heading])}
    aligned = [
        _align([heading, *column], left=heading in _TEXTS)
        for heading, column in cells.items()
        if heading not in left_out
    ]
    lines = ["  ".join(line).rstrip() for line in zip(*aligned, strict=True)]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _align(column: Sequence[str], *, left: bool) -> list[str]:
    width = max(map(len, column))
    return [cell.ljust(width) if left else cell.rjust(width) for cell in column]
