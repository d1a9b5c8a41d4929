"""What a model that copies a stated share is measured at: from its answers to QUIP, and from QUIP to the comparison."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from pathlib import Path

import pyarrow as pa
import pytest

from longtail.generation.tasks.registry import TASKS
from longtail.grounding.corpus import build_portrait
from longtail.grounding.portrait import WIDTH
from longtail.grounding.quip import score_generations
from longtail.prompt_formats import GROUNDING_PROMPTS
from longtail.sandbox.world import World
from longtail.statistics.paired_comparisons import compare_prompts
from longtail.storage.lake import Lake
from longtail.study.prompts import Grounding
from tests.lake_rows import fill
from tests.longtail.generation.small_study import LOG, made, small_study

SHARES = {"null": 0.2, "according_to_wikipedia": 0.6, "information_from_reddit": 0.0}
TEXT = 250
"""Characters of an explanation."""


def explanation(article: str, share: float, rng: random.Random) -> str:
    """The beginning of an article, and characters that no article has."""
    copied = article[: round(share * TEXT)]
    return copied + "".join(rng.choices("QXZ0123456789", k=TEXT - len(copied)))


def test_a_model_that_copies_a_stated_share_has_it_as_its_quip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less the 24 grams that cross the end of the copy; within 0.01 for a text, 0.002 for the mean."""
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    articles = [one.text for _, one in itertools.islice(World().articles(), 2_000)]
    articles = [text for text in articles if len(text) >= TEXT][:20]
    rng = random.Random(0)
    questions = [f"What is known about number {i}?" for i in range(len(articles))]
    answers = {
        f"{question} {GROUNDING_PROMPTS[name].text}".strip(): f"so it is; {explanation(article, share, rng)}"
        for name, share in SHARES.items()
        for question, article in zip(questions, articles, strict=True)
    }
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"answers": answers}), encoding="utf-8")
    study = dataclasses.replace(
        small_study(tmp_path, str(script)),
        methods=("closed_book",),
        grounding=Grounding(prompts=tuple(SHARES)),
    )
    lake = Lake(study.home.lake)
    asked = [
        {"dataset": "sandbox", "question_id": f"q{i:02}", "question": one} for i, one in enumerate(questions)
    ]
    lake.write("questions", [fill("questions", row) for row in asked], fingerprint="hand")
    lake.write("passages", [fill("passages", {"text": one}) for one in articles], fingerprint="hand")
    lake.write("answers", [], fingerprint="hand", partition="tiny|closed_book")
    made(study, TASKS["grounded_generations"])
    build_portrait(study, lake, LOG)
    score_generations(study, lake, "tiny", LOG)
    rows = lake.read("quip_scores", "tiny").to_pylist()
    assert len(rows) == len(SHARES) * len(articles) > 45
    scores = {name: {r["question_id"]: r["quip"] for r in rows if r["prompt"] == name} for name in SHARES}
    for name, share in SHARES.items():
        expected = max(0.0, (share * TEXT - WIDTH + 1) / (TEXT - WIDTH + 1))
        own = list(scores[name].values())
        assert own == pytest.approx([expected] * len(articles), abs=0.01)
        assert sum(own) / len(own) == pytest.approx(expected, abs=0.002)
    found = compared(scores)
    ratio = (0.6 * TEXT - WIDTH + 1) / (0.2 * TEXT - WIDTH + 1)
    low, high, _ = found["according_to_wikipedia", "quip_ratio"]
    assert low == pytest.approx(ratio, rel=0.05) == high
    assert found["information_from_reddit", "quip_ratio"][1] < 0.05
    assert all(p < 0.001 for (_, measure), (_, _, p) in found.items() if measure == "quip_difference")


def compared(scores: dict[str, dict[str, float]]) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Both ends and the p value of each prompt against the null prompt."""
    null = scores["null"]
    groups = [
        {
            "dataset": "sandbox", "model": "tiny", "method": "closed_book", "grounding_prompt": name,
            "compared_with": "null_prompt", "cluster_id": list(null), "quip": [own[one] for one in null],
            "base_quip": list(null.values()),
            **dict.fromkeys(("same_length_quip", "base_same_length_quip", "score", "base_score"), [0.0] * len(null)),
        }
        for name, own in scores.items() if name != "null"
    ]  # fmt: skip
    rows = compare_prompts(pa.Table.from_pylist(groups), 0).to_pylist()
    return {
        (row["grounding_prompt"], row["measure"]): (row["value_low"], row["value_high"], row["p_value"])
        for row in rows
    }
