"""Dense retrieval: a text encoder and search by inner product: exact, or by an index that finds most of the nearest.

Exact search goes through one part of the vectors after the other: memory holds one of them, and the best passages so
far. A CPU searches with faiss, a GPU with torch.

Approximate search is faiss's IVF-PQ, built from the stored vectors part by part. `trained.faiss` is an empty index that
was trained on a seeded sample. Each 250,000 passages are added to a copy of it, which is a file of its own: a killed
build does one of them again. At the end they are joined to one. Memory holds the codes of all vectors (for 768 dimensions
200 bytes a vector), and never the vectors. All seeds are fixed. Index and vectors stay in their files, which are mapped
into memory. An index compares codes, which are coarser than the vectors. So it gives more candidates than are wanted, and
their order and scores come from the vectors (faiss calls this refinement; IndexRefine, `k_factor`).
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from longtail.embedding.declared import DeclaredEncoder
from longtail.embedding.settings import SEARCH_KEYS, EncoderSettings, IvfPq
from longtail.embedding.vectors import lease_for_encoder
from longtail.errors import BackendError
from longtail.progress import Progress
from longtail.retrieval.base import Context, Hit, Query, Retriever
from longtail.retrieval.passage_vectors import build_vectors, counts_of, finite_rows, read_rows, read_vectors
from longtail.storage.files import remove, whole
from longtail.threads import thread_count

# A sum of float32 differs in the seventh digit with the order of its terms: scores equal to six digits are a tie. These
# are six decimals up to 10, and one fewer for each further power of ten.
_DIGITS = 6
SPARE = 16
"""How many more than `k` are looked at, so that ties at rank k go by row."""
_QUERIES_ON_GPU = 4_096


@dataclass(frozen=True)
class Nearest:
    """Rows and scores, both of shape (queries, at most k), best first; of equal scores the lower row first."""

    rows: np.ndarray
    scores: np.ndarray

    @classmethod
    def none(cls, n_queries: int) -> Nearest:
        return cls(np.empty((n_queries, 0), dtype=np.int64), np.empty((n_queries, 0)))

    def join_with(self, other: Nearest, k: int) -> Nearest:
        """The best of both."""
        rows, scores = np.hstack([self.rows, other.rows]), np.hstack([self.scores, other.scores])
        order = np.lexsort((rows, -scores), axis=-1)[:, :k]
        return Nearest(np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1))


@dataclass(frozen=True)
class Flat:
    """Vectors, float32 or float16, that answer as a flat index of faiss does; float32 vectors are not copied."""

    vectors: np.ndarray
    device: str

    @property
    def ntotal(self) -> int:
        return len(self.vectors)

    @functools.cached_property
    def _floats(self) -> np.ndarray:
        return self.vectors.astype(np.float32, copy=False)

    def search(self, queries: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and rows of the `n` nearest."""
        if self.device == "cpu":
            import faiss

            nearest_rows: tuple[np.ndarray, np.ndarray] = faiss.knn(
                queries, self._floats, n, metric=faiss.METRIC_INNER_PRODUCT
            )
            return nearest_rows
        import torch

        vectors = torch.as_tensor(self.vectors, device=self.device).float()
        parts = [
            (torch.as_tensor(queries[start : start + _QUERIES_ON_GPU], device=self.device) @ vectors.T).topk(
                n
            )
            for start in range(0, len(queries), _QUERIES_ON_GPU)
        ]
        scores, rows = (torch.cat([part[place] for part in parts]).cpu().numpy() for place in (0, 1))
        return scores, rows


def nearest(index: Any, vectors: np.ndarray, k: int) -> Nearest:
    """The `k` nearest to each vector in a flat index of faiss, or one like it. Scores have six digits."""
    wanted = min(k, index.ntotal)
    if not wanted or not len(vectors):
        return Nearest.none(len(vectors))
    scores, rows = _taken(index, vectors, min(wanted + SPARE, index.ntotal))
    best = Nearest.none(len(vectors)).join_with(Nearest(rows, scores), wanted)
    if scores.shape[1] < index.ntotal:
        # More passages than were taken may share the score at rank k: take more before choosing by row.
        for number in np.flatnonzero(scores[:, -1] == scores[:, wanted - 1]):
            all_ties = _all_ties(index, vectors[number : number + 1], wanted, scores.shape[1])
            best.rows[number], best.scores[number] = all_ties.rows[0], all_ties.scores[0]
    return best


def _all_ties(index: Any, vector: np.ndarray, wanted: int, n_taken: int) -> Nearest:
    while True:
        n_taken = min(2 * n_taken, index.ntotal)
        scores, rows = _taken(index, vector, n_taken)
        if n_taken == index.ntotal or scores[0, -1] != scores[0, wanted - 1]:
            return Nearest.none(1).join_with(Nearest(rows, scores), wanted)


def _taken(index: Any, vectors: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    scores, rows = index.search(vectors, n)
    return round_scores(scores.astype(np.float64)), rows


def round_scores(scores: np.ndarray) -> np.ndarray:
    """float64 scores to six digits."""
    sizes = np.abs(scores)
    is_large = sizes > 10
    rounded: np.ndarray = np.round(scores, _DIGITS)
    steps = 10.0 ** (np.ceil(np.log10(sizes[is_large])) - 1 - _DIGITS)
    rounded[is_large] = np.round(scores[is_large] / steps) * steps
    return rounded


INDEX = "index-00000.faiss"
PIECE_PARTS = 10
"""Parts of vectors in a piece: 250,000 passages."""
_SEED = 0
CENTRE_SAMPLE = 50
"""Vectors of the training sample for each centre; faiss wants at least 39."""
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


def _train(folder: Path, search: IvfPq, name: str) -> Any:
    import faiss

    shapes = [np.load(path, mmap_mode="r").shape for path in sorted(folder.glob("*.npy"))]
    n, dimensions = sum(shape[0] for shape in shapes), shapes[0][1]
    # as faiss's guidelines say: 4 √n lists, and at most one for each 39 vectors
    nlist = min(search.nlist or max(1, min(round(4 * math.sqrt(n)), n // 39)), max(n, 1))
    # one code for each four dimensions, or a few more
    codes = search.sub_vectors or next(dimensions // size for size in (4, 3, 2, 1) if dimensions % size == 0)
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


def _write(index: Any, path: Path) -> None:
    """Errors: `OSError`."""
    import faiss

    with whole(path) as target:
        try:
            faiss.write_index(index, str(target))
        except RuntimeError as error:
            raise OSError(f"faiss could not write: {str(error).splitlines()[0]}") from error


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


def _candidates(folder: Path, search: IvfPq, vectors: np.ndarray, k: int) -> Nearest:
    """What the index finds, by the scores of its codes, which are mapped into memory."""
    import faiss

    index: Any = faiss.read_index(str(folder / INDEX), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
    index.nprobe = min(search.nprobe or max(8, round(math.sqrt(index.nlist))), index.nlist)
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


class Dense(Retriever):
    """Nearest passages as a `Retriever`; scores are inner products: cosines of vectors of unit length.

    A passage or a question without a finite vector is never found, or finds nothing.
    """

    def __init__(self, settings: EncoderSettings, name: str) -> None:
        self._encoder = DeclaredEncoder(name, dataclasses.replace(settings, search=None))
        self._queries = self._encoder.of_queries
        self._search = settings.search

    @property
    def is_approximate(self) -> bool:
        """Whether its search may miss a passage that is nearer than those it finds."""
        return self._search is not None

    def version(self) -> str:
        return self._encoder.version + (f", {describe(self._search)}" if self._search else "")

    def search_version(self) -> str:
        settings = (f"{name} {getattr(self._search, name)}" for name in SEARCH_KEYS if self._search)
        return ", ".join([self._encoder.query_version, *settings])

    def check(self) -> None:
        self._encoder.check()
        self._queries.check()

    def build(self, context: Context) -> None:
        device = self._encoder.settings.device or context.device
        build_vectors(context.passages, context.folder, context.cache, self._encoder, device, context.log)
        if self._search:
            build_approximate(context.folder, self._search, self._encoder.name, context.log)

    def notes(self, folder: Path) -> Mapping[str, int]:
        return counts_of(folder)

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        with lease_for_encoder(self._encoder.settings.device or context.device, self._encoder.name) as device:
            before = self._queries.settings.query_prefix
            texts = [before + query.text for query in queries]
            vectors = self._queries.load(device).encode(texts, context.log)
            self._check_dimensions(context.folder, vectors)
            is_finite = finite_rows(vectors)
            vectors[~is_finite] = 0
            if self._search:
                best = search_approximate(context.folder, self._search, vectors, context.k)
            else:
                best = self._exact(context, vectors, device)
        is_found = (best.rows >= 0) & is_finite[:, None]
        ids = iter(context.passages.ids(best.rows[is_found]))
        return [
            [Hit(next(ids), float(score), query_vector=vector) for score in scores[are_found]]
            for scores, are_found, vector in zip(best.scores, is_found, vectors, strict=True)
        ]

    def exact_hits(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        """As `search`, by exact search of the same vectors."""
        return Dense(self._encoder.settings, self._encoder.name).search(context, queries)

    def _exact(self, context: Context, vectors: np.ndarray, device: str) -> Nearest:
        import faiss

        faiss.omp_set_num_threads(thread_count())
        best = Nearest.none(len(vectors))
        title = f"{self._encoder.name}: passages searched"
        with Progress(context.log, title, len(context.passages)) as progress:
            for rows, part in read_vectors(context.folder):
                of_part = nearest(Flat(part, device), vectors, context.k)
                best = best.join_with(Nearest(rows[of_part.rows], of_part.scores), context.k)
                progress.add(len(part))
        return best

    def _check_dimensions(self, folder: Path, vectors: np.ndarray) -> None:
        """Errors: `BackendError` where questions and passages have vectors of other lengths."""
        for path in sorted(folder.glob("*.npy"))[:1]:
            n = np.load(path, mmap_mode="r").shape[1]
            if n != vectors.shape[1]:
                raise BackendError(
                    f"retriever {self._encoder.name}: query_path gives vectors of {vectors.shape[1]} numbers, "
                    f"those of its passages have {n}; name two encoders that were trained together"
                )
