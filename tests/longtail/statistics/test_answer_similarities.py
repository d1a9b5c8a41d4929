"""Mean cosines and entropies of answers: hand-computed sets, and random ones against scikit-learn and scipy."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse.csgraph import connected_components
from scipy.stats import entropy as entropy_of
from sklearn.metrics.pairwise import cosine_similarity

from longtail.statistics.answer_similarities import KEY, SCHEMA, compare_answers

VECTORS = {"east": (1, 0, 0), "north": (0, 2, 0), "west": (-1, 0, 0), "": (0.8, 0.6, 0), "lost": (0, 0, 0)}


def compared(
    sets: list[dict[str, int]], vectors: dict[str, tuple[float, ...]], threshold: float = 0.8
) -> list[dict[str, object]]:
    """The rows of `compare_answers` for sets of answers with their counts; a question is named by its place."""
    rows = [
        {**dict.fromkeys(KEY, "x"), "question_id": str(i), "texts": list(one), "counts": list(one.values())}
        for i, one in enumerate(sets)
    ]
    schema = pa.schema([
        *((name, pa.string()) for name in KEY), ("texts", pa.list_(pa.string())), ("counts", pa.list_(pa.int64()))
    ])  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=schema)
    texts = pa.chunked_array([list(vectors)], pa.string())
    values = np.array(list(vectors.values()) or np.empty((0, 3)), dtype=np.float32)
    found = compare_answers(table, texts, values, threshold)
    assert found.schema == SCHEMA
    return found.to_pylist()


def test_hand_computed_sets() -> None:
    sets = [
        {"east": 2, "north": 1},  # cosines 1, 0, 0
        {"east": 2, "north": 1, "west": 1},  # 1, twice 0, twice -1, and 0
        {"east": 1, "": 1},  # a cosine of 0.8, which is the threshold
        {"": 10},  # all answers are empty
    ]
    assert [(row["question_id"], row["n_pairs"], row["n_clusters"]) for row in compared(sets, VECTORS, 0.79)] == [
        ("0", 3, 2), ("1", 6, 3), ("2", 1, 1), ("3", 45, 1)
    ]  # fmt: skip
    found = compared(sets, VECTORS, 0.79)
    expected = [1 / 3, -1 / 6, 0.8, 1.0]
    assert [row["mean_similarity"] for row in found] == pytest.approx(expected, abs=1e-6)
    # The shares are 2/3 and 1/3; 1/2, 1/4 and 1/4; 1; 1.
    expected = [math.log(3) - 2 / 3 * math.log(2), 1.5 * math.log(2), 0.0, 0.0]
    assert [row["entropy"] for row in found] == pytest.approx(expected, abs=1e-12)
    assert found[3]["mean_similarity"] == 1.0
    assert math.copysign(1, found[3]["entropy"]) == 1


@pytest.mark.parametrize(("threshold", "n_clusters"), [(0.0, 1), (1e-6, 2)])
def test_a_cosine_that_is_the_threshold_joins_two_answers(threshold: float, n_clusters: int) -> None:
    (row,) = compared([{"east": 1, "north": 1}], VECTORS, threshold)
    assert row["n_clusters"] == n_clusters


def test_single_answers_and_answers_without_a_usable_vector_belong_to_no_pair() -> None:
    vectors = {**VECTORS, "broken": (math.nan, 0, 0), "huge": (math.inf, 0, 0)}
    sets = [
        {"east": 1},
        {"east": 1, "not embedded": 1},
        {"broken": 4},
        {"east": 2, "broken": 1, "lost": 1, "huge": 1, "north": 1, "not embedded": 1},
    ]
    (row,) = compared(sets, vectors)
    assert (row["question_id"], row["n_pairs"], row["n_clusters"]) == ("3", 3, 2)
    assert row["mean_similarity"] == pytest.approx(1 / 3)
    assert compared([], vectors) == []
    assert compared(sets, {}) == []


@pytest.mark.parametrize("threshold", [-1.0, 0.3, 0.5, 0.7, 1.1])
def test_random_sets_equal_scikit_learn_and_scipy(threshold: float) -> None:
    rng = np.random.default_rng(0)
    names = [f"t{i}" for i in range(60)]
    centres = rng.normal(size=(8, 24))
    drawn = centres[rng.integers(0, 8, 60)] + rng.normal(size=(60, 24)) * 0.9
    vectors = dict(zip(names, map(tuple, drawn.tolist()), strict=True))
    sets = [
        {
            str(name): int(rng.integers(1, 4))
            for name in rng.choice(names, int(rng.integers(1, 12)), replace=False)
        }
        for _ in range(200)
    ]
    found = {row["question_id"]: row for row in compared(sets, vectors, threshold)}
    for place, one in enumerate(sets):
        answers = [name for name, count in one.items() for _ in range(count)]
        if len(answers) < 2:
            assert str(place) not in found
            continue
        cosines = cosine_similarity([vectors[name] for name in answers])
        row = found[str(place)]
        assert row["mean_similarity"] == pytest.approx(
            cosines[np.triu_indices(len(answers), 1)].mean(), abs=1e-6
        )
        same = np.equal.outer(answers, answers)  # at a threshold above 1, too
        n_clusters, labels = connected_components((cosines >= threshold) | same)
        assert row["n_clusters"] == n_clusters
        assert row["entropy"] == pytest.approx(entropy_of(np.bincount(labels)), abs=1e-12)
