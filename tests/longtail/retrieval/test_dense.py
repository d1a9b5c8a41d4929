"""Dense retrieval against brute-force dot products."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.embedding.settings import IvfPq
from longtail.errors import BackendError
from longtail.retrieval import dense, passage_vectors
from longtail.retrieval.dense import build_approximate, describe, nearest, search_approximate

LOG = logging.getLogger("longtail-tests")


def index_of(vectors: np.ndarray) -> faiss.Index:
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index


def test_nearest_equals_brute_force() -> None:
    rng = np.random.default_rng(3)
    passages = rng.standard_normal((200, 16)).astype(np.float32)
    passages /= np.linalg.norm(passages, axis=1, keepdims=True)
    queries = passages[:30] + 0.1
    found = nearest(index_of(passages), queries, 7)
    for rows, scores, products in zip(found.rows, found.scores, queries @ passages.T, strict=True):
        order = sorted(range(200), key=lambda row: (-round(float(products[row]), 6), row))[:7]
        assert rows.tolist() == order
        np.testing.assert_allclose(scores, products[order], atol=2e-6)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=120), st.integers(1, 130))
@settings(max_examples=60)
def test_ties_go_by_row_however_many(kinds: list[int], k: int) -> None:
    vectors = np.eye(3, dtype=np.float32)[kinds]
    query = np.array([[0.5, 0.2, 0.5]], dtype=np.float32)
    scores = [float(query[0, kind]) for kind in kinds]
    expected = sorted(range(len(kinds)), key=lambda row: (-scores[row], row))[:k]
    assert nearest(index_of(vectors), query, k).rows[0].tolist() == expected


LOG = logging.getLogger("longtail-tests")
SEARCH = IvfPq(nlist=8, nprobe=6, sub_vectors=16, bits=6)
DIMENSIONS = 32


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "PIECE_PARTS", 2)


def vectors_of(n: int, seed: int = 0) -> np.ndarray:
    """Unit vectors around 40 centres, as sentence embeddings are."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(1).standard_normal((40, DIMENSIONS))
    vectors = centres[rng.integers(0, 40, n)] + 0.5 * rng.standard_normal((n, DIMENSIONS))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def stored(folder: Path, vectors: np.ndarray, part: int = 200) -> Path:
    folder.mkdir(exist_ok=True)
    for number, start in enumerate(range(0, len(vectors), part)):
        np.save(folder / f"{number:05}.npy", vectors[start : start + part])
    return folder


def shared(rows: np.ndarray, vectors: np.ndarray, asked: np.ndarray, k: int) -> float:
    exact = np.argsort(-(asked @ vectors.T), axis=1)[:, :k]
    return float(np.mean([len(set(own) & set(best)) for own, best in zip(rows, exact, strict=True)])) / k


def test_it_finds_most_of_the_nearest_the_same_each_time(tmp_path: Path) -> None:
    vectors, asked = vectors_of(900), vectors_of(60, seed=2)
    found = []
    for name in ("a", "b"):
        folder = stored(tmp_path / name, vectors.astype(np.float16))
        build_approximate(folder, SEARCH, "near", LOG)
        found.append(search_approximate(folder, SEARCH, asked, 10))
    assert not list(folder.glob("codes-*"))
    np.testing.assert_array_equal(found[0].rows, found[1].rows)
    np.testing.assert_array_equal(found[0].scores, found[1].scores)
    assert shared(found[0].rows, vectors, asked, 10) > 0.95


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_what_is_found_has_the_order_and_the_scores_of_exact_search(
    tmp_path: Path, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_vectors, "_ROWS_AT_ONCE", 7)
    monkeypatch.setattr(dense, "_QUESTIONS_AT_ONCE", 25)
    vectors, asked = vectors_of(900).astype(dtype), vectors_of(60, seed=2)
    folder = stored(tmp_path / "index", vectors)
    build_approximate(folder, SEARCH, "near", LOG)
    found = search_approximate(folder, SEARCH, asked, 10)
    exact = np.round(asked.astype(np.float64) @ vectors.astype(np.float64).T, 6)
    of_found = np.take_along_axis(exact, found.rows, 1)
    np.testing.assert_allclose(found.scores, of_found, atol=2e-6)
    assert (np.diff(found.scores) <= 0).all()
    assert found.rows.shape == (60, 10)
    assert all(len(set(own)) == 10 for own in found.rows.tolist())


def test_more_candidates_find_more_and_need_no_other_index(tmp_path: Path) -> None:
    vectors, asked = vectors_of(900), vectors_of(60, seed=2)
    folder = stored(tmp_path / "index", vectors)
    kind = IvfPq(nlist=8, sub_vectors=4, bits=4)
    build_approximate(folder, kind, "near", LOG)
    recalls = {}
    for nprobe, factor in ((8, 1), (8, 4), (8, 1_000), (1, 1_000)):
        search = dataclasses.replace(kind, nprobe=nprobe, refine_factor=factor)
        assert describe(search) == describe(kind)
        found = search_approximate(folder, search, asked, 10)
        recalls[nprobe, factor] = shared(found.rows, vectors, asked, 10)
    assert recalls[8, 1] < recalls[8, 4] < recalls[8, 1_000] == 1
    assert recalls[1, 1_000] < 1


def test_a_build_that_breaks_off_goes_on_with_its_whole_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = vectors_of(900)
    whole, cut = stored(tmp_path / "whole", vectors), stored(tmp_path / "cut", vectors)
    build_approximate(whole, SEARCH, "near", LOG)
    write, written = faiss.write_index, []

    def full_after_two(index: faiss.Index, path: str) -> None:
        if len(written) == 2:
            Path(path).write_bytes(b"cut")
            raise RuntimeError("Error: write error in ...: No space left on device")
        written.append(path)
        write(index, path)

    monkeypatch.setattr(faiss, "write_index", full_after_two)
    with pytest.raises(OSError, match=r"faiss could not write: .*No space left"):
        build_approximate(cut, SEARCH, "near", LOG)
    assert len(list(cut.glob("*.faiss"))) == 2
    assert not list(cut.glob("*.part"))
    kept = {path.name: path.stat().st_ino for path in cut.glob("*.faiss")}
    monkeypatch.setattr(faiss, "write_index", write)
    build_approximate(cut, SEARCH, "near", LOG)
    (cut / "codes-00001.faiss").touch()  # killed after the pieces were joined
    build_approximate(cut, SEARCH, "near", LOG)
    after = {path.name: path.stat().st_ino for path in cut.glob("*.faiss")}
    assert {name: number for name, number in kept.items() if name in after}.items() <= after.items()
    assert {path.name: path.read_bytes() for path in cut.glob("*.faiss")} == {
        path.name: path.read_bytes() for path in whole.glob("*.faiss")
    }


@pytest.mark.parametrize("search", [IvfPq(), IvfPq(nlist=4_000)])
def test_a_collection_smaller_than_its_lists_and_codes(tmp_path: Path, search: IvfPq) -> None:
    vectors = vectors_of(5)
    folder = stored(tmp_path / "index", vectors)
    build_approximate(folder, search, "near", LOG)
    found = search_approximate(folder, search, vectors, 8)
    assert found.rows[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert {tuple(sorted(own[own >= 0])) for own in found.rows} <= {(0, 1, 2, 3, 4)}


def test_vectors_that_are_not_finite_are_put_aside(tmp_path: Path) -> None:
    vectors = vectors_of(300)
    vectors[[3, 250]] = np.nan
    folder = stored(tmp_path / "index", vectors)
    build_approximate(folder, SEARCH, "near", LOG)
    found = search_approximate(folder, SEARCH, vectors_of(300)[[3, 250, 251]], 298)
    assert not {3, 250} & set(found.rows.ravel().tolist())
    assert found.rows[2, 0] == 251  # rows count the passages, with those put aside
    nothing = stored(tmp_path / "nothing", np.full((20, DIMENSIONS), np.nan, dtype=np.float32))
    build_approximate(nothing, SEARCH, "near", LOG)
    assert search_approximate(nothing, SEARCH, vectors_of(2), 3).rows.shape == (2, 0)


def test_codes_that_do_not_divide_the_dimensions_are_refused(tmp_path: Path) -> None:
    folder = stored(tmp_path / "index", vectors_of(50))
    with pytest.raises(
        BackendError, match="retriever near: sub_vectors: 5 does not divide the 32 dimensions"
    ):
        build_approximate(folder, IvfPq(sub_vectors=5), "near", LOG)
