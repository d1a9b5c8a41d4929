"""Approximate search: faiss's IVF-PQ, built from the stored vectors part by part.

`trained.faiss` is an empty index that was trained on a seeded sample. Each 250,000 passages are added to a copy of it,
which is a file of its own: a killed build does one of them again. At the end they are joined to one. Memory holds the
codes of all vectors (for 768 dimensions 200 bytes a vector), and never the vectors. All seeds are fixed.

Index and vectors stay in their files, which are mapped into memory. An index compares codes, which are coarser than the
vectors. So it gives more candidates than are wanted, and their order and scores come from the vectors (faiss calls this
refinement; IndexRefine, `k_factor`).
"""

from __future__ import annotations

import dataclasses
import logging
import math
from pathlib import Path
from typing import Any

import numpy as np

from longtail.embedding.settings import SEARCH_KEYS, IvfPq
from longtail.errors import BackendError
from longtail.progress import Progress
from longtail.retrieval.nearest import SPARE, Nearest, round_scores
from longtail.retrieval.passage_vectors import read_rows, read_vectors
from longtail.storage.files import remove, whole
from longtail.threads import thread_count

INDEX = "index-00000.faiss"
PIECE_PARTS = 10
"""Parts of vectors in a piece: 250,000 passages."""
_SEED = 0
CENTRE_SAMPLE = 50
"""Vectors of the training sample for each centre; faiss wants at least 39."""
_DIMENSIONS_PER_CODE = 4
_TRAINED = "trained.faiss"
_QUESTIONS_AT_ONCE = 4_096


def describe(search: IvfPq) -> str:
    """What decides an index beside the vectors: its settings, and the version of faiss."""
    import faiss

    settings = ", ".join(
        f"{name} {value}"
        for name, value in dataclasses.asdict(search).items()
        if value is not None and name not in SEARCH_KEYS
    )
    return f"{type(search).__name__} of faiss {faiss.__version__}: {settings}"


def build_approximate(folder: Path, search: IvfPq, name: str, log: logging.Logger) -> None:
    """Write the index of the vectors in `folder`; whole files that are there stay.

    Errors: `OSError` where the disk has no room, `BackendError` where the settings do not fit the vectors.
    """
    import faiss

    n_parts = len(list(folder.glob("*.npy")))
    pieces = [folder / f"codes-{number:05}.faiss" for number in range(math.ceil(n_parts / PIECE_PARTS))]
    if not (folder / INDEX).exists():
        faiss.omp_set_num_threads(thread_count())
        if not (folder / _TRAINED).exists():
            log.info("%s: trained on a sample of the vectors", name)
            _write(_train(folder, search, name), folder / _TRAINED)
        with Progress(log, f"{name}: pieces indexed", len(pieces)) as progress:
            for number, piece in enumerate(pieces):
                if not piece.exists():
                    index = faiss.read_index(str(folder / _TRAINED))
                    for rows, vectors in read_vectors(
                        folder, number * PIECE_PARTS, (number + 1) * PIECE_PARTS
                    ):
                        index.add_with_ids(vectors.astype(np.float32, copy=False), rows)
                    _write(index, piece)
                progress.add(1)
        joined = faiss.read_index(str(pieces[0]))
        for piece in pieces[1:]:
            joined.merge_from(faiss.read_index(str(piece)), 0)
        _write(joined, folder / INDEX)
    for piece in pieces:
        remove(piece)


def default_nlist(n: int) -> int:
    """Lists for `n` vectors: 4 √n, as faiss's guidelines say, and at most one for each 39 vectors."""
    return max(1, min(round(4 * math.sqrt(n)), n // 39))


def sub_vectors_of(dimensions: int) -> int:
    """Codes of a vector: one for each four dimensions, or a few more."""
    return next(dimensions // size for size in range(_DIMENSIONS_PER_CODE, 0, -1) if dimensions % size == 0)


def _train(folder: Path, search: IvfPq, name: str) -> Any:
    import faiss

    n, dimensions = _shape(folder)
    nlist = min(search.nlist or default_nlist(n), max(n, 1))
    codes = search.sub_vectors or sub_vectors_of(dimensions)
    if dimensions % codes:
        raise BackendError(
            f"retriever {name}: sub_vectors: {codes} does not divide the {dimensions} dimensions of its vectors"
        )
    centres, metric = faiss.IndexFlatIP(dimensions), faiss.METRIC_INNER_PRODUCT
    index: Any = faiss.IndexIVFPQ(centres, dimensions, nlist, codes, search.bits, metric)
    for clustering in (index.cp, index.pq.cp):
        clustering.seed, clustering.min_points_per_centroid = _SEED, 1
    n_centres = max(nlist, 1 << search.bits)
    sample = _sample(folder, n, n_centres * CENTRE_SAMPLE, dimensions)
    # of fewer vectors than centres, each is there several times
    index.train(sample if len(sample) >= n_centres else np.resize(sample, (n_centres, dimensions)))
    return index


def _sample(folder: Path, n: int, wanted: int, dimensions: int) -> np.ndarray:
    """About `wanted` vectors of all parts alike, float32; a vector of zeros where there is none."""
    rng = np.random.default_rng(_SEED)
    taken = [
        part[np.sort(rng.permutation(len(part))[: math.ceil(len(part) * min(1, wanted / max(n, 1)))])]
        for _, part in read_vectors(folder)
    ]
    sample = np.concatenate([np.empty((0, dimensions), np.float16), *taken], dtype=np.float32)
    return sample if len(sample) else np.zeros((1, dimensions), dtype=np.float32)


def _shape(folder: Path) -> tuple[int, int]:
    shapes = [np.load(path, mmap_mode="r").shape for path in sorted(folder.glob("*.npy"))]
    return sum(shape[0] for shape in shapes), shapes[0][1]


def _write(index: Any, path: Path) -> None:
    """Errors: `OSError`."""
    import faiss

    with whole(path) as target:
        try:
            faiss.write_index(index, str(target))
        except RuntimeError as error:
            raise OSError(f"faiss could not write: {str(error).splitlines()[0]}") from error


def search_settings(search: IvfPq) -> str:
    """What decides the hits beside the index: the settings that only a search reads."""
    return ", ".join(f"{name} {getattr(search, name)}" for name in SEARCH_KEYS)


def search_approximate(folder: Path, search: IvfPq, vectors: np.ndarray, k: int) -> Nearest:
    """The `k` nearest that are found to each vector, with exact scores; row -1 where fewer are found."""
    import faiss

    faiss.omp_set_num_threads(thread_count())
    parts = []
    for start in range(0, max(len(vectors), 1), _QUESTIONS_AT_ONCE):
        asked = vectors[start : start + _QUESTIONS_AT_ONCE]
        parts.append(_score_exactly(folder, _candidates(folder, search, asked, k), asked, k))
    return Nearest(
        np.concatenate([part.rows for part in parts]), np.concatenate([part.scores for part in parts])
    )


def default_nprobe(nlist: int) -> int:
    """Lists that a question looks at."""
    return max(8, round(math.sqrt(nlist)))


def _candidates(folder: Path, search: IvfPq, vectors: np.ndarray, k: int) -> Nearest:
    """What the index finds, by the scores of its codes, which are mapped into memory."""
    import faiss

    index: Any = faiss.read_index(str(folder / INDEX), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
    index.nprobe = min(search.nprobe or default_nprobe(index.nlist), index.nlist)
    wanted = min(k * search.refine_factor + SPARE, index.ntotal)
    if not wanted or not len(vectors):
        return Nearest.none(len(vectors))
    scores, rows = index.search(vectors, wanted)
    return Nearest(rows, np.where(rows < 0, -np.inf, scores))


def _score_exactly(folder: Path, candidates: Nearest, vectors: np.ndarray, k: int) -> Nearest:
    """The `k` best of the candidates by the inner products of the stored vectors, of which a few are in memory."""
    questions, places = np.nonzero(candidates.rows >= 0)
    rows = candidates.rows[questions, places]
    by_row = np.argsort(rows, kind="stable")
    scores = np.full(candidates.rows.shape, -np.inf)
    for part, stored in read_rows(folder, rows[by_row]):
        pairs = by_row[part]
        asked = questions[pairs]
        products = np.einsum("ij,ij->i", stored.astype(np.float32, copy=False), vectors[asked])
        scores[asked, places[pairs]] = round_scores(products.astype(np.float64))
    return Nearest.none(len(vectors)).join_with(Nearest(candidates.rows, scores), k)
