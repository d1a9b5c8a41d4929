"""How similar the answers to one question are: mean cosine, and entropy over clusters of equal meaning (SPEC §7).

The calculation is not SQL: DuckDB compares all pairs of vectors, which takes several times as long.

The mean cosine of n answers is that of their n(n - 1)/2 pairs. For unit vectors e it is (|Σe|² - n)/(n(n - 1)).

Two answers mean the same if their cosine is at least a threshold, or if a chain of such answers connects them: a cluster
is a connected component. So the clusters do not depend on the order of the answers, as those of a single pass would. The
entropy is that of the clusters' shares of the answers, in nats: 0 if all answers mean the same, log(n) if no two do.
(Discrete semantic entropy: Kuhn et al., 2023; Farquhar et al., 2024. They find clusters by entailment.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longtail.statistics.resampling import Values

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation


KEY = ("asked", "dataset", "question_id", "model", "prompt")
SCHEMA = pa.schema([
    *((name, pa.string()) for name in KEY),
    ("mean_similarity", pa.float64()),
    ("n_pairs", pa.int64()),
    ("n_clusters", pa.int64()),
    ("entropy", pa.float64()),
])  # fmt: skip
_AT_A_TIME = 512
"""Vectors that are compared together: they stay in a processor's cache."""


def compare_models(sets: DuckDBPyRelation, embeddings: DuckDBPyRelation, threshold: float) -> pa.Table:
    """`compare_answers` for each model, in `SCHEMA`: the vectors of one model are in memory at a time.

    `sets`: `KEY`, texts, counts. `embeddings`: model, text, embedding.
    """
    tables = [SCHEMA.empty_table()]
    for (model,) in sets.select("model").distinct().order("model").fetchall():
        is_its_own = f"model = '{model}'"  # a slug
        texts, vectors = _read(embeddings.filter(is_its_own))
        sets_of_model = sets.filter(is_its_own).to_arrow_table()
        tables.append(compare_answers(sets_of_model, texts, vectors, threshold))
    return pa.concat_tables(tables)


def _read(embeddings: DuckDBPyRelation) -> tuple[pa.ChunkedArray, Values]:
    """The texts and their vectors, read in parts into one array."""
    n = embeddings.count("*").fetchall()[0][0]
    reader = embeddings.select("text, embedding").to_arrow_reader(4_096)
    vectors = np.empty((n, reader.schema.field("embedding").type.list_size), dtype=np.float32)
    texts, start = [], 0
    for batch in reader:
        texts.append(batch["text"])
        part = batch["embedding"].flatten().to_numpy()
        vectors[start : start + len(batch)] = part.reshape(len(batch), -1)
        start += len(batch)
    return pa.chunked_array(texts, pa.string()), vectors


def compare_answers(sets: pa.Table, texts: pa.ChunkedArray, vectors: Values, threshold: float) -> pa.Table:
    """One row in `SCHEMA` for each set of at least two embedded answers.

    `sets`: `KEY`, texts (a list of the distinct answers), counts (how often each occurs). `vectors`: float32, one row for
    each of `texts`; they are scaled to length 1 in place. An answer without a vector, or whose vector is zero or not
    finite, is not embedded. It belongs to no pair; the number of pairs shows that it is missing.
    """
    if not sets.num_rows:
        return SCHEMA.empty_table()
    lists, counts = sets["texts"].combine_chunks(), sets["counts"].combine_chunks()
    rows = pc.index_in(lists.flatten(), value_set=texts).fill_null(-1).to_numpy(zero_copy_only=False)
    is_embedded = rows >= 0
    is_embedded[is_embedded] = _scale(vectors)[rows[is_embedded]]
    rows = rows[is_embedded]
    offsets = lists.offsets.to_numpy()
    starts = np.concatenate([[0], np.cumsum(is_embedded)])[offsets - offsets[0]]
    weights = counts.flatten().to_numpy(zero_copy_only=False)[is_embedded].astype(np.float64)
    n = np.diff(np.concatenate([[0.0], np.cumsum(weights)])[starts])
    means, entropies = np.zeros(len(n)), np.zeros(len(n))
    n_clusters = np.ones(len(n), dtype=np.int64)
    for size in set(np.diff(starts).tolist()) - {0}:
        chosen = np.flatnonzero((np.diff(starts) == size) & (n >= 2))
        places = starts[chosen, None] + np.arange(size)
        weighted_rows = rows[places], weights[places]
        means[chosen] = mean_cosines(vectors, *weighted_rows)
        n_clusters[chosen], entropies[chosen] = entropies_of_clusters(vectors, *weighted_rows, threshold)
    values = (means, (n * (n - 1) / 2).astype(np.int64), n_clusters, entropies)
    table = pa.table([*(sets[name] for name in KEY), *map(pa.array, values)], schema=SCHEMA)
    return table.filter(pc.field("n_pairs") > 0)


def _scale(vectors: Values) -> Values:
    """Scale vectors to length 1 in place; returns which of them can be."""
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
    is_usable = np.isfinite(lengths) & (lengths > 0)
    np.divide(vectors, np.where(is_usable, lengths, 1)[:, None], out=vectors)
    return is_usable


def mean_cosines(vectors: Values, rows: Values, weights: Values) -> Values:
    """The mean cosine of each set, shape (m,). `rows` and `weights`, shape (m, k): its distinct answers as rows of the
    unit `vectors`, and how often each occurs; at least two answers in all.
    """
    n = weights.sum(axis=1)
    if rows.shape[1] == 1:  # all answers are equal
        return np.ones(len(n))
    squares = np.empty(len(n))
    for part in _parts(rows):
        sums = np.matmul(weights[part, None, :].astype(np.float32), vectors[rows[part]])[:, 0]
        squares[part] = np.einsum("md,md->m", sums, sums, dtype=np.float64)
    return (squares - n) / (n * (n - 1))


def entropies_of_clusters(
    vectors: Values, rows: Values, weights: Values, threshold: float
) -> tuple[Values, Values]:
    """The number of clusters of each set and the entropy of their shares, shape (m,); arguments as of `mean_cosines`."""
    n_clusters, entropies = np.ones(len(rows), dtype=np.int64), np.zeros(len(rows))
    for part in _parts(rows):
        some = vectors[rows[part]]
        labels = _components(np.matmul(some, some.transpose(0, 2, 1)) >= threshold)
        is_in = labels[:, :, None] == np.arange(rows.shape[1])
        totals = (is_in * weights[part, :, None]).sum(axis=1)
        shares = totals / totals.sum(axis=1, keepdims=True)
        logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
        n_clusters[part] = (totals > 0).sum(axis=1)
        entropies[part] = np.abs((shares * logs).sum(axis=1))
    return n_clusters, entropies


def _components(is_near: Values) -> Values:
    """The connected components of graphs, shape (m, k, k): the label of each node, the lowest node of its component."""
    size = is_near.shape[1]
    labels = np.broadcast_to(np.arange(size), is_near.shape[:2])
    while True:
        spread = np.minimum(labels, np.where(is_near, labels[:, None, :], size).min(axis=2))
        if (spread == labels).all():
            return spread
        labels = spread


def _parts(rows: Values) -> Iterator[slice]:
    step = max(1, _AT_A_TIME // rows.shape[1])
    return (slice(start, start + step) for start in range(0, len(rows), step))
