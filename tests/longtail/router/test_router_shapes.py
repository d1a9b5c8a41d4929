"""Files that are sealed well and say something else, files that are none, and arguments of other kinds."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hand_made import BM25, marts_of, routers_of

from longtail.router import Router, RouterError, decisions, files, load_names, load_router
from longtail.router.files import Entity, names_file, seal

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
    "rules are null": _set("rules", value=None),
    "a rule is a number": _set(*RULE, value=4),
    "a threshold is a text": _set(*RULE, "threshold", value="4"),
    "a threshold is true": _set(*RULE, "threshold", value=True),
    "a threshold is an object": _set(*RULE, "threshold", value={}),
    "a threshold has 400 digits": _set(*RULE, "threshold", value=10**400),
    "an accuracy is a text": _set(*RULE, "below", "accuracy_with", value="1"),
    "an accuracy is a list": _set(*RULE, "above", "accuracy_without", value=[1]),
    "a count is a fraction": _set(*RULE, "below", "n", value=2.5),
    "a count is null": _set(*RULE, "below", "n", value=None),
    "the fixed method is another": _set("fixed", value="sometimes"),
    "the policy is an object": _set("policy", value={}),
    "the reason is a number": _set("why", value=1),
    "features are a number": _set("features", value=1),
    "a feature is a list": _set("features", value=[["popularity"]]),
    "the signal is a list": _set("signal", value=["popularity"]),
    "the prediction is null": _set("prediction", value=None),
    "a coefficient is a text": _set(*PREDICTION, "coefficients", 1, value="1"),
    "too few coefficients": _set(*PREDICTION, "coefficients", value=[1.0]),
    "no coefficients": _set(*PREDICTION, "coefficients", value=[]),
    "a deviation is zero": _set("prediction", "deviations", 0, value=0),
    "a mean is null": _set("prediction", "means", 0, value=None),
    "predictors are a number": _set("prediction", "predictors", value=3),
    "a probability is a text": _set(*PREDICTION, "threshold", value="0.5"),
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
    with pytest.raises(RouterError, match=r"entities\.names: is not of its form") as refused:
        found.lookup("Paris")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_only_regular_files_are_read(tmp_path: Path, kind: str) -> None:
    """A FIFO without a writer would never be opened, and /dev/zero never ends."""
    path = tmp_path / "x.json"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(RouterError, match=r"x\.json: (is no regular file|cannot be read \(Is a dir)"):
        load_router(path)


def test_a_file_has_a_limit_of_size(tmp_path: Path) -> None:
    content, _ = names_file([Entity(files.Candidate("Q1", "Paris", None, 1.0), [])], {})
    for load, largest in ((load_router, decisions.LARGEST), (load_names, files.LARGEST_NAMES)):
        path = tmp_path / "large"
        path.write_bytes(content)
        os.truncate(path, largest + 1)  # a hole: nothing is on the disk
        with pytest.raises(
            RouterError, match=f"large: has {largest + 1:,} bytes; at most {largest:,} are read"
        ):
            load(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("popularity", "12"), ("popularity", True), ("popularity", [1]), ("popularity", 1j), ("popularity", math.nan),
        ("popularity", Decimal(1)), ("popularity", np.float32("nan")), ("popularity", np.True_),
        ("relation", ["x"]), ("relation", 7), ("relation", b"composer"), ("relation", {}),
        ("consistency", "0.5"), ("consistency", True), ("certainty", [0.5]), ("certainty", np.float64("nan")),
    ],
)  # fmt: skip
def test_arguments_of_another_kind_are_refused(router: Router, name: str, value: Any) -> None:
    with pytest.raises(RouterError, match=f"{name} must be a ") as refused:
        router.decide(**{name: value})
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
