"""The passages that retrievers search: sorted by passage_id, in files that are mapped into memory; row number = id.

Nothing reads all passages at once: memory holds the rows that are asked for, and what the system maps of one shard.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longtail.errors import LakeError
from longtail.progress import Progress
from longtail.storage.checksums import differences
from longtail.storage.files import remove_leftovers, whole
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Lake
from longtail.tables import TABLES
from longtail.threads import thread_count

SHARD_ROWS = 250_000
_COLUMNS = ("passage_id", "entity_id", "title", "position", "text")
_SCHEMA = pa.schema([TABLES["passages"].schema.field(name) for name in _COLUMNS])
_BATCH_ROWS = 1_000
_SORT_MEMORY = "1GB"  # what does not fit is sorted in files


@dataclass(frozen=True)
class Passage:
    """One passage, as in lake table `passages`."""

    passage_id: str
    entity_id: str | None
    title: str
    position: int
    text: str


class StoredPassages:
    """Passages in the order of passage_id. A passage becomes an object only when it is asked for.

    `sizes`: rows of each shard; `opened` gives the table of a shard, of which one is kept open.
    """

    def __init__(self, sizes: Sequence[int], opened: Callable[[int], pa.Table]) -> None:
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self._opened = opened
        self._kept: tuple[int, pa.Table] | None = None

    @classmethod
    def of(cls, passages: Iterable[Passage], shard_rows: int = SHARD_ROWS) -> StoredPassages:
        """Passages in memory, in the order given."""
        rows = [{name: getattr(passage, name) for name in _COLUMNS} for passage in passages]
        parts = [rows[start : start + shard_rows] for start in range(0, len(rows), shard_rows)]
        return cls([len(part) for part in parts], lambda n: pa.Table.from_pylist(parts[n], _SCHEMA))

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, row: int) -> Passage:
        shard = int(np.searchsorted(self._starts, row, side="right")) - 1
        return Passage(**self.shard(shard).slice(row - int(self._starts[shard]), 1).to_pylist()[0])

    def __iter__(self) -> Iterator[Passage]:
        for table in self.shards():
            yield from _passages(table)

    @property
    def starts(self) -> list[int]:
        """The row at which each shard begins."""
        return [int(start) for start in self._starts[:-1]]

    def shard(self, number: int) -> pa.Table:
        """The rows of one shard."""
        if self._kept is None or self._kept[0] != number:
            self._kept = None
            self._kept = number, self._opened(number)
        return self._kept[1]

    def shards(self) -> Iterator[pa.Table]:
        """The rows of each shard in turn."""
        return (self.shard(number) for number in range(len(self.starts)))

    def ids(self, rows: np.ndarray) -> list[str]:
        """The passage_id of each row, in the order of `rows`."""
        ids = np.empty(len(rows), dtype=object)
        shards = np.searchsorted(self._starts, rows, side="right") - 1
        for shard in np.unique(shards):
            places = np.flatnonzero(shards == shard)
            column = self.shard(int(shard))["passage_id"]
            ids[places] = column.take(pa.array(rows[places] - self._starts[shard])).to_pylist()
        return ids.tolist()

    def texts(self, passage_ids: Collection[str]) -> dict[str, str]:
        """passage_id → text of the passages with these ids, as far as there are such."""
        wanted = pa.array(passage_ids, pa.string())
        texts: dict[str, str] = {}
        for table in self.shards():
            rows = table.filter(pc.is_in(table["passage_id"], wanted))
            texts |= zip(rows["passage_id"].to_pylist(), rows["text"].to_pylist(), strict=True)
        return texts

    def about(self, entity_ids: Collection[str]) -> Iterator[Passage]:
        """The passages about these entities."""
        wanted = pa.array(entity_ids, pa.string())
        for table in self.shards():
            yield from _passages(table.filter(pc.is_in(table["entity_id"], wanted)))


def texts_to_index(table: pa.Table) -> Iterator[str]:
    """The text that retrievers search of each row of a shard: the title, then the passage."""
    for batch in table.to_batches(_BATCH_ROWS):
        for title, text in zip(batch["title"].to_pylist(), batch["text"].to_pylist(), strict=True):
            yield f"{title}\n{text}"


def open_passages(lake: Lake, indexes: Path, log: logging.Logger) -> StoredPassages:
    """The lake's passages; they are sorted into files below `indexes` first, unless these are there as they were written.

    Errors: `LakeError` where the table is missing or has no row, or where the disk has no room.
    """
    stamp = fingerprint(lake.content("passages"), code_version(__name__))
    folder = indexes / "passages" / stamp
    for other in folder.parent.glob("*"):
        for name, fault in differences(other).items():
            log.warning("passages: %s %s (%s): they are sorted again", name, fault, other)
            shutil.rmtree(other, ignore_errors=True)
            break
    if not folder.is_dir():
        _sort(lake, folder, log)
        for other in folder.parent.iterdir():
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)
        differences(folder)  # has no record yet
    files = sorted(folder.glob("*.arrow"))
    return StoredPassages([_open(file).num_rows for file in files], lambda number: _open(files[number]))


def _sort(lake: Lake, folder: Path, log: logging.Logger) -> None:
    stamp = lake.stamp("passages")
    if stamp is None or not stamp.n_rows:
        raise LakeError(
            f"{lake.path('passages')}: holds no passage to search; check the study's source, or give its"
            " tables of questions a column with passages"
        )
    staging = folder.parent.parent / ".staging"
    remove_leftovers(staging)
    try:
        with (
            whole(folder, staging) as target,
            Progress(log, "passages: sorted by passage_id", stamp.n_rows) as progress,
        ):
            target.mkdir()
            for number, shard in enumerate(_in_shards(_sort_rows(lake.path("passages"), target / "sort"))):
                with (
                    pa.OSFile(str(target / f"{number:05}.arrow"), "wb") as sink,
                    pa.ipc.new_file(sink, _SCHEMA) as file,
                ):
                    file.write_table(shard)
                progress.add(shard.num_rows)
            shutil.rmtree(target / "sort", ignore_errors=True)
    except OSError as error:
        raise LakeError(f"{folder}: the passages could not be sorted ({error.strerror or error})") from error


def _sort_rows(path: Path, temporary: Path) -> Iterator[pa.RecordBatch]:
    """The rows in the order of passage_id, by DuckDB, which sorts in files what does not fit in its memory."""
    import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": _SORT_MEMORY,
        "temp_directory": str(temporary),
        "threads": thread_count(),
    }
    query = "select passage_id, entity_id, title, position, text from read_parquet(?) order by passage_id"
    try:
        with duckdb.connect(config=settings) as connection:
            yield from connection.execute(query, [str(path)]).to_arrow_reader(10 * _BATCH_ROWS)
    except duckdb.Error as error:
        raise OSError(str(error)) from error


def _in_shards(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Tables of `SHARD_ROWS` rows; the last one may have fewer."""
    waiting = _SCHEMA.empty_table()
    for batch in batches:
        waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch]).cast(_SCHEMA)])
        while waiting.num_rows >= SHARD_ROWS:
            yield waiting.slice(0, SHARD_ROWS)
            waiting = waiting.slice(SHARD_ROWS)
    if waiting.num_rows:
        yield waiting


def _open(file: Path) -> pa.Table:
    with pa.memory_map(str(file)) as source:
        return pa.ipc.open_file(source).read_all()


def _passages(table: pa.Table) -> Iterator[Passage]:
    for batch in table.to_batches(_BATCH_ROWS):
        rows: list[dict[str, Any]] = batch.to_pylist()
        yield from (Passage(**row) for row in rows)
