"""Files of the router: popularity by name, files that say something else or are none, and arguments of other kinds."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hand_made import BM25, marts_of, routers_of

from longtail.router import Candidate, Names, Router, RouterError, decisions, files, load_names, load_router
from longtail.router.files import fold, names_file, seal

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("routers")


@pytest.fixture(scope="module")
def router(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Router:
    """A router that decides by a prediction, and by popularity if that is not known."""
    return routers_of(marts_of(tmp_path_factory.mktemp("marts"), predicts=True), folder)[BM25]


def _set(*path: str | int, value: Any) -> Change:
    def change(fields: Any) -> None:
        *inner, last = path
        for key in inner:
            fields = fields[key]
        fields[last] = value

    return change


RULE, PREDICTION = ("rules", "composer"), ("prediction", "rules", "all")
SHAPES = {
    "rules are a list": _set("rules", value=[]),
    "a threshold is a text": _set(*RULE, "threshold_popularity", value="4"),
    "a threshold is true": _set(*RULE, "threshold_popularity", value=True),
    "a threshold has 400 digits": _set(*RULE, "threshold_popularity", value=10**400),
    "an accuracy is a text": _set(*RULE, "below", "accuracy_with", value="1"),
    "a count is a fraction": _set(*RULE, "below", "n", value=2.5),
    "the fixed method is another": _set("fixed", value="sometimes"),
    "the policy is an object": _set("policy", value={}),
    "features are a number": _set("features", value=1),
    "the signal is a list": _set("signal", value=["popularity"]),
    "the prediction is null": _set("prediction", value=None),
    "too few coefficients": _set(*PREDICTION, "coefficients", value=[1.0]),
    "a deviation is zero": _set("prediction", "deviations", 0, value=0),
    "a mean is null": _set("prediction", "means", 0, value=None),
    "no rule for all": lambda fields: fields["prediction"]["rules"].pop("all"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_router_of_another_shape_is_refused_by_name(
    router: Router, folder: Path, tmp_path: Path, shape: str
) -> None:
    fields = json.loads((folder / f"{BM25}.json").read_bytes())
    for own in ("format", "version", "sha256"):
        del fields[own]
    SHAPES[shape](fields)
    _refused(load_router, tmp_path / "some.json", seal(decisions.FORMAT, decisions.VERSION, fields))


@pytest.mark.parametrize("value", ["NaN", "1e999", "-Infinity", "[" * 100_000, '"\\ud800', "1" * 5_000])
def test_json_that_no_writer_makes_is_refused_by_name(folder: Path, tmp_path: Path, value: str) -> None:
    """`sealed` writes none of these, so that the checksum is made for the changed text."""
    start = seal(decisions.FORMAT, decisions.VERSION, {})[: -len(b"}\n")]
    content = start + b', "signal": "popularity", "rules": ' + value.encode() + b"}\n"
    _refused(load_router, tmp_path / "some.json", _with_checksum(content))


@pytest.mark.parametrize(
    "fields",
    [{}, {"n_names": "6"}, {"n_names": None}, {"n_names": 1.5}],
)
def test_names_without_their_number_are_refused(tmp_path: Path, fields: dict[str, Any]) -> None:
    content = seal(files.NAMES_FORMAT, files.NAMES_VERSION, fields, b"paris\t[]\n")
    _refused(load_names, tmp_path / "entities.names", content)


@pytest.mark.parametrize(
    "line",
    [
        "paris\t{\n", "paris\n", "paris\t7\n", "paris\t[7]\n", 'paris\t[["Q1", "Paris"]]\n', "paris\t[[]]",
        'paris\t[["Q1", "Paris", null, "9"]]\n', 'paris\t[["Q1", 7, null, 9]]\n', "paris\t" + "[" * 100_000 + "\n",
    ],
)  # fmt: skip
def test_a_line_of_another_shape_is_told_when_its_name_is_asked_for(tmp_path: Path, line: str) -> None:
    path = tmp_path / "entities.names"
    path.write_bytes(seal(files.NAMES_FORMAT, files.NAMES_VERSION, {"n_names": 1}, line.encode()))
    found = load_names(path)
    with pytest.raises(RouterError, match=r"entities\.names: is malformed") as refused:
        found.lookup("Paris")
    assert "\n" not in str(refused.value)


def test_numbers_of_numpy_are_numbers(router: Router) -> None:
    numpys: Any = (np.int64(3), np.str_("composer"), np.float32(0.5), np.float64(0.25))
    assert router.decide(*numpys) == router.decide(3, "composer", 0.5, 0.25)
    assert router.decide(*numpys[:2]) == router.decide(3, "composer")


def _with_checksum(content: bytes) -> bytes:
    own = json.loads(seal(decisions.FORMAT, decisions.VERSION, {}))["sha256"].encode()
    blank = content.replace(own, b"0" * 64, 1)
    return content.replace(own, hashlib.sha256(blank).hexdigest().encode(), 1)


def _refused(load: Callable[[Path], object], path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(RouterError) as refused:
        load(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < len(str(path)) + 300


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
