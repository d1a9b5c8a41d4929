"""Routers that decide by a predicted probability: the arithmetic by hand, what is missing, and which signal is chosen."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hand_made import BM25, DENSE, marts_of, routers_of

from longtail.router import Router, RouterError
from longtail.router.publish import documents, prediction_fields

NEEDED = "not predicted, which needs popularity, consistency, certainty: "


@pytest.fixture(scope="module")
def routers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Router]:
    marts = marts_of(tmp_path_factory.mktemp("marts"), predicts=True)
    return routers_of(marts, tmp_path_factory.mktemp("routers"))


@pytest.fixture
def router(routers: dict[str, Router]) -> Router:
    return routers[BM25]


def test_the_most_accurate_sure_signal_decides(routers: dict[str, Router]) -> None:
    assert {name: router.signal for name, router in routers.items()} == {BM25: "all", DENSE: "popularity"}
    router = routers[BM25]
    assert router.features == ("popularity", "consistency", "certainty", "relation")
    prediction = router.document["prediction"]
    assert prediction["signal_prompt"] == "asked"
    assert prediction["held_out"]["accuracy"] == 0.95
    assert prediction["why"] == (
        "the predicted probability is surely better than what needs no prediction: held-out gain over always or never"
        " +5.0 points (+4.0 to +6.0); over one threshold on popularity +3.0 points (+2.0 to +4.0); over thresholds per"
        " relation +2.0 points (+1.0 to +3.0)"
    )


def test_without_a_sure_signal_popularity_decides(tmp_path: Path) -> None:
    found = dict(documents(marts_of(tmp_path), {"study": "s"}))
    assert {router["signal"] for router in found.values()} == {"popularity"}
    assert not any("prediction" in router for router in found.values())


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


@pytest.mark.parametrize("value", [math.nan, 1.01, -2, math.inf])
@pytest.mark.parametrize("name", ["consistency", "certainty"])
def test_what_is_no_cosine_is_refused(router: Router, name: str, value: float) -> None:
    with pytest.raises(
        RouterError, match=f"{name} must be a mean cosine between -1 and 1, or None if unknown"
    ):
        router.decide(5, "composer", **{"consistency": 0.5, "certainty": 0.5, name: value})


@pytest.mark.parametrize("value", [math.nan, 1.0000001, -0.1, math.inf, True, "0.5"])
def test_what_is_no_probability_is_refused(routers: dict[str, Router], value: Any) -> None:
    for router in routers.values():
        with pytest.raises(
            RouterError, match="confidence must be a probability between 0 and 1, or None"
        ) as error:
            router.decide(5, "composer", confidence=value)
        assert "\n" not in str(error.value)


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
    (pair,) = marts.signals
    policy = {"signal": signal, "threshold_scope": "per_relation"}
    changed = {"predictor_names": predictors, "predictor_means": means, "predictor_deviations": deviations,
               "rule_coefficients": coefficients, "threshold_probability": 0.5}  # fmt: skip
    rules = [{**row, **policy, **changed} for row in marts.signal_rules[pair]]
    best = [{**marts.signals[pair][0], **policy, "accuracy": 0.99}]
    changed_marts = replace(marts, signals={pair: best}, signal_rules={pair: rules})
    return routers_of(changed_marts, folder / "routers")[BM25]


def test_a_router_by_popularity_ignores_the_measures(routers: dict[str, Router]) -> None:
    assert routers[DENSE].decide(3, "composer", 0.1, 0.2, 0.3) == routers[DENSE].decide(3, "composer")


def test_of_equally_accurate_signals_the_cheaper_and_simpler_one_is_chosen(tmp_path: Path) -> None:
    marts = marts_of(tmp_path, predicts=True)
    (pair,) = marts.signals
    rows = [{**row, "accuracy": 0.9} for row in marts.signals[pair]]
    rules = [
        {**marts.signal_rules[pair][0], "signal": row["signal"], "threshold_scope": row["threshold_scope"]}
        for row in rows
    ]
    assert prediction_fields(rows, rules)["signal"] == "popularity_relation"
    dear = [row for row in rows if row["signal"] != "popularity_relation"]
    assert prediction_fields(dear, rules)["signal"] == "all"
    assert prediction_fields([], rules) == {}
