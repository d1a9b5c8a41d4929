"""Answer, retrieve or abstain: what a router decides where a greatest risk is set."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hand_made import BM25, DENSE, marts_of, routers_of

from longtail.router import Router, RouterError

NAMED = "0.5, which promises that at most 0.2 of the answers are wrong"


@pytest.fixture(scope="module")
def routers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Router]:
    marts = marts_of(tmp_path_factory.mktemp("marts"), predicts=True)
    return routers_of(marts, tmp_path_factory.mktemp("routers"))


@pytest.mark.parametrize(
    ("known", "retrieve", "abstain", "n", "why"),
    [
        ({"confidence": 0.51}, False, False, 40, f"confidence is above {NAMED}"),
        ({"confidence": 0.5}, True, False, 40, f"confidence is not above {NAMED}; passage_confidence may be"),
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
    routers: dict[str, Router], known: dict[str, float], retrieve: bool, abstain: bool, n: int, why: str
) -> None:
    found = routers[BM25].decide(**known, relation="composer", greatest_risk=0.2)
    assert (found.retrieve, found.abstain, found.n, found.why) == (retrieve, abstain, n, why)
    assert (found.accuracy_with, found.accuracy_without) == (None, None)


def test_the_last_threshold_answers_everything_and_a_risk_that_nothing_promises_nothing(
    routers: dict[str, Router],
) -> None:
    lax = routers[BM25].decide(confidence=0.0, passage_confidence=1.0, greatest_risk=0.5)
    assert (lax.retrieve, lax.abstain) == (False, False)
    assert lax.why == (
        "every question is answered from memory, which promises that at most 0.5 of the answers are wrong"
    )
    for greatest in (0.1, 0.1249999):
        found = routers[BM25].decide(confidence=1.0, passage_confidence=1.0, greatest_risk=greatest)
        assert (found.retrieve, found.abstain, found.n) == (False, True, 0)
        assert (
            found.why
            == f"no threshold on confidence promises that at most {greatest:.4g} of the answers are wrong"
        )
    assert not routers[BM25].decide(confidence=0.51, greatest_risk=0.125).abstain
    unsure = routers[DENSE].decide(5, confidence=1.0, greatest_risk=0.9)
    assert unsure.why == "no threshold on confidence promises that at most 0.9 of the answers are wrong"


def test_without_a_greatest_risk_nothing_abstains(routers: dict[str, Router]) -> None:
    for router in routers.values():
        for asked in (
            {},
            {"popularity": 3},
            {"confidence": 0.0},
            {"popularity": 3, "passage_confidence": 0.0},
        ):
            assert not router.decide(**asked).abstain


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        *(("greatest_risk", value, "greatest_risk must be a share above 0 and below 1; it is ")
          for value in (0, 1, -0.1, 5, math.nan, True, "0.1")),
        *(("passage_confidence", value, "passage_confidence must be a probability between 0 and 1, or None if unknown")
          for value in (1.01, -1, math.nan, True, "0.1")),
    ],
)  # fmt: skip
def test_what_is_no_share_is_refused_in_one_line(
    routers: dict[str, Router], name: str, value: Any, said: str
) -> None:
    with pytest.raises(RouterError) as refused:
        routers[BM25].decide(**{"confidence": 0.5, name: value})
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)
