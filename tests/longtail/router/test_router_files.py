"""The router's file of names: whose name it is, in any spelling, and how popular."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from longtail.router import Candidate, Names, load_names
from longtail.router.decisions import fold, names_file

PARIS = Candidate("Q1", "Paris", "capital of France", 9.5)
TROJAN = Candidate("Q2", "Paris", "son of Priam", 2.0)
HILTON = Candidate("Q3", "Paris Hilton", None, None)
CAFE = Candidate("Q4", "Café Straße", None, 0.0)
ENTITIES = (
    (HILTON, ["Paris"]),
    (TROJAN, []),
    (PARIS, ["City of Light", "PARIS", ""]),
    (CAFE, ["tab\there\n", "ab\x01"]),
)


@pytest.fixture
def names(tmp_path: Path) -> Names:
    path = tmp_path / "names"
    path.write_bytes(names_file(ENTITIES, {"study": "s"})[0])
    return load_names(path)


def test_an_ambiguous_name_gives_all_candidates_the_unknown_popularity_last(names: Names) -> None:
    assert names.lookup("Paris") == (PARIS, TROJAN, HILTON)


def test_candidates_go_by_popularity_then_by_id_and_zero_is_known() -> None:
    popularities = {"Q5": 0.5, "Q1": 0.0, "Q2": 1.0, "Q4": None, "Q3": 0.5}
    entities = [(Candidate(key, "Ada", None, value), ()) for key, value in popularities.items()]
    found = Names(names_file(entities, {})[0]).lookup("Ada")
    assert [one.entity_id for one in found] == ["Q2", "Q3", "Q5", "Q1", "Q4"]


@pytest.mark.parametrize("name", ["city of light", " CITY  OF\tLIGHT ", "City of Light"])
def test_case_and_spaces_do_not_count(names: Names, name: str) -> None:
    assert names.lookup(name) == (PARIS,)


@pytest.mark.parametrize(
    "name", ["café strasse", "CAFE\u0301 STRASSE", "Cafe\u0301 Straße", "tab here", "AB\x01"]
)
def test_composed_and_decomposed_spellings_are_one_name(names: Names, name: str) -> None:
    assert names.lookup(name) == (CAFE,)


@pytest.mark.parametrize(
    "name", ["", " ", "Pari", "Paris H", "Pariss", "zzz", "\U0010ffff", "a", "\ud800", '["Q1"']
)
def test_a_name_that_nobody_has_gives_no_candidate(names: Names, name: str) -> None:
    assert names.lookup(name) == ()


def test_the_head_says_where_the_names_are_from(names: Names) -> None:
    assert (names.head["study"], len(names)) == ("s", 6)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 1_000])
def test_every_name_of_any_list_is_found(n: int) -> None:
    rng = random.Random(n)
    letters = "ab \x01é東\U0001f600"
    labels = {"".join(rng.choices(letters, k=rng.randint(1, 6))) for _ in range(n)}
    found = Names(names_file(((Candidate(label, label, None, 1.0), ()) for label in labels), {})[0])
    same: dict[str, list[str]] = {"": []}
    for label in sorted(labels):
        if fold(label):
            same.setdefault(fold(label), []).append(label)
    assert len(found) == len(same) - 1
    for label in labels:
        assert [one.label for one in found.lookup(label)] == same[fold(label)]
    assert found.lookup("c") == ()
