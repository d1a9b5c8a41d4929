"""Vectors of passages in files of equal parts: each part is encoded once in a home, whatever study searches it.

What belongs here: encoding part after part, sharing, reading. What does not: search (`dense`), and vectors of other
texts (`embedding.vectors`).

A part is `<encoder>/<hash of its texts>.npy` in the home's cache. An index has links to the parts that it needs. A part
that no index links to is removed when an index is built.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from dagster_project.core.embedding.encoder import ENCODER, load_encoder
from dagster_project.core.progress import Progress
from dagster_project.core.retrieval.stored_passages import StoredPassages, indexed_texts
from dagster_project.core.retrieval.whole_files import remove_dead, whole, write_array

PART_ROWS = 25_000
"""Passages that a killed build may have to encode again: minutes on a CPU."""


def build_vectors(
    passages: StoredPassages, folder: Path, cache: Path, device: str, log: logging.Logger
) -> None:
    """Write float32 unit vectors of all passages into `folder`; whole parts that are there stay.

    Errors: `OSError` where the disk has no room, `BackendError` without the encoder's files.
    """
    shared = cache / ENCODER.stamp
    remove_dead(folder)
    remove_dead(shared)
    with Progress(log, "dense: passages encoded", len(passages)) as progress:
        for number, table in enumerate(_parts(passages)):
            path = folder / f"{number:05}.npy"
            if not path.exists():
                texts = list(indexed_texts(table))
                kept = shared / f"{_hash(texts)}.npy"
                if not _is_whole(kept, len(texts)):
                    _encode(texts, kept, device, log)
                _link(kept, path)
            progress.add(table.num_rows)
    for part in cache.glob("*/*.npy"):
        if part.stat().st_nlink == 1:
            part.unlink(missing_ok=True)


def read_vectors(folder: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Part after part: rows of the passages, and their vectors. Passages whose vector is not finite are left out."""
    start = 0
    for path in sorted(folder.glob("*.npy")):
        vectors = np.load(path)
        is_finite = _finite(vectors)
        rows = start + np.flatnonzero(is_finite)
        start += len(vectors)
        yield rows, vectors if is_finite.all() else vectors[is_finite]


def _parts(passages: StoredPassages) -> Iterator[pa.Table]:
    for table in passages.shards():
        for start in range(0, table.num_rows, PART_ROWS):
            yield table.slice(start, PART_ROWS)


def _encode(texts: Sequence[str], path: Path, device: str, log: logging.Logger) -> None:
    vectors = load_encoder(device).encode(texts, log)
    n_bad = int((~_finite(vectors)).sum())
    if n_bad:
        log.warning("dense: %d passages have no finite vector and are not found", n_bad)
    with whole(path) as target:
        write_array(target, vectors)


def _finite(vectors: np.ndarray) -> np.ndarray:
    """Which rows are finite: their sums are, as no number of a unit vector is large."""
    return np.isfinite(vectors.sum(axis=1))


def _link(kept: Path, path: Path) -> None:
    """A link to the shared part; a copy on a file system without links."""
    with whole(path) as target:
        try:
            os.link(kept, target)
        except OSError:
            shutil.copyfile(kept, target)


def _is_whole(path: Path, n_rows: int) -> bool:
    try:
        return bool(np.load(path, mmap_mode="r").shape == (n_rows, ENCODER.n_dimensions))
    except (OSError, ValueError, EOFError):
        return False


def _hash(texts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d\n%s" % (len(encoded), encoded))
    return digest.hexdigest()[:32]
