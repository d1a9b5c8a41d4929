"""A router by prediction decides each question of a study as the study itself did."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import numpy as np
from hand_made import BM25, marts_of, routers_of

from tests.longtail.statistics.compared_signals import KEY, Row, written

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
    (pair,) = marts.signals
    policies = {(row["signal"], row["threshold_scope"]) for row in rules}
    assert {signal for signal, _ in policies} > {"confidence", "popularity_confidence", "consistency", "all"}
    questions = list(zip(*map(pairs.get, FEATURES), strict=True))
    for signal, scope in policies:
        best = {**marts.signals[pair][0], "signal": signal, "threshold_scope": scope}
        predicted = dataclasses.replace(marts, signals={pair: [best]}, signal_rules={pair: rules})
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
