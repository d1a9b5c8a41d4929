"""IVF-PQ and HNSW over stored vectors: whole, the same each time, and close to exact search."""

from __future__ import annotations

import logging
from pathlib import Path

import faiss
import numpy as np
import pytest

from dagster_project.core.errors import BackendError
from dagster_project.core.retrieval import approximate
from dagster_project.core.retrieval.approximate import build_approximate, search_approximate
from dagster_project.core.retriever_settings import Hnsw, IvfPq

LOG = logging.getLogger("longtail-tests")
KINDS = [IvfPq(nlist=8, nprobe=6, sub_vectors=16, bits=6), Hnsw(links=8, codes="int8")]
DIMENSIONS = 32


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate, "PIECE_PARTS", 2)


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


@pytest.mark.parametrize("search", KINDS)
def test_it_finds_most_of_the_nearest_the_same_each_time(tmp_path: Path, search: IvfPq | Hnsw) -> None:
    vectors, asked = vectors_of(900), vectors_of(60, seed=2)
    found = []
    for name in ("a", "b"):
        folder = stored(tmp_path / name, vectors.astype(np.float16))
        build_approximate(folder, search, "near", LOG)
        found.append(search_approximate(folder, search, asked, 10))
    assert not list(folder.glob("codes-*"))
    assert len(list(folder.glob("index-*"))) == (1 if isinstance(search, IvfPq) else 3)
    np.testing.assert_array_equal(found[0].rows, found[1].rows)
    np.testing.assert_array_equal(found[0].scores, found[1].scores)
    assert shared(found[0].rows, vectors, asked, 10) > (0.6 if isinstance(search, IvfPq) else 0.95)
    assert (np.diff(found[0].scores) <= 0).all()


@pytest.mark.parametrize("search", KINDS)
def test_an_index_mapped_into_memory_finds_what_one_in_memory_finds(
    tmp_path: Path, search: IvfPq | Hnsw, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, asked = stored(tmp_path / "index", vectors_of(500)), vectors_of(40, seed=2)
    build_approximate(folder, search, "near", LOG)
    mapped = search_approximate(folder, search, asked, 10)
    read = faiss.read_index
    monkeypatch.setattr(faiss, "read_index", lambda path, *_: read(path))
    loaded = search_approximate(folder, search, asked, 10)
    np.testing.assert_array_equal(mapped.rows, loaded.rows)
    np.testing.assert_array_equal(mapped.scores, loaded.scores)


@pytest.mark.parametrize("search", KINDS)
def test_a_build_that_breaks_off_goes_on_with_its_whole_pieces(
    tmp_path: Path, search: IvfPq | Hnsw, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = vectors_of(900)
    whole, cut = stored(tmp_path / "whole", vectors), stored(tmp_path / "cut", vectors)
    build_approximate(whole, search, "near", LOG)
    write, written = faiss.write_index, []

    def full_after_two(index: faiss.Index, path: str) -> None:
        if len(written) == 2:
            Path(path).write_bytes(b"cut")
            raise RuntimeError("Error: write error in ...: No space left on device")
        written.append(path)
        write(index, path)

    monkeypatch.setattr(faiss, "write_index", full_after_two)
    with pytest.raises(OSError, match=r"faiss could not write: .*No space left"):
        build_approximate(cut, search, "near", LOG)
    assert len(list(cut.glob("*.faiss"))) == 2
    assert not list(cut.glob("*.part"))
    kept = {path.name: path.stat().st_ino for path in cut.glob("*.faiss")}
    monkeypatch.setattr(faiss, "write_index", write)
    build_approximate(cut, search, "near", LOG)
    if isinstance(search, IvfPq):
        (cut / "codes-00001.faiss").touch()  # killed after the pieces were joined
        build_approximate(cut, search, "near", LOG)
    after = {path.name: path.stat().st_ino for path in cut.glob("*.faiss")}
    assert {name: number for name, number in kept.items() if name in after}.items() <= after.items()
    assert {path.name: path.read_bytes() for path in cut.glob("*.faiss")} == {
        path.name: path.read_bytes() for path in whole.glob("*.faiss")
    }


@pytest.mark.parametrize("search", [IvfPq(), IvfPq(nlist=4_000), Hnsw()])
def test_a_collection_smaller_than_its_lists_and_codes(tmp_path: Path, search: IvfPq | Hnsw) -> None:
    vectors = vectors_of(5)
    folder = stored(tmp_path / "index", vectors)
    build_approximate(folder, search, "near", LOG)
    found = search_approximate(folder, search, vectors, 8)
    assert found.rows[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert {tuple(sorted(own[own >= 0])) for own in found.rows} <= {(0, 1, 2, 3, 4)}


@pytest.mark.parametrize("search", KINDS)
def test_vectors_that_are_not_finite_are_put_aside(tmp_path: Path, search: IvfPq | Hnsw) -> None:
    vectors = vectors_of(300)
    vectors[[3, 250]] = np.nan
    folder = stored(tmp_path / "index", vectors)
    build_approximate(folder, search, "near", LOG)
    found = search_approximate(folder, search, vectors_of(300)[[3, 250, 251]], 298)
    assert not {3, 250} & set(found.rows.ravel().tolist())
    assert found.rows[2, 0] == 251  # rows count the passages, with those put aside
    nothing = stored(tmp_path / "nothing", np.full((20, DIMENSIONS), np.nan, dtype=np.float32))
    build_approximate(nothing, search, "near", LOG)
    assert search_approximate(nothing, search, vectors_of(2), 3).rows.shape == (2, 0)


def test_codes_that_do_not_divide_the_dimensions_are_refused(tmp_path: Path) -> None:
    folder = stored(tmp_path / "index", vectors_of(50))
    with pytest.raises(
        BackendError, match="retriever near: sub_vectors: 5 does not divide the 32 dimensions"
    ):
        build_approximate(folder, IvfPq(sub_vectors=5), "near", LOG)
