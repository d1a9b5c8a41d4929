"""Published routers: what a file says, recomputed by hand, the folder, and decisions beside the marts of a warehouse."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from hand_made import BM25, DENSE, marts_of, routers_of, write_marts

from longtail.errors import PublishError, RouterError
from longtail.router import Candidate, Decision, load_names, load_router
from longtail.router.publish import Marts, documents, publish_routers, read_marts
from longtail.router.service import NAMES
from longtail.storage.checksums import RECORD
from longtail.study.study import Study
from tests.flipped_bits import flip_bit
from tests.lakes import LakePlan, make_study
from tests.synced import renames_on_disk
from tests.warehouses import AWKWARD, published_study


@pytest.fixture
def hand_made_marts(tmp_path: Path) -> Marts:
    return marts_of(tmp_path)


def documents_by_name(hand_made_marts: Marts) -> dict[str, dict[str, Any]]:
    return dict(documents(hand_made_marts, {"study": "s"}))


def with_gains(hand_made_marts: Marts, retriever: str, **scopes: dict[str, Any]) -> Marts:
    """The hand_made_marts with other values in the gains of one pair, by scope."""
    gains = {
        pair: [
            {**row, **scopes.get(row["threshold_scope"], {})} if pair[-1] == retriever else row
            for row in rows
        ]
        for pair, rows in hand_made_marts["gains"].items()
    }
    return {**hand_made_marts, "gains": gains}


def segment(n: int, right_with: int, right_without: int) -> dict[str, Any]:
    return {"n": n, "accuracy_with": right_with / n, "accuracy_without": right_without / n}


EMPTY = {"n": 0, "accuracy_with": None, "accuracy_without": None}


def test_each_pair_has_a_router_but_a_bound_has_none(hand_made_marts: Marts) -> None:
    assert set(documents_by_name(hand_made_marts)) == {BM25, DENSE}


def test_a_router_with_thresholds(hand_made_marts: Marts) -> None:
    router = documents_by_name(hand_made_marts)[BM25]
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
            "decision": "below", "threshold_popularity": 3.0,
            "overall": segment(7, 4, 4), "below": segment(3, 3, 0), "above": segment(4, 1, 4),
        },
        "capital": {
            "decision": "never", "threshold_popularity": 3.0, "overall": segment(2, 0, 2), "below": EMPTY,
            "above": segment(2, 0, 2),
        },
        "composer": {
            "decision": "below", "threshold_popularity": 4.0,
            "overall": segment(4, 3, 2), "below": segment(2, 2, 0), "above": segment(2, 1, 2),
        },
    }  # fmt: skip


def test_the_file_says_what_it_was_fitted_on(hand_made_marts: Marts) -> None:
    assert documents_by_name(hand_made_marts)[BM25]["fitted_on"] == {
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


def test_an_interval_that_touches_zero_is_no_sure_gain(hand_made_marts: Marts) -> None:
    unsure = with_gains(hand_made_marts, "bm25", per_relation={"gain_ci_low": 0.0})
    router = documents_by_name(unsure)[BM25]
    assert (router["policy"], router["features"]) == ("never", ())
    assert router["why"] == (
        "never retrieve: 57.1% of the answers are right with retrieval, 57.1% without, and no threshold is surely better"
        " (all: held-out gain +5.0 points, 95 % interval +0.0 to +10.0;"
        " per_relation: held-out gain +10.0 points, 95 % interval +0.0 to +20.0)"
    )
    assert router["rules"]["composer"] == {"decision": "never", "overall": segment(4, 3, 2)}


def test_a_gain_without_an_interval_is_not_sure_either(hand_made_marts: Marts) -> None:
    router = documents_by_name(hand_made_marts)[DENSE]
    assert router["policy"] == "always"
    assert "no interval, because fewer than 20 subjects decide it" in router["why"]
    assert {row["threshold_scope"]: row["gain_ci_high"] for row in router["gains"]} == {
        "per_relation": None,
        "all": 0.08,
    }


@pytest.mark.parametrize(("accuracy", "policy"), [(0.95, "all"), (0.9, "all"), (0.85, "per_relation")])
def test_of_two_sure_gains_the_higher_held_out_accuracy_wins_and_the_simpler_of_equals(
    hand_made_marts: Marts, tmp_path: Path, accuracy: float, policy: str
) -> None:
    sure = with_gains(hand_made_marts, "bm25", all={"gain_ci_low": 0.01, "accuracy_adaptive": accuracy})
    assert documents_by_name(sure)[BM25]["policy"] == policy
    router = routers_of(sure, tmp_path / policy)[BM25]
    assert router.features == {"all": ("popularity",), "per_relation": ("popularity", "relation")}[policy]
    assert router.decide(3.5, "composer").retrieve == (policy == "per_relation")


def test_one_threshold_for_all_has_the_accuracies_of_each_relation(
    hand_made_marts: Marts, tmp_path: Path
) -> None:
    sure = with_gains(hand_made_marts, "bm25", all={"gain_ci_low": 0.01, "accuracy_adaptive": 0.95})
    rule = documents_by_name(sure)[BM25]["rules"]["composer"]
    assert (rule["threshold_popularity"], rule["below"], rule["above"]) == (
        3.0,
        segment(2, 2, 0),
        segment(2, 1, 2),
    )


def test_questions_without_popularity_count_only_if_none_has_one(hand_made_marts: Marts) -> None:
    (pair,) = (pair for pair in hand_made_marts["counts"] if pair[-1] == "dense")
    nameless = [{**row, "has_popularity": False} for row in hand_made_marts["counts"][pair]]
    counts = {**hand_made_marts["counts"], pair: nameless}
    unknown = {**hand_made_marts, "counts": counts, "thresholds": {}}
    router = documents_by_name(unknown)[DENSE]
    assert (router["policy"], router["rules"]["all"]["overall"]) == ("always", segment(8, 7, 4))
    assert documents_by_name(hand_made_marts)[DENSE]["rules"]["all"]["overall"] == segment(7, 6, 4)


def test_a_relation_without_a_threshold_of_its_own_gets_the_rule_for_all(
    hand_made_marts: Marts, tmp_path: Path
) -> None:
    (pair,) = (pair for pair in hand_made_marts["counts"] if pair[-1] == "bm25")
    without = [row for row in hand_made_marts["thresholds"][pair] if row["relation"] != "capital"]
    router = routers_of({**hand_made_marts, "thresholds": {pair: without}}, tmp_path / "without")[BM25]
    assert router.relations == ("composer",)
    assert router.decide(2.9, "capital").n == 3


LOG = logging.getLogger(__name__)
SURE = {"gain_ci_low": 0.01, "gain_ci_high": 0.03}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Study:
    """A study with hand-made marts as its published warehouse."""
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    study = make_study(tmp_path, LakePlan())
    write_marts(study.home.published_warehouse)
    return study


def test_the_folder_has_a_file_for_each_pair_and_the_names(small: Study) -> None:
    report = publish_routers(small, LOG)
    folder = small.home.published_router
    assert report.policies == {BM25: "per_relation", DENSE: "always"}
    assert {path.name for path in folder.iterdir()} == {f"{BM25}.json", f"{DENSE}.json", NAMES, RECORD}
    assert (
        load_router(folder / f"{BM25}.json").document["fitted_on"]["invocation_id"]
        == report.invocation_id
        == "run-1"
    )
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o444}
    names = load_names(folder / NAMES)
    assert (len(names), report.n_names) == (6, 6)
    assert names.head["popularity"]["measure"] == "page_views"
    assert [one.entity_id for one in names.lookup("paris")] == ["Q1", "Q2", "Q3"]
    assert names.lookup("strasse ONE") == (Candidate("Q4", "Straße", None, 0.0),)


def test_publishing_again_keeps_the_folder_and_a_new_warehouse_makes_another(small: Study) -> None:
    with renames_on_disk() as names:
        publish_routers(small, LOG)
    assert (names[0], names[2:]) == (RECORD, ["router"])
    folder = small.home.published_router.resolve()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    publish_routers(small, LOG)
    assert small.home.published_router.resolve() == folder
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    for second in range(1, 4):
        with duckdb.connect(str(small.home.published_warehouse)) as connection:
            connection.execute(
                f"update marts.publication set published_at = published_at + interval {second} second"
            )
        publish_routers(small, LOG)
    kept = sorted(path.name for path in (small.home.published / "routers").iterdir())
    assert len(kept) == 2
    assert small.home.published_router.resolve().name == kept[-1]
    with duckdb.connect(str(small.home.published_warehouse)) as connection:  # a clock that was set back
        connection.execute("update marts.publication set published_at = '2020-01-01'")
    publish_routers(small, LOG)
    assert sorted(path.name for path in (small.home.published / "routers").iterdir())[0] == kept[-1]


@pytest.mark.parametrize("name", [f"{BM25}.json", NAMES])
def test_what_a_damaged_router_advises_mends_it(small: Study, name: str) -> None:
    folder = publish_routers(small, LOG).path
    whole = (folder / name).read_bytes()
    (folder / name).chmod(0o644)
    flip_bit(folder / name)
    read = load_names if name == NAMES else load_router
    with pytest.raises(RouterError, match="cut or changed; the next run of the study publishes it again"):
        read(folder / name)
    publish_routers(small, LOG)
    assert (folder / name).read_bytes() == whole


def test_without_a_warehouse_and_with_a_folder_of_somebody_the_old_routers_stay(small: Study) -> None:
    publish_routers(small, LOG)
    link, folder = small.home.published_router, small.home.published_router.resolve()
    link.unlink()
    link.mkdir()
    with pytest.raises(PublishError, match="is not a link to a version"):
        publish_routers(small, LOG)
    link.rmdir()
    link.symlink_to(folder)
    small.home.published_warehouse.unlink()
    with pytest.raises(PublishError, match="nothing is published yet"):
        publish_routers(small, LOG)
    assert link.resolve() == folder


def test_a_failing_disk_is_one_line_and_the_old_routers_stay(small: Study) -> None:
    publish_routers(small, LOG)
    folder = small.home.published_router.resolve()
    with duckdb.connect(str(small.home.published_warehouse)) as connection:
        connection.execute("update marts.publication set published_at = published_at + interval 1 second")
    versions = small.home.published / "routers"
    versions.rename(versions.with_name("moved"))
    versions.write_text("no folder")
    with pytest.raises(PublishError, match="could not be published") as refused:
        publish_routers(small, LOG)
    assert "\n" not in str(refused.value)
    assert not small.home.published_router.exists()
    versions.unlink()
    versions.with_name("moved").rename(versions)
    assert small.home.published_router.resolve() == folder


@pytest.fixture(scope="module")
def built() -> Iterator[Study]:
    """The shared synthetic warehouse, published."""
    with pytest.MonkeyPatch.context() as patch:
        yield published_study(AWKWARD, patch)


@pytest.fixture(scope="module")
def marts(built: Study) -> Marts:
    with duckdb.connect(str(built.home.published_warehouse), read_only=True) as connection:
        return read_marts(connection)


@pytest.fixture(scope="module")
def questions(built: Study) -> pd.DataFrame:
    """Every question with popularity and both answers, by pair of methods."""
    with duckdb.connect(str(built.home.build_warehouse), read_only=True) as connection:
        return connection.execute(
            "select pairs.* from intermediate.int_answer_pairs as pairs "
            "where subject_popularity is not null and retrieval_method <> 'oracle'"
        ).df()


def key_of(row: dict[str, object]) -> str:
    return ".".join(str(row[name]) for name in _COLUMNS)


def test_every_pair_of_a_study_has_a_router_that_states_its_mart(built: Study, marts: Marts) -> None:
    report = publish_routers(built, LOG)
    assert set(report.policies) == {".".join(pair) for pair in marts["gains"]}
    assert not any(name.endswith(".oracle") for name in report.policies)
    assert any(name.startswith("popqa.few_shot.large.genread.bm25") for name in report.policies)
    for name, policy in report.policies.items():
        document = json.loads((built.home.published_router / f"{name}.json").read_text(encoding="utf-8"))
        sure = [row for row in document["gains"] if (row["gain_ci_low"] or 0) > 0]
        assert (policy in ("per_relation", "all")) == bool(sure)


@dataclasses.dataclass
class Tally:
    """Decided questions: how many, how many were retrieved, how many right, and the sum of the expected accuracies."""

    n: int = 0
    n_retrieved: int = 0
    n_right: int = 0
    expected: float = 0.0

    def add(self, decision: Decision, question: dict[str, Any]) -> None:
        retrieve = decision.retrieve
        self.n += 1
        self.n_retrieved += retrieve
        self.n_right += bool(question["retrieval_correct" if retrieve else "parametric_correct"])
        self.expected += (decision.accuracy_with if retrieve else decision.accuracy_without) or 0.0


@pytest.mark.parametrize(("scope", "rows_of_a_pair"), [("per_relation", 5), ("all", 1)])
def test_deciding_every_question_gives_the_mart_of_thresholds_exactly(
    built: Study, marts: Marts, questions: pd.DataFrame, tmp_path: Path, scope: str, rows_of_a_pair: int
) -> None:
    """With gains that are said to be sure, so that thresholds decide."""
    sure = {
        pair: [{**row, **SURE} for row in rows if row["threshold_scope"] == scope]
        for pair, rows in marts["gains"].items()
    }
    routers = routers_of({**marts, "gains": sure}, tmp_path / "routers")
    assert {router.policy for router in routers.values()} == {scope}
    tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)
    for question in questions.to_dict("records"):
        name, popularity = key_of(question), question["subject_popularity"]
        tallies[name, "all"].add(routers[name].decide(popularity=popularity), question)
        if scope == "per_relation":
            relation = question["relation"]
            tallies[name, relation].add(routers[name].decide(popularity, relation), question)
    with duckdb.connect(str(built.home.published_warehouse), read_only=True) as connection:
        mart = connection.execute("select * from marts.fct_adaptive_thresholds where search = 'exact'").df()
    stated = {(key_of(row), row["relation"]): row for row in mart.to_dict("records")}
    assert len(tallies) == len(routers) * rows_of_a_pair
    for key, tally in tallies.items():
        row = stated[key]
        assert tally.n == row["n"]
        assert tally.n_retrieved / tally.n == row["share_retrieved"]
        assert tally.n_right / tally.n == row["accuracy"]
        assert tally.expected / tally.n == pytest.approx(row["accuracy"], abs=1e-12)


_COLUMNS = ("dataset", "prompt", "model", "parametric_method", "retrieval_method")
