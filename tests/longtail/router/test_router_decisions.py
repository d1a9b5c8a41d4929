"""Decisions by hand-made routers, and files that are refused."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from hand_made import BM25, DENSE, marts_of, routers_of

from longtail.router import Decision, Router, RouterError, load_names, load_router
from longtail.router.decisions import FORMAT, VERSION
from longtail.router.files import seal
from longtail.storage.home import PROJECT_ROOT

ALONE = """
import sys
from longtail.router import load_router
router = load_router(sys.argv[1])
print(router.decide(popularity=2.5, relation="composer").retrieve)
print(*sorted(name for name in sys.modules if name.startswith("longtail")))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("routers")


@pytest.fixture(scope="module")
def routers(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Router]:
    return routers_of(marts_of(tmp_path_factory.mktemp("marts")), folder)


def test_a_popularity_is_compared_with_the_threshold_of_its_relation(routers: dict[str, Router]) -> None:
    router = routers[BM25]
    assert (router.policy, router.features) == ("per_relation", ("popularity", "relation"))
    assert router.relations == ("capital", "composer")
    below = "popularity is below 4, the threshold for relation composer"
    assert router.decide(popularity=3.9, relation="composer") == Decision(True, 1.0, 0.0, 2, below)
    above = "popularity is not below 4, the threshold for relation composer"
    assert router.decide(popularity=4, relation="composer") == Decision(False, 0.5, 1.0, 2, above)
    assert not router.decide(popularity=3.9, relation="capital").retrieve
    rarer = router.decide(popularity=2.9, relation="capital")
    assert (rarer.retrieve, rarer.accuracy_with, rarer.n) == (True, None, 0)


@pytest.mark.parametrize("relation", [None, "all"])
def test_without_a_relation_the_rule_for_all_decides(
    routers: dict[str, Router], relation: str | None
) -> None:
    found = routers[BM25].decide(popularity=2.9, relation=relation)
    assert found == Decision(True, 1.0, 0.0, 3, "popularity is below 3, the threshold for all relations")
    assert not routers[BM25].decide(popularity=3, relation=relation).retrieve


def test_an_unknown_relation_gets_the_rule_for_all_and_is_told(routers: dict[str, Router]) -> None:
    found = routers[BM25].decide(popularity=2.9, relation="sport")
    assert (found.retrieve, found.n) == (True, 3)
    assert found.why == "popularity is below 3, the threshold for all relations (this one is unknown)"


def test_without_a_popularity_the_better_fixed_method_decides(routers: dict[str, Router]) -> None:
    never = routers[BM25].decide(relation="capital")
    assert never == Decision(
        False, 0.0, 1.0, 2, "popularity is unknown: the better fixed method is to never retrieve"
    )
    always = routers[DENSE].decide()
    assert (always.retrieve, always.n, always.accuracy_with, always.accuracy_without) == (
        True,
        7,
        6 / 7,
        4 / 7,
    )


def test_a_router_without_a_sure_gain_always_decides_the_same(routers: dict[str, Router]) -> None:
    router = routers[DENSE]
    assert (router.policy, router.features) == ("always", ())
    for popularity in (0, 3, 1e12, None):
        for relation in ("composer", "capital", "sport", None):
            assert router.decide(popularity, relation).retrieve
    assert router.decide(3, "capital") == Decision(True, 0.5, 1.0, 2, "always retrieve for relation capital")


@pytest.mark.parametrize("popularity", [-1, -1e-300, math.nan, math.inf, -math.inf])
def test_what_is_no_popularity_is_refused(routers: dict[str, Router], popularity: float) -> None:
    for router in routers.values():
        with pytest.raises(
            RouterError, match="popularity must be a number of at least 0, or None"
        ) as refused:
            router.decide(popularity=popularity, relation="composer")
        assert "\n" not in str(refused.value)


def test_decisions_cannot_be_changed(routers: dict[str, Router]) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        routers[BM25].decide(1).retrieve = False  # type: ignore[misc]


def test_reading_needs_the_standard_library_alone(routers: dict[str, Router], folder: Path) -> None:
    """-S: a Python that finds no installed package at all."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", ALONE, str(folder / f"{BM25}.json")],
        cwd=PROJECT_ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    decided, modules = done.stdout.splitlines()
    assert decided == "True"
    own = (
        "",
        ".errors",
        ".router",
        *(f".router.{one}" for one in ("decisions", "names", "predictions", "sealed")),
    )
    assert modules.split() == [f"longtail{name}" for name in own]


def test_the_checksum_is_of_the_file_with_zeros_in_its_place(
    routers: dict[str, Router], folder: Path
) -> None:
    content = (folder / f"{BM25}.json").read_bytes()
    stated = json.loads(content)["sha256"].encode()
    assert hashlib.sha256(content.replace(stated, b"0" * 64)).hexdigest().encode() == stated


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: b"", "does not begin like a file of format longtail-router"),
        (lambda content: content[:50], "does not begin like a file of format longtail-router"),
        (lambda content: b'{"format": 1}', "does not begin like a file of format longtail-router"),
        (_cut, "does not fit its checksum"),
        (lambda content: content + b" ", "does not fit its checksum"),
        (
            lambda content: content.replace(b'"threshold": 4.0', b'"threshold": 5.0'),
            "does not fit its checksum",
        ),
        (
            lambda content: content.replace(b'"version": 3', b'"version": 1'),
            "has version 1 of format longtail-router; this program reads version 3",
        ),
        (
            lambda content: _resealed(content, signal="predicted"),
            "decides by 'predicted'; this program decides by popularity, confidence, popularity_relation,",
        ),
        (lambda content: _resealed(content, rules={}), "lacks 'all'"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused_by_name(
    routers: dict[str, Router], folder: Path, tmp_path: Path, change, said: str
) -> None:
    path = tmp_path / "some.router.json"
    path.write_bytes(change((folder / f"{BM25}.json").read_bytes()))
    with pytest.raises(RouterError) as refused:
        load_router(path)
    assert str(refused.value).startswith(f"{path}: {said}")
    assert "\n" not in str(refused.value)


def _resealed(content: bytes, **changed: object) -> bytes:
    fields = {
        key: value for key, value in json.loads(content).items() if key not in ("format", "version", "sha256")
    }
    return seal(FORMAT, VERSION, {**fields, **changed})


def test_fields_that_a_reader_does_not_know_are_no_hindrance(
    routers: dict[str, Router], folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "later.json"
    path.write_bytes(_resealed((folder / f"{BM25}.json").read_bytes(), later={"kept": [1.5]}))
    assert load_router(path).decide(3, "composer") == routers[BM25].decide(3, "composer")


def test_a_missing_file_and_one_of_another_kind(
    routers: dict[str, Router], folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(RouterError, match=r"none\.json: cannot be read \(No such file or directory\)"):
        load_router(tmp_path / "none.json")
    with pytest.raises(RouterError, match="does not begin like a file of format longtail-names"):
        load_names(folder / f"{BM25}.json")
