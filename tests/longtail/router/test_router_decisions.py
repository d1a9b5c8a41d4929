"""Decisions by hand-made routers: thresholds, promises, predicted probabilities by hand, and files that are refused."""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hand_made import BM25, DENSE, marts_of, routers_of

from longtail.router import Decision, Router, RouterError, load_names, load_router
from longtail.router.decisions import FORMAT, VERSION, seal
from longtail.router.publish import prediction_fields
from longtail.storage.home import PROJECT_ROOT
from tests.longtail.statistics.compared_signals import KEY, Row, written

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


@pytest.mark.parametrize(("relation", "said"), [(None, ""), ("all", ""), ("sport", " (this one is unknown)")])
def test_without_a_known_relation_the_rule_for_all_decides(
    routers: dict[str, Router], relation: str | None, said: str
) -> None:
    why = f"popularity is below 3, the threshold for all relations{said}"
    assert routers[BM25].decide(popularity=2.9, relation=relation) == Decision(True, 1.0, 0.0, 3, why)
    assert not routers[BM25].decide(popularity=3, relation=relation).retrieve


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


def test_reading_needs_the_standard_library_alone(routers: dict[str, Router], folder: Path) -> None:
    """-S: a Python that finds no installed package at all."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", ALONE, str(folder / f"{BM25}.json")],
        cwd=PROJECT_ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    decided, modules = done.stdout.splitlines()
    assert decided == "True"
    needed = ("", ".errors", ".router", ".router.decisions")
    assert modules.split() == [f"longtail{name}" for name in needed]


def test_the_checksum_is_of_the_file_with_zeros_in_its_place(
    routers: dict[str, Router], folder: Path
) -> None:
    content = (folder / f"{BM25}.json").read_bytes()
    stated = json.loads(content)["sha256"].encode()
    assert hashlib.sha256(content.replace(stated, b"0" * 64)).hexdigest().encode() == stated


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: b"", "is not a file of format longtail-router"),
        (lambda content: content[: len(content) // 2], "checksum mismatch"),
        (lambda content: content + b" ", "checksum mismatch"),
        (
            lambda content: content.replace(b'"threshold_popularity": 4.0', b'"threshold_popularity": 5.0'),
            "checksum mismatch",
        ),
        (
            lambda content: content.replace(b'"version": %d' % VERSION, b'"version": 1'),
            f"has version 1 of format longtail-router; this program reads version {VERSION}",
        ),
        (
            lambda content: _resealed(content, signal="predicted"),
            "decides by 'predicted'; this program decides by popularity, confidence, popularity_relation,",
        ),
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
    with pytest.raises(RouterError, match="is not a file of format longtail-names"):
        load_names(folder / f"{BM25}.json")


NAMED = "0.5, which promises that at most 0.2 of the answers are wrong"


@pytest.fixture(scope="module")
def predicting(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Router]:
    marts = marts_of(tmp_path_factory.mktemp("marts"), predicts=True)
    return routers_of(marts, tmp_path_factory.mktemp("predicting"))


@pytest.mark.parametrize(
    ("known", "retrieve", "abstain", "n", "why"),
    [
        ({"confidence": 0.51}, False, False, 40, f"confidence is above {NAMED}"),
        (
            {"confidence": 0.5}, True, False, 40,
            f"confidence is not above {NAMED}; retrieve, and give that answer if passage_confidence is above the"
            " threshold",
        ),
        ({"confidence": 0.1, "passage_confidence": 0.9}, True, False, 40, f"passage_confidence is above {NAMED}"),
        ({"confidence": 0.9, "passage_confidence": 0.1}, False, False, 40, f"confidence is above {NAMED}"),
        (
            {"confidence": 0.5, "passage_confidence": 0.5, "popularity": 9},
            False, True, 40, f"neither confidence nor passage_confidence is above {NAMED}",
        ),
        (
            {"popularity": 4.5}, False, False, 20,
            "popularity is above 4, which promises that at most 0.2 of the answers are wrong",
        ),
        (
            {"popularity": 4}, False, True, 20,
            "popularity is not above 4, which promises that at most 0.2 of the answers are wrong; what it says of a"
            " passage's answer is not known",
        ),
        ({}, False, True, 0, "confidence and popularity are unknown, so no risk can be promised"),
    ],
)  # fmt: skip
def test_the_laxest_threshold_that_promises_the_risk_decides(
    predicting: dict[str, Router], known: dict[str, float], retrieve: bool, abstain: bool, n: int, why: str
) -> None:
    found = predicting[BM25].decide(**known, relation="composer", greatest_risk=0.2)
    assert (found.retrieve, found.abstain, found.n, found.why) == (retrieve, abstain, n, why)
    assert (found.accuracy_with, found.accuracy_without) == (None, None)


def test_the_last_threshold_answers_everything_and_a_risk_that_nothing_promises_nothing(
    predicting: dict[str, Router],
) -> None:
    lax = predicting[BM25].decide(confidence=0.0, passage_confidence=1.0, greatest_risk=0.5)
    assert (lax.retrieve, lax.abstain) == (False, False)
    assert lax.why == (
        "every question is answered from memory, which promises that at most 0.5 of the answers are wrong"
    )
    for greatest in (0.1, 0.1249999):
        found = predicting[BM25].decide(confidence=1.0, passage_confidence=1.0, greatest_risk=greatest)
        assert (found.retrieve, found.abstain, found.n) == (False, True, 0)
        assert (
            found.why
            == f"no threshold on confidence promises that at most {greatest:.4g} of the answers are wrong"
        )
    assert not predicting[BM25].decide(confidence=0.51, greatest_risk=0.125).abstain
    unsure = predicting[DENSE].decide(5, confidence=1.0, greatest_risk=0.9)
    assert unsure.why == "no threshold on confidence promises that at most 0.9 of the answers are wrong"


NO_NUMBERS: tuple[Any, ...] = (math.nan, True, "0.5", [0.5], 1j, Decimal("0.5"), np.float32("nan"), np.True_)
REFUSED = {
    "popularity": ("a number of at least 0, or None if unknown", (-1, -1e-300, math.inf, *NO_NUMBERS)),
    "relation": ("a text, or None if there is none", (["x"], 7, b"composer", {})),
    "consistency": ("a mean cosine between -1 and 1, or None if unknown", (1.01, -2, math.inf, *NO_NUMBERS)),
    "certainty": ("a mean cosine between -1 and 1, or None if unknown", (1.01, -2, math.inf, *NO_NUMBERS)),
    "confidence": (
        "a probability between 0 and 1, or None if unknown",
        (1.0000001, -0.1, math.inf, *NO_NUMBERS),
    ),
    "passage_confidence": ("a probability between 0 and 1, or None if unknown", (1.01, -1, *NO_NUMBERS)),
    "greatest_risk": ("a share above 0 and below 1", (0, 1, -0.1, 5, *NO_NUMBERS)),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, (_, values) in REFUSED.items() for value in values]
)
def test_arguments_that_are_no_such_value_are_refused_in_one_line(
    predicting: dict[str, Router], name: str, value: Any
) -> None:
    for router in predicting.values():  # by a prediction, and by popularity
        with pytest.raises(RouterError) as error:
            router.decide(**{"popularity": 5, "relation": "composer", name: value})
        assert str(error.value).startswith(f"{name} must be {REFUSED[name][0]}; it is ")
        assert "\n" not in str(error.value)


NEEDED = "not predicted, which needs popularity, consistency, certainty: "


@pytest.fixture
def router(predicting: dict[str, Router]) -> Router:
    return predicting[BM25]


def test_numbers_of_numpy_are_numbers(router: Router) -> None:
    numpys: Any = (np.int64(3), np.str_("composer"), np.float32(0.5), np.float64(0.25))
    assert router.decide(*numpys) == router.decide(3, "composer", 0.5, 0.25)
    assert router.decide(*numpys[:2]) == router.decide(3, "composer")


def test_the_most_accurate_sure_signal_decides(predicting: dict[str, Router]) -> None:
    assert {name: router.signal for name, router in predicting.items()} == {BM25: "all", DENSE: "popularity"}
    router = predicting[BM25]
    assert router.features == ("popularity", "consistency", "certainty", "relation")
    prediction = router.document["prediction"]
    assert prediction["signal_prompt"] == "asked"
    assert prediction["held_out"]["accuracy"] == 0.95
    assert prediction["why"] == (
        "the predicted probability is surely better than what needs no prediction: held-out gain over always or never"
        " +5.0 points (+4.0 to +6.0); over one threshold on popularity +3.0 points (+2.0 to +4.0); over thresholds per"
        " relation +2.0 points (+1.0 to +3.0)"
    )


@pytest.mark.parametrize(
    ("popularity", "consistency", "certainty", "probability"),
    [
        # 0.5 - ln(popularity) + (consistency - 0.5) / 0.25 + 2 (certainty - 0.5) is the logit.
        (1.0, 0.5, 0.5, 1 / (1 + math.exp(-0.5))),
        (math.exp(2.5), 0.75, 0.75, 1 / (1 + math.exp(0.5))),
        (math.exp(1), 0.5, 0.75, 0.5),
    ],
)
def test_the_probability_is_compared_with_the_threshold(
    router: Router, popularity: float, consistency: float, certainty: float, probability: float
) -> None:
    found = router.decide(popularity, "composer", consistency, certainty)
    assert found.retrieve == (probability < 0.5)
    side, counted = ("below", (1.0, 1 / 3, 3)) if found.retrieve else ("not below", (0.25, 1.0, 4))
    assert (found.accuracy_with, found.accuracy_without, found.n) == counted
    assert found.why == (
        f"the probability that the answer is right without retrieval is {side} 0.5, the threshold for relation composer"
    )


def test_a_threshold_of_infinity_means_always(router: Router) -> None:
    found = router.decide(1e9, "capital", 1, 1)
    assert (found.retrieve, found.why) == (True, "always retrieve for relation capital")


@pytest.mark.parametrize(
    ("relation", "named"), [(None, "all relations"), ("sport", "all relations (this one is unknown)")]
)
def test_without_a_known_relation_the_common_coefficients_decide(
    router: Router, relation: str | None, named: str
) -> None:
    found = router.decide(5, relation, 0.4, 0.9)
    assert found.retrieve
    assert found.why.endswith(f"below 0.5, the threshold for {named}")
    assert not router.decide(5, relation, 0.6, 0.9).retrieve


@pytest.mark.parametrize(
    "known",
    [{}, {"consistency": 0.5}, {"certainty": 0.5}, {"consistency": 0.5, "certainty": 0.5, "popularity": 0}],
)
def test_without_a_feature_popularity_decides_and_it_says_why(router: Router, known: dict[str, Any]) -> None:
    found = router.decide(**{"popularity": 3.9, "relation": "composer", **known})
    assert (found.retrieve, found.n) == (True, 2)
    assert found.why == f"{NEEDED}popularity is below 4, the threshold for relation composer"
    unpopular = router.decide(relation="composer", consistency=0.5, certainty=0.5)
    assert unpopular.why == f"{NEEDED}popularity is unknown: the better fixed method is to never retrieve"


def test_confidence_itself_is_compared_with_its_threshold(tmp_path: Path) -> None:
    router = by_confidence(tmp_path, ["confidence"], [0.0], [1.0], [0.0, 1.0], signal="confidence")
    assert (router.signal, router.features) == ("confidence", ("confidence", "relation"))
    assert router.document["prediction"]["why"].startswith(
        "confidence is surely better than what needs no prediction"
    )
    assert router.decide(confidence=0.49, relation="composer").retrieve
    found = router.decide(confidence=0.5, relation="composer")
    assert (found.retrieve, found.n) == (False, 4)
    assert found.why == "confidence is not below 0.5, the threshold for relation composer"
    unsure = router.decide(3.9, "composer")
    assert unsure.why == "confidence is unknown: popularity is below 4, the threshold for relation composer"


def test_a_prediction_takes_the_logarithms_of_popularity_and_confidence(tmp_path: Path) -> None:
    predictors = ["popularity", "confidence"]
    router = by_confidence(
        tmp_path, predictors, [1.0, -2.0], [2.0, 0.5], [0.25, 1.0, 3.0], signal="popularity_confidence"
    )
    assert router.features == ("popularity", "confidence", "relation")
    for popularity, confidence in ((3.0, 0.2), (9.0, 0.1), (0.5, 0.3), (40.0, 0.01), (2.0, 0.125)):
        logit = 0.25 + (math.log(popularity) - 1) / 2 + 3 * (math.log(confidence) + 2) / 0.5
        assert router.decide(popularity, "composer", confidence=confidence).retrieve == (logit < 0)
    assert router.decide(1e300, "composer", confidence=0.0).retrieve == (
        0.25 + (math.log(1e300) - 1) / 2 + 6 * (math.log(1e-30) + 2) < 0
    )
    assert router.decide(3, "composer").why.startswith(
        "not predicted, which needs popularity, confidence: popularity is"
    )


def by_confidence(
    folder: Path,
    predictors: list[str],
    means: list[float],
    deviations: list[float],
    coefficients: list[float],
    signal: str,
) -> Router:
    """The router of `bm25` if `signal` is surely better than all others, with thresholds per relation."""
    marts = marts_of(folder, predicts=True)
    (pair,) = marts["signals"]
    policy = {"signal": signal, "threshold_scope": "per_relation"}
    changed = {"predictor_names": predictors, "predictor_means": means, "predictor_deviations": deviations,
               "rule_coefficients": coefficients, "threshold_probability": 0.5}  # fmt: skip
    rules = [{**row, **policy, **changed} for row in marts["signal_rules"][pair]]
    best = [{**marts["signals"][pair][0], **policy, "accuracy": 0.99}]
    changed_marts = {**marts, "signals": {pair: best}, "signal_rules": {pair: rules}}
    return routers_of(changed_marts, folder / "predicting")[BM25]


def test_a_router_by_popularity_ignores_the_measures(predicting: dict[str, Router]) -> None:
    assert predicting[DENSE].decide(3, "composer", 0.1, 0.2, 0.3) == predicting[DENSE].decide(3, "composer")


def test_of_equally_accurate_signals_the_cheaper_and_simpler_one_is_chosen(tmp_path: Path) -> None:
    marts = marts_of(tmp_path, predicts=True)
    (pair,) = marts["signals"]
    rows = [{**row, "accuracy": 0.9} for row in marts["signals"][pair]]
    rules = [
        {**marts["signal_rules"][pair][0], "signal": row["signal"], "threshold_scope": row["threshold_scope"]}
        for row in rows
    ]
    assert prediction_fields(rows, rules)["signal"] == "popularity_relation"
    dear = [row for row in rows if row["signal"] != "popularity_relation"]
    assert prediction_fields(dear, rules)["signal"] == "all"
    assert prediction_fields([], rules) == {}


COSTS = ("device_seconds", "cost_usd", "latency_ms")
FEATURES = ("popularity", "relation", "scons", "cert", "confidence")


def asked(n: int = 160) -> Row:
    """A row of int_signal_rows' query: questions whose answer is right the more often, the surer its signals are."""
    rng = np.random.default_rng(5)
    sure = rng.random(n)
    free = [0.0] * n
    return {
        **KEY, "retrieval_method": "bm25", "signal_prompt": "p",
        **{f"{side}_{cost}": free for side in ("parametric", "retrieval") for cost in COSTS},
        **{f"signal_{cost}": free for cost in ("tokens", *COSTS)}, "parametric_tokens": free,
        "question_id": [f"q{at:03}" for at in range(n)],
        "relation": sorted(rng.choice(["capital", "composer"], n).tolist()),
        "popularity": rng.integers(1, 1_000, n).astype(float).tolist(),
        "parametric": (rng.random(n) < sure).astype(float).tolist(),
        "retrieval": (rng.random(n) < 0.6).astype(float).tolist(),
        **{name: (0.7 * sure + 0.3 * rng.random(n)).tolist() for name in ("scons", "cert", "confidence")},
    }  # fmt: skip


def test_a_router_decides_each_question_as_the_study_counted_it(tmp_path: Path) -> None:
    pairs, marts = asked(), marts_of(tmp_path, predicts=True)
    rules = written(pairs, n_splits=3)["rules"]
    (pair,) = marts["signals"]
    policies = {(row["signal"], row["threshold_scope"]) for row in rules}
    assert {signal for signal, _ in policies} > {"confidence", "popularity_confidence", "consistency", "all"}
    questions = list(zip(*map(pairs.get, FEATURES), strict=True))
    for signal, scope in policies:
        best = {**marts["signals"][pair][0], "signal": signal, "threshold_scope": scope}
        predicted = {**marts, "signals": {pair: [best]}, "signal_rules": {pair: rules}}
        router = routers_of(predicted, tmp_path / f"{signal} {scope}")[BM25]
        counts: Counter[tuple[str, bool]] = Counter()
        for popularity, relation, *measures in questions:
            retrieve = router.decide(popularity, relation, *measures).retrieve
            counts.update([(relation, retrieve), *([("all", retrieve)] if scope == "all" else [])])
        for rule in rules:
            is_counted = rule["relation"] != "all" or scope == "all"
            if is_counted and (rule["signal"], rule["threshold_scope"]) == (signal, scope):
                sides = counts[rule["relation"], True], counts[rule["relation"], False]
                assert sides == (rule["n_below"], rule["n_above"]), (signal, scope, rule["relation"])


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
    with pytest.raises(RouterError, match=r"x\.json: is not a regular file"):
        load_router(path)
