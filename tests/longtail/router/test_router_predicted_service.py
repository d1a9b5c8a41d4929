"""A router by prediction in a service: question, features, decision, with or without passage, answer.

Its accuracy on new questions agrees with the held-out gain of the study that the router was made from.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from asked_service import Ask, Row, prompt_of, serve
from hand_made import BM25, marts_of, routers_of

from longtail.router import Decision, Router
from tests.longtail.statistics.compared_signals import KEY, interval, written

N_SAMPLES, N_WORDINGS = 10, 3
COSTS = ("device_seconds", "cost_usd", "latency_ms")
COMPARED = {
    "gain": "fixed",
    "gain_over_popularity_all": "popularity_all",
    "gain_over_popularity_per_relation": "popularity_per_relation",
}


def planted(n: int, rng: np.random.Generator) -> list[Row]:
    """Questions that the model repeats an answer to are nearly always right, others nearly never; popularity is noise."""
    return [_question(number, rng) for number in range(n)]


def _question(number: int, rng: np.random.Generator) -> Row:
    is_stable = rng.random() < 0.5
    is_known = rng.random() < (0.95 if is_stable else 0.05)
    own = "right" if is_known else "wrong"

    def others(n: int, share: float) -> list[str]:
        return [own if rng.random() < share else f"other {place}" for place in range(n)]

    return {
        "question": f"question {number}?",
        "gold_answers": ["right"],
        "relation": str(rng.choice(["capital", "composer"])),
        "popularity": float(rng.integers(1, 1_000)),
        "own": own,
        "wordings": others(N_WORDINGS, 0.9 if is_stable else 0.2),
        "samples": others(N_SAMPLES, 0.5),
        "from_passage": "right" if rng.random() < 2 / 3 else "wrong",
    }


def alike(answers: Sequence[str]) -> float:
    """The mean pairwise cosine, for an encoder that gives different texts orthogonal vectors."""
    return float(np.mean([one == other for one, other in itertools.combinations(answers, 2)]))


def pair_row(asked: Sequence[Row]) -> dict[str, Any]:
    """The row of int_signal_rows' query for these questions: one list per column."""
    asked, free = sorted(asked, key=lambda row: str(row["relation"])), [0.0] * len(asked)
    sides = {f"{side}_{cost}": free for side in ("parametric", "retrieval") for cost in COSTS}
    return {
        **KEY, "retrieval_method": "bm25", "signal_prompt": "p", **sides,
        **{f"signal_{cost}": free for cost in ("tokens", *COSTS)},
        **{name: [row[name] for row in asked] for name in ("relation", "popularity")},
        "question_id": [row["question"] for row in asked],
        "parametric": [float(row["own"] == "right") for row in asked],
        "retrieval": [float(row["from_passage"] == "right") for row in asked],
        "scons": [alike([row["own"], *row["wordings"]]) for row in asked],
        "cert": [alike(row["samples"]) for row in asked],
        **{name: [None] * len(asked) for name in ("confidence", "parametric_tokens")},
    }  # fmt: skip


def sure_signals(lake: dict[str, list[Row]]) -> list[Row]:
    """Rows of fct_adaptive_signals: predicted signals whose three intervals are all above zero."""
    gains = {
        (row["signal"], row["threshold_scope"], row["baseline"]): (row["gain"], *interval(row))
        for row in lake["gains"]
        if row["undefined"] is None
    }
    found = []
    for row in lake["signals"]:
        numbers: Row = {}
        for name, baseline in COMPARED.items():
            gain = gains.get((row["signal"], row["threshold_scope"], baseline))
            if gain and gain[1] > 0:
                numbers |= zip((name, f"{name}_ci_low", f"{name}_ci_high"), gain, strict=True)
        if row["signal"] != "popularity" and len(numbers) == 3 * len(COMPARED):
            found.append({**row, **numbers})
    return found


@pytest.fixture(scope="module")
def lake() -> dict[str, list[Row]]:
    """What the study of 400 planted questions writes."""
    return written(pair_row(planted(400, np.random.default_rng(5))), n_splits=40)


@pytest.fixture(scope="module")
def router(lake: dict[str, list[Row]], tmp_path_factory: pytest.TempPathFactory) -> Router:
    marts = marts_of(tmp_path_factory.mktemp("marts"))
    pair = tuple(BM25.split("."))
    predicted = dataclasses.replace(
        marts, signals={pair: sure_signals(lake)}, signal_rules={pair: lake["rules"]}
    )
    return routers_of(predicted, tmp_path_factory.mktemp("routers"))[BM25]


def test_a_service_that_asks_a_predicting_router_gains_what_the_mart_says(
    lake: dict[str, list[Row]], router: Router
) -> None:
    asked = planted(250, np.random.default_rng(6))
    replies: dict[tuple[str, int], str] = {}
    for row in asked:
        question = row["question"]
        replies[prompt_of(question), 0] = row["own"]
        replies[prompt_of(question, "about it"), 0] = row["from_passage"]
        replies |= {(prompt_of(question), 1 + at): text for at, text in enumerate(row["samples"])}
        replies |= {(prompt_of(f"{at} {question}"), 0): text for at, text in enumerate(row["wordings"])}

    def decide(row: Row, ask: Ask) -> Decision:
        """The features of the question come from answers that the service itself asks for."""
        wordings = [row["question"], *(f"{at} {row['question']}" for at in range(N_WORDINGS))]
        consistency = alike([text for wording in wordings for text in ask(prompt_of(wording))])
        certainty = alike(ask(prompt_of(row["question"]), n=N_SAMPLES, seed=1))
        return router.decide(row["popularity"], row["relation"], consistency, certainty)

    served = serve(asked, decide, lambda prompt, sample: replies[prompt, sample])
    assert router.signal in ("consistency", "all")
    assert served.n_requests == len(asked) * (1 + N_WORDINGS + 1 + 1)
    assert 0.2 * len(asked) < served.n_retrieved < 0.8 * len(asked)
    scope = router.document["prediction"]["held_out"]["threshold_scope"]
    for baseline, answer in (("always", "from_passage"), ("never", "own")):
        (gain,) = (
            row
            for row in lake["gains"]
            if (row["signal"], row["threshold_scope"], row["baseline"]) == (router.signal, scope, baseline)
        )
        low, high = interval(gain)
        n_fixed = sum(row[answer] == "right" for row in asked)
        assert 0 < low < (served.n_right - n_fixed) / len(asked) < high
    fallback = serve(
        asked,
        lambda row, _: router.decide(row["popularity"], row["relation"]),
        lambda prompt, sample: replies[prompt, sample],
    )
    assert served.n_right > fallback.n_right + 0.05 * len(asked), "without features popularity decides"
