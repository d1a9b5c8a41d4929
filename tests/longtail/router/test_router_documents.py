"""What a router file says: its policy and why, its rules and numbers, recomputed by hand from a few questions."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hand_made import BM25, DENSE, marts_of, routers_of

from longtail.router.publish import Marts, documents


@pytest.fixture
def marts(tmp_path: Path) -> Marts:
    return marts_of(tmp_path)


def found(marts: Marts) -> dict[str, dict[str, Any]]:
    return dict(documents(marts, {"study": "s"}))


def with_gains(marts: Marts, retriever: str, **scopes: dict[str, Any]) -> Marts:
    """The marts with other values in the gains of one pair, by scope."""
    gains = {
        pair: [
            {**row, **scopes.get(row["threshold_scope"], {})} if pair[-1] == retriever else row
            for row in rows
        ]
        for pair, rows in marts.gains.items()
    }
    return dataclasses.replace(marts, gains=gains)


def segment(n: int, right_with: int, right_without: int) -> dict[str, Any]:
    return {"n": n, "accuracy_with": right_with / n, "accuracy_without": right_without / n}


EMPTY = {"n": 0, "accuracy_with": None, "accuracy_without": None}


def test_each_pair_has_a_router_but_a_bound_has_none(marts: Marts) -> None:
    assert set(found(marts)) == {BM25, DENSE}


def test_a_router_with_thresholds(marts: Marts) -> None:
    router = found(marts)[BM25]
    assert [router[name] for name in ("dataset", "prompt", "model", "parametric_method", "retrieval_method")] == [
        "d", "p", "m", "closed_book", "bm25"
    ]  # fmt: skip
    assert (router["signal"], router["policy"], router["fixed"]) == ("popularity", "per_relation", "never")
    assert router["why"] == (
        "thresholds are surely better than always or never retrieving: held-out gain +10.0 points, 95 % interval +1.0"
        " to +20.0"
    )
    assert router["rules"] == {
        "all": {
            "decision": "below", "threshold": 3.0,
            "overall": segment(7, 4, 4), "below": segment(3, 3, 0), "above": segment(4, 1, 4),
        },
        "capital": {
            "decision": "never", "threshold": 3.0, "overall": segment(2, 0, 2), "below": EMPTY, "above": segment(2, 0, 2)
        },
        "composer": {
            "decision": "below", "threshold": 4.0,
            "overall": segment(4, 3, 2), "below": segment(2, 2, 0), "above": segment(2, 1, 2),
        },
    }  # fmt: skip


def test_the_file_says_what_it_was_fitted_on(marts: Marts) -> None:
    assert found(marts)[BM25]["fitted_on"] == {
        "study": "s",
        "dataset": {"source": "sandbox", "snapshot": "2026-10"},
        "model": {
            "family": "family", "revision": "abc", "dtype": "float32", "quantisation": "none", "engine": "transformers"
        },
        "popularity": {
            "measure": "page_views", "n_months": 12, "first_month": "2025-11", "last_month": "2026-10",
            "redirects": "resolve",
        },
        "n_questions": 7,
        "n_missing_popularity": 1,
    }  # fmt: skip


def test_an_interval_that_touches_zero_is_no_sure_gain(marts: Marts) -> None:
    unsure = with_gains(marts, "bm25", per_relation={"gain_ci_low": 0.0})
    router = found(unsure)[BM25]
    assert (router["policy"], router["features"]) == ("never", ())
    assert router["why"] == (
        "never retrieve: 57.1% of the answers are right with retrieval, 57.1% without, and no threshold is surely better"
        " (all: held-out gain +5.0 points, 95 % interval +0.0 to +10.0;"
        " per_relation: held-out gain +10.0 points, 95 % interval +0.0 to +20.0)"
    )
    assert router["rules"]["composer"] == {"decision": "never", "overall": segment(4, 3, 2)}


def test_a_gain_without_an_interval_is_not_sure_either(marts: Marts) -> None:
    router = found(marts)[DENSE]
    assert router["policy"] == "always"
    assert "no interval, because fewer than 20 subjects decide it" in router["why"]
    assert {row["threshold_scope"]: row["gain_ci_high"] for row in router["gains"]} == {
        "per_relation": None,
        "all": 0.08,
    }


@pytest.mark.parametrize(("accuracy", "policy"), [(0.95, "all"), (0.9, "all"), (0.85, "per_relation")])
def test_of_two_sure_gains_the_higher_held_out_accuracy_wins_and_the_simpler_of_equals(
    marts: Marts, tmp_path: Path, accuracy: float, policy: str
) -> None:
    sure = with_gains(marts, "bm25", all={"gain_ci_low": 0.01, "accuracy_adaptive": accuracy})
    assert found(sure)[BM25]["policy"] == policy
    router = routers_of(sure, tmp_path / policy)[BM25]
    assert router.features == {"all": ("popularity",), "per_relation": ("popularity", "relation")}[policy]
    assert router.decide(3.5, "composer").retrieve == (policy == "per_relation")


def test_one_threshold_for_all_has_the_accuracies_of_each_relation(marts: Marts, tmp_path: Path) -> None:
    sure = with_gains(marts, "bm25", all={"gain_ci_low": 0.01, "accuracy_adaptive": 0.95})
    rule = found(sure)[BM25]["rules"]["composer"]
    assert (rule["threshold"], rule["below"], rule["above"]) == (3.0, segment(2, 2, 0), segment(2, 1, 2))


def test_questions_without_popularity_count_only_if_none_has_one(marts: Marts) -> None:
    (pair,) = (pair for pair in marts.counts if pair[-1] == "dense")
    nameless = [{**row, "has_popularity": False} for row in marts.counts[pair]]
    unknown = dataclasses.replace(marts, counts={**marts.counts, pair: nameless}, thresholds={})
    router = found(unknown)[DENSE]
    assert (router["policy"], router["rules"]["all"]["overall"]) == ("always", segment(8, 7, 4))
    assert found(marts)[DENSE]["rules"]["all"]["overall"] == segment(7, 6, 4)


def test_a_relation_without_a_threshold_of_its_own_gets_the_rule_for_all(
    marts: Marts, tmp_path: Path
) -> None:
    (pair,) = (pair for pair in marts.counts if pair[-1] == "bm25")
    without = [row for row in marts.thresholds[pair] if row["relation"] != "capital"]
    router = routers_of(dataclasses.replace(marts, thresholds={pair: without}), tmp_path / "without")[BM25]
    assert router.relations == ("composer",)
    assert router.decide(2.9, "capital").n == 3
