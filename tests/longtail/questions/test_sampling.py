"""The rule, the hashes and the cap of a sample, against a reading of SPEC §1 in plain Python; and from a lake and a study
with `source.sample` to the questions that are asked, and whose page views are fetched.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import math
import random
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.errors import SourceError
from longtail.questions.build import build_questions
from longtail.questions.sampling import (
    clean_popularity,
    measure_frequencies,
    median_factor,
    sample_facts,
    sample_triples,
)
from longtail.storage.lake import Lake, Outcome
from longtail.study.study import Study
from longtail.wikimedia.selected_facts import asked_entities, selected_facts

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


BY_TEXT = "frequency: text, text: texts"
RELATIONS = {"P106": "occupation", "P19": "place of birth", "P136": "genre"}
TODAY = date(2026, 11, 20)
Make = Callable[..., tuple[Study, Lake]]


@pytest.fixture
def make(make_study: Callable[[str], Study], hand_text: str) -> Make:
    """A study with a sample, and a lake of these facts and entities."""

    def make(
        sample: str,
        triples: list[tuple[str, str, str]],
        entities: dict[str, tuple[str, list[str], int | None]],
        measure: str = "sitelinks",
    ) -> tuple[Study, Lake]:
        text = hand_text.replace('"2026-10"}', f'"2026-10", sample: {{{sample}}}}}', 1)
        study = make_study(text.replace('measure: page_views, last_month: "2026-10"', f"measure: {measure}"))
        lake = Lake(study.home.lake)
        lake.ensure_schemas()
        lake.write("triples", [_triple(*triple) for triple in triples], fingerprint="hand")
        lake.write("entities", [_entity(i, *terms) for i, terms in entities.items()], fingerprint="hand")
        return study, lake

    return make


def _triple(subject_id: str, property_id: str, object_id: str) -> dict[str, Any]:
    ids = {"subject_id": subject_id, "property_id": property_id, "object_id": object_id}
    return {**ids, "relation": RELATIONS[property_id], "source": "sandbox"}


def _entity(entity_id: str, label: str, aliases: list[str], sitelinks: int | None) -> dict[str, Any]:
    terms = {"entity_id": entity_id, "label": label, "aliases": aliases, "description": None}
    return {**terms, "article_title": None, "sitelinks": sitelinks, "source": "sandbox"}


def run(study: Study, lake: Lake, log: logging.Logger) -> tuple[Outcome, Outcome]:
    return measure_frequencies(study, lake, log, TODAY), sample_facts(study, lake, log)


def outcomes(lake: Lake) -> dict[str, str]:
    rows = lake.read("candidate_triples").to_pylist()
    return {f"{row['subject_id']} {row['property_id']} {row['object_id']}": row["outcome"] for row in rows}


def test_a_question_of_one_kept_triple_has_every_object_as_answer(
    make: Make, log: logging.Logger, tmp_path: Path
) -> None:
    (tmp_path / "texts").write_bytes(b"Ada Quill " * 8_000)
    triples = [("Q1", "P106", f"Q{n}") for n in range(10, 22)] + [("Q2", "P106", "Q10")]
    entities = {f"Q{n}": (f"Object {n}", [], 1) for n in range(10, 22)}
    people = {"Q1": ("Ada Quill", ["A. Quill"], 1), "Q2": ("Bob Never", [], 1)}
    study, lake = make(f"{BY_TEXT}, per_relation: 3", triples, entities | people)
    _, sampled = run(study, lake, log)
    assert sampled.notes["outcomes"] == {"kept": 3, "cap": 9, "frequency": 1}
    build_questions(study, lake, log)
    (question,) = lake.read("questions").to_pylist()
    assert question["question_id"] == "Q1-P106"
    assert question["object_ids"] == sorted(f"Q{n}" for n in range(10, 22))
    assert set(asked_entities(study, lake).to_pylist()) == {"Q1", *entities}
    assert selected_facts(study, lake, ["object_id"]).num_rows == 12


def test_counts_of_names_in_text_are_rescaled_and_kept(
    make: Make, log: logging.Logger, tmp_path: Path
) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/a.txt").write_text("Ada Quill met A. Quill, not Ada Quills. Nun\x00Mark 👩‍🚀! Lodz")
    (tmp_path / "texts/b.txt.gz").write_bytes(gzip.compress(b"Ada Quill \xff\xfe broken"))
    n_bytes = len((tmp_path / "texts/a.txt").read_bytes()) + 19
    entities = {
        "Q1": ("Ada Quill", ["A. Quill", " Ada Quill ", "", "  "], None),
        "Q2": ("Ada Quill", [], None),  # a namesake: the text does not tell them apart
        "Q3": ("Nun\x00Mark", ["👩‍🚀"], None),
        "Q4": ("Weaver", [], None),
    }
    study, lake = make(BY_TEXT, [(f"Q{n}", "P106", "Q4") for n in (1, 2, 3)], entities)
    measured, _ = run(study, lake, log)
    rows = {row["entity_id"]: row for row in lake.read("subject_frequencies").to_pylist()}
    assert {i: (r["n_names"], r["n_whole_words"], r["n_anywhere"]) for i, r in rows.items()} == {
        "Q1": (2, 3, 4), "Q2": (1, 2, 3), "Q3": (2, 2, 2)
    }  # fmt: skip
    assert rows["Q1"]["popularity"] == pytest.approx(3 * 800e6 / n_bytes)
    assert measured.notes["names"] == 4
    assert (measured.notes["missing"], measured.notes["zero"]) == (0, 0)
    anywhere, lake = make(f"{BY_TEXT}, match: anywhere", [("Q1", "P106", "Q4")], entities)
    measure_frequencies(anywhere, lake, log)
    assert lake.read("subject_frequencies")["popularity"][0].as_py() == pytest.approx(4 * 800e6 / n_bytes)


def test_missing_is_not_zero_and_each_has_its_reason(make: Make, log: logging.Logger) -> None:
    links = {"Q1": 100_000, "Q2": 0, "Q3": None, "Q4": -5, "Q6": 7, "Q7": 7, "Q9": 7}
    entities = {i: (f"Name {i}", [], n) for i, n in links.items()} | {"Q6": ("  ", [], 7)}
    triples = [(f"Q{n}", "P106", "Q9") for n in range(1, 7)] + [("Q7", "P106", "Q404")]
    study, lake = make("frequency: popularity", triples, entities)
    measured, sampled = run(study, lake, log)
    assert outcomes(lake) == {
        "Q1 P106 Q9": "kept",
        "Q2 P106 Q9": "frequency",
        "Q3 P106 Q9": "no_frequency",
        "Q4 P106 Q9": "no_frequency",
        "Q5 P106 Q9": "no_label",
        "Q6 P106 Q9": "no_label",
        "Q7 P106 Q404": "no_label",
    }
    assert (measured.notes["missing"], measured.notes["zero"]) == (2, 1)
    assert (
        sampled.notes["factor"] == 1 / 50_000
    )  # the median of 0 and 100,000: of what can be asked and is known
    rows = {row["subject_id"]: row for row in lake.read("candidate_triples").to_pylist()}
    assert (rows["Q1"]["frequency"], rows["Q3"]["frequency"], rows["Q2"]["frequency"]) == (2.0, None, 0.0)


def test_without_a_popularity_above_zero_there_is_nothing_to_relate_to(
    make: Make, log: logging.Logger
) -> None:
    entities = {"Q1": ("Ada", [], 0), "Q2": ("Bob", [], None), "Q9": ("Weaver", [], 3)}
    study, lake = make("frequency: popularity", [("Q1", "P106", "Q9"), ("Q2", "P106", "Q9")], entities)
    with pytest.raises(SourceError, match="the median candidate has no sitelinks above 0"):
        run(study, lake, log)
    study, lake = make("frequency: popularity", [], entities)
    with pytest.raises(SourceError, match="the median candidate has no popularity above 0"):
        run(study, lake, log)


def test_what_is_current_is_not_computed_again_and_what_changed_is(
    make: Make, log: logging.Logger, tmp_path: Path
) -> None:
    text = tmp_path / "texts"
    text.write_text("Ada and Bob")
    entities = {"Q1": ("Ada", [], 3), "Q2": ("Bob", [], 3), "Q9": ("Weaver", [], 3)}
    triples = [("Q1", "P106", "Q9"), ("Q2", "P19", "Q9")]
    study, lake = make(BY_TEXT, triples, entities)
    assert [o.was_current for o in run(study, lake, log)] == [False, False]
    assert [o.was_current for o in run(study, lake, log)] == [True, True]
    text.write_text("Ada and Bob and Ada")
    assert [o.was_current for o in run(study, lake, log)] == [False, False]
    other, _ = make(f"{BY_TEXT}, per_relation: 1", triples, entities)
    assert [o.was_current for o in run(other, lake, log)] == [True, False]
    text.unlink()
    with pytest.raises(SourceError, match="there is no such file or folder to count names in; named in"):
        run(other, lake, log)


def test_a_study_without_a_sample_asks_about_everything(
    hand_study: Study, hand_lake: Lake, log: logging.Logger
) -> None:
    first = run(hand_study, hand_lake, log)
    assert [(o.stamp.n_rows, o.was_current) for o in first] == [(0, False), (0, False)]
    assert [o.was_current for o in run(hand_study, hand_lake, log)] == [True, True]
    assert asked_entities(hand_study, hand_lake) is None
    assert (
        selected_facts(hand_study, hand_lake, ["subject_id"]).num_rows == hand_lake.read("triples").num_rows
    )
