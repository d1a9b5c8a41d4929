"""Whole partitions through a service: rows, row cache, budget and accounts, against the server's own books."""

from __future__ import annotations

import dataclasses
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from flaky_server import REFUSE, WITHHOLD, FlakyServer
from small_study import MAKERS, fill_lake, small_study, with_model

from longtail.errors import BackendError
from longtail.scoring.model_answer import LIMIT_BEFORE_TEXT, NO_TEXT, THINKING_CUT
from longtail.storage.lake import Lake
from longtail.study.models import Service
from longtail.study.prompts import Prompt
from longtail.study.study import Study

CANARY = "sk-canary-0123456789"
PRICES = {"prompt_usd_per_million": 1.5, "completion_usd_per_million": 2.0}


def _study(folder: Path, server: FlakyServer, **keys: object) -> Study:
    service = Service(server.base_url, api_key_env="CANARY_KEY", **PRICES)  # type: ignore[arg-type]
    study = small_study(folder, "m", backend="openai", service=dataclasses.replace(service, **keys))  # type: ignore[arg-type]
    if not Lake(study.home.lake).partitions("questions"):
        fill_lake(Lake(study.home.lake), 4)
    return study


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_KEY", CANARY)


def test_a_flaky_service_answers_all_partitions_and_is_paid_once(
    tmp_path: Path, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    text = lambda prompt, sample: f" answer {sample % 97} {CANARY}\n"  # noqa: E731
    rates = {"drop_after": 0.015, "fewer": 0.3}
    with FlakyServer(rates=rates, key=CANARY, text=text) as server:
        study = _study(tmp_path, server)
        notes = {table: MAKERS[table](study).notes for table in MAKERS}
        sent = server.books.requests
        for table in MAKERS:
            MAKERS[table](study)
        assert server.books.requests == sent
    assert set(server.books.sold.values()) == {1}
    lake = Lake(study.home.lake)
    rows = {table: lake.read_all(table).to_pylist() for table in MAKERS}
    assert all(rows.values())
    assert len({row["sample"] for row in rows["sampled_answers"]}) == 4
    new = [notes[table]["computed"] for table in MAKERS]
    assert sum(new) >= len(server.books.sold)
    for path in (file for folder in (tmp_path, home) for file in folder.rglob("*") if file.is_file()):
        assert CANARY.encode() not in path.read_bytes(), path
    assert CANARY not in caplog.text


@pytest.mark.parametrize("rates", [{}, {"drop_after": 0.1}])
def test_bills_without_a_text_count_over_all_runs(tmp_path: Path, rates: dict[str, float]) -> None:
    """The server bills every request, also those that it answers by nothing and those that come again."""

    def gives_nothing(answer: dict[str, Any], prompt: str) -> None:
        if WITHHOLD in prompt:
            answer["choices"][0] |= {"text": None, "finish_reason": "stop"}

    with FlakyServer(key=CANARY, forgets_keys=True, rates=rates, reply=gives_nothing) as server:
        study = _study(tmp_path, server)
        fill_lake(Lake(study.home.lake), 4, {i: f"{WITHHOLD} {i}" for i in range(0, 20, 3)})
        service = study.models[0].service
        assert service is not None
        limit = 0.0012
        poor = with_model(study, service=dataclasses.replace(service, max_cost_usd=limit))
        for _ in range(4):
            with pytest.raises(BackendError, match="raise max_cost_usd"):
                MAKERS["answers"](poor)
            assert server.usd(**PRICES) <= limit
        assert server.usd(**PRICES) > limit / 2
        notes = MAKERS["answers"](study).notes
    assert notes["failed"] > 0
    assert notes["lost_usd"] > 0
    assert Lake(study.home.lake).read_all("quarantine")["reason"].unique().to_pylist() == [
        "no text came back"
    ]
    billed = server.usd(**PRICES)
    assert billed <= (notes["cost_usd"] + notes["lost_usd"]) * (1 + 1e-9)
    if not rates:
        assert billed == pytest.approx(notes["cost_usd"] + notes["lost_usd"])


REPLIES: list[tuple[dict[str, Any], str, str | None, bool]] = [
    # what the choice holds; the kept answer, or the reason of the failure; is it declined
    (
        {"message": {"content": "\n\nGold 0\nmore", "reasoning": "h"}, "finish_reason": "stop"},
        "Gold 0",
        None,
        False,
    ),
    ({"message": {"content": "<think>h\n\n\ni</think>\n\nGold 1"}}, "Gold 1", None, False),
    ({"message": {"content": None, "reasoning": "h"}, "finish_reason": "length"}, "", THINKING_CUT, False),
    ({"message": {"content": "hm, Gold 3, but"}, "finish_reason": "length"}, "", THINKING_CUT, False),
    ({"message": {"content": ""}, "finish_reason": "length"}, "", LIMIT_BEFORE_TEXT, False),
    ({"message": {"content": None}, "finish_reason": "stop"}, "", NO_TEXT, False),
    ({"message": {"content": None, "refusal": "I cannot say Gold 6."}}, "I cannot say Gold 6.", None, True),
    ({"message": {"content": "Gold 7"}, "finish_reason": "content_filter"}, "Gold 7", None, True),
    ({"message": {"content": "no IDEA"}, "finish_reason": "stop"}, "no IDEA", None, True),
    ({"message": {"content": ""}, "finish_reason": "stop"}, "", None, False),
]


def test_answers_declined_ones_and_failures_of_servers_with_models_that_think(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def replies(answer: dict[str, Any], prompt: str) -> None:
        number = re.search(r"Reply (\d+)", prompt)
        assert number
        answer["choices"][0] |= REPLIES[int(number[1])][0]

    with FlakyServer(key=CANARY, reply=replies) as server:
        study = _study(tmp_path, server, api="chat")
        study = with_model(study, thinking_tokens=200, declines=("No idea.",))
        study = dataclasses.replace(study, prompts=(Prompt("zero_shot"),))
        lake = Lake(study.home.lake)
        fill_lake(lake, 4, {i: f"Reply {i % len(REPLIES)} " for i in range(20)})
        first = MAKERS["answers"](study).notes
        sent = server.books.requests
        lake.path("answers", "tiny|closed_book").unlink()
        again = MAKERS["answers"](study).notes
        assert server.books.requests == sent  # what was paid for is kept, whether it holds an answer or not
    rows = {int(row["question_id"].split("-")[0][1:]): row for row in lake.read_all("answers").to_pylist()}
    reasons = {row["row_key"]: row["reason"] for row in lake.read_all("quarantine").to_pylist()}
    for number in range(20):
        _, text, reason, is_declined = REPLIES[number % len(REPLIES)]
        key = next((key for key in reasons if key.startswith(f"sandbox/Q{number}-")), None)
        assert (reasons.get(key or ""), number in rows) == (reason, reason is None), number
        if number in rows:
            row = rows[number]
            assert (row["prediction"], row["is_declined"]) == (text, is_declined)
            assert row["is_correct"] == (f"Gold {number}" in text and not is_declined)
    assert rows[1]["raw_text"] == "<think>h\n\n\ni</think>\n\nGold 1"
    assert rows[0]["raw_text"] == "<think>h</think>\n\n\n\nGold 0\nmore"
    assert {body["max_tokens"] for body in server.books.bodies} == {215}
    assert (first["failed"], again["failed"]) == (len(reasons), len(reasons))
    spent = [notes["cost_usd"] + notes["lost_usd"] for notes in (first, again)]
    assert spent == pytest.approx([server.usd(**PRICES)] * 2)
    assert f"{THINKING_CUT} (4)" in caplog.text
    assert "raise thinking_tokens of model tiny" in caplog.text


def test_a_resumed_run_may_ask_refused_rows_alone(tmp_path: Path) -> None:
    """As one retries failed rows: the partition's file is deleted, the answered rows come from the row cache."""
    with FlakyServer(key=CANARY) as server:
        study = _study(tmp_path, server)
        fill_lake(Lake(study.home.lake), 4, {i: f"{REFUSE} {i}" for i in range(0, 20, 2)})
        first = MAKERS["answers"](study).notes
        assert first["failed"] > 20
        Lake(study.home.lake).path("answers", "tiny|closed_book").unlink()
        again = MAKERS["answers"](study).notes
    assert (again["computed"], again["resumed"], again["failed"]) == (0, first["rows"], first["failed"])
