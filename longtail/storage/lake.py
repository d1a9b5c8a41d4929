"""The lake: Parquet files that appear whole or not at all, one per partition. Each table has one writer.

The Parquet metadata of each file has two stamps and a checksum. `fingerprint` is a hash of all inputs; it tells a
current partition from a stale one. `content` is a hash of the rows; later stages build their fingerprints from it. A
damaged partition is not current, so its stage makes it again, and no later stage reads it.
"""

from __future__ import annotations

import functools
import io
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from longtail.errors import LakeError, printable
from longtail.progress import Progress
from longtail.storage.files import STAGING, atomic_file, remove_leftovers, stage
from longtail.storage.lake_files import (
    BATCH_ROWS,
    Stamp,
    columns_of,
    conform,
    content_hash,
    content_of,
    damage_of,
    metadata_of,
    part_of,
    seal,
    stamp_of,
)
from longtail.storage.object_store import ObjectStore
from longtail.tables import TABLES

_LOG = logging.getLogger("longtail")
WHOLE = "all"
_SCHEMA_FILE = "_schema"
_RAW_LIMIT = 2_000


@dataclass(frozen=True)
class Streamed:
    """Rows that do not fit in memory: tables that are written one after the other."""

    tables: Iterator[pa.Table]

    @classmethod
    def of(cls, table: str, rows: Iterable[Mapping[str, Any]]) -> Streamed:
        """Rows of a lake table in parts. Up to `PART_ROWS` rows have the content hash that they have unstreamed."""
        whole = iter(rows)
        return cls(iter(lambda: part_of(table, whole), None))


Rows: TypeAlias = "pa.Table | Sequence[Mapping[str, Any]] | Streamed"


@dataclass(frozen=True)
class QuarantinedRow:
    """A row in quarantine: its key in the source, the reason, and the original."""

    row_key: str
    reason: str
    raw: str


@dataclass(frozen=True)
class Computed:
    """What a computation gives to the lake: rows, quarantined rows, and notes for people (counts, rates).

    With streamed rows, `quarantined` and `notes` may be filled while the rows are written: they are read after that.
    """

    rows: Rows
    quarantined: Sequence[QuarantinedRow] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """The result of materialising one partition. `was_current`: the file was current and nothing was computed."""

    table: str
    partition: str
    stamp: Stamp
    was_current: bool
    notes: Mapping[str, Any] = field(default_factory=dict)


class Lake:
    """The lake of one study: `<root>/<table>/<partition>.parquet`.

    A partition's name joins its keys with `|`, as Dagster does (`model|method`). File names have `__` instead. With
    a `store`, other machines receive what is written and discarded here.
    """

    def __init__(self, root: Path, store: ObjectStore | None = None) -> None:
        self.root, self._store = root, store

    @classmethod
    def of(cls, study: str, root: Path) -> Lake:
        """The lake of the study called `study`, with the store that the environment names."""
        return cls(root, ObjectStore.of(study, root))

    def synchronise(self) -> None:
        """Fetch what other machines have written, and put what a killed run has left. Errors: `LakeError`."""
        if self._store:
            self._store.synchronise()

    def path(self, table: str, partition: str = WHOLE) -> Path:
        """The file of one partition."""
        return self.root / table / f"{partition.replace('|', '__')}.parquet"

    def ensure_schemas(self) -> None:
        """Write every table's zero-row schema file if it is missing or damaged, or if the columns have changed.

        This also removes the files that killed writers left. Nothing waits for the disk: the next start compares them.
        Errors: `OSError`.
        """
        remove_leftovers(self.root / STAGING)
        with stage(self.root / STAGING, "schemas") as folder:
            folder.mkdir()
            for name, table in TABLES.items():
                path, content = self.path(name, _SCHEMA_FILE), _empty_file(table.schema)
                if not path.exists() or path.read_bytes() != content:
                    path.parent.mkdir(exist_ok=True)
                    (folder / name).write_bytes(content)
                    os.replace(folder / name, path)

    def write(
        self,
        table: str,
        rows: Rows,
        *,
        fingerprint: str,
        partition: str = WHOLE,
        quarantined: Iterable[QuarantinedRow] = (),
    ) -> Stamp:
        """Write one whole partition; it appears after its quarantine. Return its stamp.

        Errors: `LakeError` where rows do not fit the table's schema or the disk fails; the old file then stays. Also
        where another machine has written the partition from other inputs meanwhile.
        """
        parts = rows.tables if isinstance(rows, Streamed) else iter([rows])
        first = conform(table, next(parts, ()))
        hashes, n_rows = [content_hash(first)], first.num_rows
        with atomic_file(self.path(table, partition)) as temporary:
            with pq.ParquetWriter(temporary, TABLES[table].schema, compression="zstd") as writer:
                writer.write_table(first)
                for part in parts:
                    data = conform(table, part)
                    writer.write_table(data)
                    hashes.append(content_hash(data))
                    n_rows += data.num_rows
                rejected = list(quarantined)
                if table != "quarantine":
                    self._write_quarantine(table, partition, rejected, fingerprint)
                stamp = Stamp(fingerprint, content_of(hashes), n_rows, len(rejected), columns_of(table))
                writer.add_key_value_metadata(metadata_of(stamp))
            seal(temporary)
        return _share(self._store, table, self.path(table, partition), stamp) if self._store else stamp

    def discard(self, table: str, partition: str = WHOLE) -> None:
        """Remove a partition and its quarantine, if they exist."""
        for path in (self.path(table, partition), self.path("quarantine", f"{table}|{partition}")):
            self._unlink(path)

    def _unlink(self, path: Path) -> None:
        if self._store:
            self._store.remove(path)
        path.unlink(missing_ok=True)

    def materialise(
        self,
        table: str,
        fingerprint: str,
        compute: Callable[[], Computed],
        partition: str = WHOLE,
        lock: AbstractContextManager[object] | None = None,
    ) -> Outcome:
        """Keep a current partition; otherwise compute and write it.

        While it is computed, `lock` is held, for which a current partition does not wait. Another process that held it
        may have made the partition.
        """
        stamp = self.current(table, fingerprint, partition)
        if stamp:
            return Outcome(table, partition, stamp, was_current=True)
        if lock:
            with lock:
                return self.materialise(table, fingerprint, compute, partition)
        for name, part in ((table, partition), ("quarantine", f"{table}|{partition}")):
            if damage := damage_of(self.path(name, part)):
                _LOG.warning("%s; lake/%s makes it again", damage, table)
        computed = compute()
        stamp = self.write(
            table,
            computed.rows,
            fingerprint=fingerprint,
            partition=partition,
            quarantined=computed.quarantined,
        )
        return Outcome(table, partition, stamp, was_current=False, notes=computed.notes)

    def read(
        self,
        table: str,
        partition: str = WHOLE,
        columns: list[str] | None = None,
        only: pc.Expression | None = None,
    ) -> pa.Table:
        """Read one partition; with `only`, the rows that fulfil it.

        Errors: `LakeError` naming the table, the partition and what to materialise.
        """
        path = self._intact(table, partition)
        try:
            return pq.read_table(path, columns=columns, partitioning=None, filters=only)
        except (pa.ArrowException, OSError) as error:
            raise LakeError(
                f"{path} cannot be read ({error}); delete it and materialise lake/{table} again"
            ) from error

    def head(self, table: str, partition: str, n: int) -> list[dict[str, Any]]:
        """The first `n` rows of a partition."""
        with pq.ParquetFile(self.path(table, partition)) as file:
            return next((batch.to_pylist() for batch in file.iter_batches(n)), [])

    def batches(self, table: str, partition: str = WHOLE) -> Iterator[pa.Table]:
        """The rows of a partition that may be larger than memory, in order. Errors: as `read`."""
        with pq.ParquetFile(self._intact(table, partition)) as file:
            for batch in file.iter_batches(BATCH_ROWS):
                yield pa.Table.from_batches([batch])

    def read_all(self, table: str, columns: list[str] | None = None) -> pa.Table:
        """Read every partition of a table; zero rows if there are none."""
        parts = [self.read(table, partition, columns) for partition in self.partitions(table)]
        schema = TABLES[table].schema
        empty = schema.empty_table().select(columns) if columns else schema.empty_table()
        return pa.concat_tables([empty, *(part.replace_schema_metadata(None) for part in parts)])

    def partitions(self, table: str) -> list[str]:
        """The partitions that have a file, sorted."""
        files = (self.root / table).glob("*.parquet")
        return sorted(f.stem.replace("__", "|") for f in files if f.stem != _SCHEMA_FILE)

    def stamp(self, table: str, partition: str = WHOLE) -> Stamp | None:
        """The stamp of a partition's file; None where the file is missing, damaged or without a stamp."""
        try:
            return stamp_of(self.path(table, partition))
        except (FileNotFoundError, LakeError):
            return None

    def current(self, table: str, fingerprint: str, partition: str = WHOLE) -> Stamp | None:
        """The stamp of a partition that was made from exactly these inputs; None where it must be computed."""
        stamp = self.stamp(table, partition)
        if not stamp or (stamp.fingerprint, stamp.columns) != (fingerprint, columns_of(table)):
            return None
        rejected = self.stamp("quarantine", f"{table}|{partition}")
        stamped = (rejected.fingerprint, rejected.n_rows) if rejected else (fingerprint, 0)
        return stamp if stamped == (fingerprint, stamp.n_quarantined) else None

    def content(self, table: str, partition: str = WHOLE) -> str:
        """The content hash of an input, for a fingerprint. Errors: `LakeError` where it is missing or damaged."""
        return stamp_of(self._intact(table, partition)).content

    def discard_damage(self) -> None:
        """Remove the damaged partitions of all tables from this home, so that their stages make them again.

        A damaged partition would stop every stage that reads it, also those that come before its own. A store keeps its
        objects.
        """
        partitions = [(table, partition) for table in TABLES for partition in self.partitions(table)]
        with Progress(_LOG, "checking the files of the lake", len(partitions)) as progress:
            for table, partition in partitions:
                path = self.path(table, partition)
                if damage := damage_of(path):
                    maker = partition.partition("|")[0] if table == "quarantine" else table
                    _LOG.warning("%s; lake/%s makes it again", damage, maker)
                    path.unlink(missing_ok=True)
                progress.add(1)

    def require_intact(self) -> None:
        """Check every partition that a reader of whole tables would find.

        Errors: `LakeError` that names the first damaged file, and what makes it again.
        """
        for table in TABLES:
            for partition in self.partitions(table):
                self._intact(table, partition)

    def _intact(self, table: str, partition: str) -> Path:
        """The file of a partition that is as it was written. Errors: `LakeError` that says what makes it again."""
        path = self.path(table, partition)
        owner, _, owned = partition.partition("|") if table == "quarantine" else (table, "", partition)
        where = "" if owned == WHOLE else f", partition {owned},"
        if not path.exists():
            raise LakeError(
                f"lake table {table}{where.rstrip(',')} is missing ({path}); materialise asset lake/{owner} first"
            )
        if damage := damage_of(path):
            raise LakeError(
                f"{damage}; materialise asset lake/{owner}{where} again, or delete the file if the study has no "
                "such partition any more"
            )
        return path

    def _write_quarantine(
        self, table: str, partition: str, rejected: list[QuarantinedRow], stamp: str
    ) -> None:
        name = f"{table}|{partition}"
        path = self.path("quarantine", name)
        if not rejected:
            self._unlink(path)
            return
        rows = [
            {
                "table_name": table,
                "partition": "" if partition == WHOLE else partition,
                "row_key": printable(row.row_key),
                "reason": row.reason,
                "raw": printable(row.raw[:_RAW_LIMIT]),
            }
            for row in rejected
        ]
        self.write("quarantine", rows, fingerprint=stamp, partition=name)


@functools.cache
def _empty_file(schema: pa.Schema) -> bytes:
    sink = io.BytesIO()
    pq.write_table(schema.empty_table(), sink)
    return sink.getvalue()


def _share(store: ObjectStore, table: str, path: Path, stamp: Stamp) -> Stamp:
    """Put a partition into the store; return the stamp of the file, which may be another machine's now.

    Errors: `LakeError` if the other machine has made it from other inputs.
    """
    store.put(path)
    shared = stamp_of(path)
    if shared.fingerprint != stamp.fingerprint:
        raise LakeError(
            f"{path}: another machine has made it from other inputs meanwhile; use the same study file, version and "
            "data on all machines, and run again"
        )
    return shared
