"""Vectors of passages in files of equal parts: each part is encoded once in a home, whatever study searches it.

A part is `<encoder>/<hash of its texts>.npy` in the home's cache; a file beside it has the numbers of passages that were
cut and that have no vector. An index has links to the parts that it needs. A part that no index links to is removed when
an index is built.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from longtail.embedding.declared import DeclaredEncoder
from longtail.embedding.encoder import Encoder
from longtail.embedding.vectors import lease_for_encoder
from longtail.models.workers import Call, Loader, workers
from longtail.progress import Progress
from longtail.retrieval.stored_passages import StoredPassages, texts_to_index
from longtail.storage.files import remove_leftovers, whole, write_array

_LOG = logging.getLogger(__name__)
PART_ROWS = 25_000
"""Passages that a killed build may have to encode again: minutes on a CPU."""
_ROWS_AT_ONCE = 4_096


def build_vectors(
    passages: StoredPassages,
    folder: Path,
    cache: Path,
    encoder: DeclaredEncoder,
    device: str,
    log: logging.Logger,
) -> None:
    """Write the vectors of all passages into `folder`; whole parts that are there stay.

    `device`: a torch device, or `auto`. Errors: `OSError` where the disk has no room, `BackendError` without the
    encoder's files or workers.
    """
    shared = cache / encoder.stamp
    remove_leftovers(folder)
    remove_leftovers(shared)
    waiting: list[tuple[Path, Path, int]] = []  # of each part that was handed out: shared file, link, rows

    def missing() -> Iterator[Call]:
        """The parts that nobody has encoded; the others are linked."""
        for number, table in enumerate(_parts(passages)):
            path = folder / f"{number:05}.npy"
            if not (path.exists() and _counts(path).exists()):
                texts = list(texts_to_index(table))
                part = shared / f"{_hash(texts)}.npy"
                if not (part.exists() and _counts(part).exists()):
                    waiting.append((part, path, len(texts)))
                    yield partial(_encode, encoder, texts)
                    continue
                _share(part, path)
            progress.add(table.num_rows)

    with Progress(log, f"{encoder.name}: passages encoded", len(passages)) as progress:
        parts = missing()
        if first := next(parts, None):
            loader = Loader(
                f"retriever {encoder.name}",
                partial(_load, encoder, device),
                lambda _: {"weights": encoder.stamp},
            )
            with workers(loader, loader.describe(None), log) as answers:
                for place, (vectors, n_cut) in answers(chain([first], parts)):
                    part, path, n_rows = waiting[place]
                    _store(part, vectors, n_cut)
                    _share(part, path)
                    progress.add(n_rows)
    for part in cache.glob("*/*.npy"):
        if part.stat().st_nlink == 1:
            part.unlink(missing_ok=True)
            _counts(part).unlink(missing_ok=True)
    counted = counts_of(folder)
    if any(counted.values()):
        log.warning(
            "%s: %d passages are longer than the encoder reads and were cut; %d have no finite vector and are not found",
            encoder.name,
            counted["n_cut"],
            counted["n_without_vector"],
        )


def counts_of(folder: Path) -> Mapping[str, int]:
    """`n_cut`: passages that are longer than the encoder reads. `n_without_vector`: those whose vector is not finite."""
    counts = Counter(n_cut=0, n_without_vector=0)
    for path in folder.glob("*.json"):
        if path.stem.isdigit():
            counts.update(json.loads(path.read_text(encoding="utf-8")))
    return dict(counts)


def read_vectors(
    folder: Path, first: int = 0, last: int | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Part after part, from `first` to before `last`: rows of the passages, and their vectors, which stay in their files.
    Passages whose vector is not finite are left out; the other vectors of such a part are copied into memory."""
    for path, start, vectors in islice(_map_parts(folder), first, last):
        rows = np.arange(start, start + len(vectors))
        if not _is_finite(path):
            is_finite = finite_rows(vectors)
            rows, vectors = rows[is_finite], vectors[is_finite]
        yield rows, vectors


def read_rows(folder: Path, rows: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """The vectors of `rows`, which are sorted and may repeat: (which of `rows`, their vectors), a few at a time."""
    for _, start, vectors in _map_parts(folder):
        first, last = np.searchsorted(rows, [start, start + len(vectors)])
        for low in range(first, last, _ROWS_AT_ONCE):
            part = slice(low, min(low + _ROWS_AT_ONCE, last))
            yield part, vectors[rows[part] - start]


def _map_parts(folder: Path) -> Iterator[tuple[Path, int, np.ndarray]]:
    """Each part: its file, the row of its first passage, and its vectors, which stay in the file."""
    start = 0
    for path in sorted(folder.glob("*.npy")):
        vectors = np.load(path, mmap_mode="c")
        yield path, start, vectors
        start += len(vectors)


def _is_finite(path: Path) -> bool:
    """Whether the counts beside a part say that all its vectors are finite."""
    try:
        return bool(json.loads(_counts(path).read_text(encoding="utf-8"))["n_without_vector"] == 0)
    except FileNotFoundError:
        return False


def _parts(passages: StoredPassages) -> Iterator[pa.Table]:
    for table in passages.shards():
        for start in range(0, table.num_rows, PART_ROWS):
            yield table.slice(start, PART_ROWS)


@contextlib.contextmanager
def _load(encoder: DeclaredEncoder, wanted: str) -> Iterator[Encoder]:
    with lease_for_encoder(wanted, encoder.name) as device:
        yield encoder.load(device)


def _encode(encoder: DeclaredEncoder, texts: Sequence[str], model: Encoder) -> tuple[np.ndarray, int]:
    """Vectors of passages in the encoder's number format, and how many texts were cut."""
    cut: list[int] = []
    before = encoder.settings.passage_prefix
    vectors = model.encode([before + text for text in texts] if before else texts, _LOG, cut)
    with np.errstate(over="ignore"):
        return vectors.astype(encoder.settings.dtype, copy=False), len(cut)


def _store(path: Path, vectors: np.ndarray, n_cut: int) -> None:
    counted = {"n_cut": n_cut, "n_without_vector": int((~finite_rows(vectors)).sum())}
    with whole(_counts(path)) as target:
        target.write_text(json.dumps(counted), encoding="utf-8")
    with whole(path) as target:
        write_array(target, vectors)


def finite_rows(vectors: np.ndarray) -> np.ndarray:
    """Which rows are finite: their sums are, as no number of a vector is near float32's largest."""
    with np.errstate(invalid="ignore"):
        return np.isfinite(vectors.sum(axis=1, dtype=np.float32))


def _counts(path: Path) -> Path:
    return path.with_suffix(".json")


def _share(shared: Path, path: Path) -> None:
    """Link a shared part, and its counts; copy them on a file system without links."""
    for source, target in ((_counts(shared), _counts(path)), (shared, path)):
        with whole(target) as part:
            try:
                os.link(source, part)
            except OSError:
                shutil.copyfile(source, part)


def _hash(texts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d\n%s" % (len(encoded), encoded))
    return digest.hexdigest()[:32]
