"""The rule, the hashes and the cap, against a reading of SPEC §1 in plain Python."""

from __future__ import annotations

import hashlib
import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.questions.sampling import (
    ALIAS_FREQUENCY,
    PAGE_VIEWS,
    SITELINKS,
    clean_popularity,
    draws,
    hash_triples,
    median_factor,
    sample_triples,
)
from longtail.tables.world import SAMPLING_MEASURE

Row = tuple[int, str, float | None, bool]  # number of the triple, relation, frequency, is_labelled

ROWS = st.lists(
    st.tuples(
        st.integers(1, 10**6),
        st.sampled_from(["father", "mother", "capital of"]),
        st.one_of(st.none(), st.sampled_from([0.0, 1e-3, 0.5, 1.0, 3.0, 1e9]), st.floats(0, 10)),
        st.booleans(),
    ),
    max_size=40,
    unique_by=lambda row: row[0],
)


def candidates(rows: list[Row]) -> pa.Table:
    return pa.table(
        {
            "subject_id": pa.array([f"Q{n % 97}" for n, *_ in rows], pa.string()),
            "property_id": pa.array(["P22"] * len(rows), pa.string()),
            "object_id": pa.array([f"Q{n}" for n, *_ in rows], pa.string()),
            "relation": pa.array([relation for _, relation, *_ in rows], pa.string()),
            "frequency": pa.array([frequency for *_, frequency, _ in rows], pa.float64()),
            "is_labelled": pa.array([labelled for *_, labelled in rows], pa.bool_()),
        }
    )


def number(seed: int, purpose: str, triple: tuple[str, str, str]) -> int:
    text = f"{seed}:{purpose}:{' '.join(triple)}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def by_hand(rows: list[Row], per_relation: int, seed: int) -> dict[tuple[str, str, str], str]:
    outcomes: dict[tuple[str, str, str], str] = {}
    accepted: dict[str, list[tuple[int, tuple[str, str, str]]]] = {}
    for n, relation, f, labelled in rows:
        triple = (f"Q{n % 97}", "P22", f"Q{n}")
        r = (number(seed, "draw", triple) >> 11) / 2**53
        if not labelled:
            outcomes[triple] = "no_label"
        elif f is None:
            outcomes[triple] = "no_frequency"
        elif not f > math.exp(8 * r - 6):
            outcomes[triple] = "frequency"
        else:
            accepted.setdefault(relation, []).append((number(seed, "cap", triple), triple))
    for places in accepted.values():
        for place, (_, triple) in enumerate(sorted(places)):
            outcomes[triple] = "kept" if place < per_relation else "cap"
    return outcomes


def outcomes_of(table: pa.Table) -> dict[tuple[str, str, str], str]:
    rows = table.select(["subject_id", "property_id", "object_id", "outcome"]).to_pylist()
    return {(row["subject_id"], row["property_id"], row["object_id"]): row["outcome"] for row in rows}


@settings(deadline=None)
@given(ROWS, st.integers(1, 8), st.integers(0, 3), st.randoms(use_true_random=False))
def test_the_sample_is_the_one_by_hand_whatever_the_order_of_arrival(
    rows: list[Row], per_relation: int, seed: int, shuffler: random.Random
) -> None:
    sampled = sample_triples(candidates(rows), per_relation, seed)
    assert outcomes_of(sampled) == by_hand(rows, per_relation, seed)
    shuffled = list(rows)
    shuffler.shuffle(shuffled)
    assert sample_triples(candidates(shuffled), per_relation, seed).equals(sampled)


@settings(deadline=None)
@given(ROWS, st.integers(0, 3))
def test_a_triple_more_or_less_changes_no_other_draw(rows: list[Row], seed: int) -> None:
    """Only the cap makes triples of one relation depend on each other."""
    whole = outcomes_of(sample_triples(candidates(rows), 10**6, seed))
    part = outcomes_of(sample_triples(candidates(rows[1:]), 10**6, seed))
    assert part.items() <= whole.items()


def test_no_candidate_one_candidate_and_a_relation_without_any() -> None:
    empty = sample_triples(candidates([]), 5, 0)
    assert (empty.num_rows, empty.schema.field("outcome").type) == (0, pa.string())
    assert outcomes_of(sample_triples(candidates([(7, "father", 1e9, True)]), 5, 0)) == {
        ("Q7", "P22", "Q7"): "kept"
    }
    sampled = sample_triples(candidates([(7, "father", 1e9, True), (8, "mother", None, True)]), 1, 0)
    assert sorted(sampled["outcome"].to_pylist()) == ["kept", "no_frequency"]


def test_hashes_are_uniform_independent_and_told_apart_by_seed() -> None:
    many = candidates([(n, "father", 1.0, True) for n in range(1, 20_001)])
    r, cap = draws(many, 0), hash_triples(many, 0, "cap") / 2**64
    assert ((r >= 0) & (r < 1)).all()
    for uniform in (r, cap):
        counts = np.histogram(uniform, 20, (0, 1))[0]
        assert (abs(counts - 1000) < 5 * math.sqrt(1000)).all()
    assert abs(np.corrcoef(r, cap)[0, 1]) < 0.03
    assert abs(np.corrcoef(r, draws(many, 1))[0, 1]) < 0.03


def test_the_share_kept_is_that_of_the_rule() -> None:
    """P(f > exp(8R - 6)) = (ln f + 6) / 8, cut to [0, 1]."""
    for f in (1e-3, 1 / math.e, 1.0, math.e, math.exp(2), 50.0):
        many = candidates([(n, "father", f, True) for n in range(1, 10_001)])
        kept = sample_triples(many, 10**6, 0)["outcome"].to_pylist().count("kept") / 10_000
        assert kept == pytest.approx(min(max((math.log(f) + 6) / 8, 0), 1), abs=0.02)


def test_what_is_no_popularity_is_missing_and_zero_is_one() -> None:
    found = clean_popularity(np.array([np.nan, -1, -0.0, 0, 3, np.inf, -np.inf]))
    assert np.array_equal(found, [np.nan, np.nan, 0, 0, 3, np.nan, np.nan], equal_nan=True)


@pytest.mark.parametrize(
    ("popularity", "factor"),
    [
        ([1, 4, 100], 0.25),
        ([0, 2, 6, np.nan, -9], 0.5),
        ([2, 6], 0.25),
        ([0, 0, 6], None),
        ([np.nan], None),
        ([], None),
    ],
)
def test_the_median_candidate_gets_frequency_1(popularity: list[Any], factor: float | None) -> None:
    assert median_factor(np.array(popularity, np.float64)) == factor


def test_measures_are_called_as_their_column_says() -> None:
    words = set(SAMPLING_MEASURE.description.replace(",", "").split())
    assert {PAGE_VIEWS, SITELINKS, ALIAS_FREQUENCY} <= words
