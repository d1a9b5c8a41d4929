"""What one user waits: asked one at a time, all methods in turn, and not again for the clock's sake."""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from small_study import answer, calibrate, fill_lake, small_study, with_model, write_backgrounds

from longtail.errors import BackendError, LakeError
from longtail.generation import latency as module
from longtail.generation.engine.task import ModelInput
from longtail.storage.lake import Lake
from longtail.study.models import Service
from longtail.study.prompts import Prompt
from longtail.study.study import Study

PROMPTS = ["certainty", "few_shot", "zero_shot", "zero_shot_popqa_tp"]
METHODS = ("closed_book", "genread", "bm25", "oracle")
WAYS = {
    *(("closed_book", prompt) for prompt in PROMPTS),
    *((method, prompt) for method in METHODS[1:] for prompt in ("few_shot", "zero_shot")),
}


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def study(tmp_path: Path, ledger: Path) -> Study:
    """60 questions; oracle, which reads bm25's passages, can be asked 51 of them."""
    made = small_study(tmp_path, f"fake:digest?ledger={ledger}")
    made = dataclasses.replace(made, methods=METHODS)
    fill_lake(Lake(made.home.lake), 12)
    write_backgrounds(made)
    ledger.unlink()
    return made


def rows(study: Study) -> list[dict]:  # type: ignore[type-arg]
    return Lake(study.home.lake).read("single_latencies", "tiny").to_pylist()


def n_calls(ledger: Path) -> int:
    return len(ledger.read_text().splitlines()) if ledger.exists() else 0


def test_fifty_questions_per_method_and_prompt_in_turn(study: Study) -> None:
    outcome = calibrate(study)
    by_way, by_round = defaultdict(list), defaultdict(list)
    for row in rows(study):
        by_way[row["method"], row["prompt"]].append(row)
        by_round[row["round_number"]].append(row)
        assert (row["model"], row["device"], row["engine"], row["run_id"]) == (
            "tiny",
            "none",
            "fake 1",
            "run",
        )
    # closed_book answers paraphrases and samples too: their prompts are timed with it
    assert set(by_way) == WAYS
    for (method, prompt), some in by_way.items():
        assert len({row["question_id"] for row in some}) == len(some) == 50
        median = statistics.median(row["single_latency_ms"] for row in some)
        assert outcome.notes[f"{method}_{prompt}_ms"] == round(median, 2)
    # of a question all ways are asked before the next one, in an order of its own
    assert sorted(by_round) == list(range(50))
    for some in by_round.values():
        assert len({row["question_id"] for row in some}) == 1
        assert {(row["method"], row["prompt"]) for row in some} == WAYS
    firsts = {min(some, key=lambda row: row["turn"])["method"] for some in by_round.values()}
    assert firsts == set(METHODS)
    assert list(study.home.row_cache.glob("*")) != []  # of the background texts


def test_equal_prompts_are_asked_once_and_warmed_up_once(study: Study, ledger: Path) -> None:
    calibrate(study)
    # certainty asks as zero_shot_popqa_tp does, oracle with bm25's passage; genread writes a text first, for each
    zero_shot = 1 + 1 + 1 + 2
    few_shot = len(
        {row["turn"] for row in rows(study) if row["prompt"] == "few_shot" and not row["round_number"]}
    )
    assert few_shot in (3, 4)  # demonstrations of oracle may lack their passage
    in_rounds = {(row["round_number"], row["turn"]) for row in rows(study)}
    both = [row for row in rows(study) if row["prompt"] in ("certainty", "zero_shot_popqa_tp")]
    assert len({(row["round_number"], row["turn"]) for row in both}) == len(both) / 2
    backgrounds = 2 * 50
    warming = zero_shot + few_shot + 1
    assert n_calls(ledger) == len(in_rounds) + backgrounds + warming


def test_a_question_that_some_cannot_be_asked_is_asked_last(study: Study) -> None:
    lake = Lake(study.home.lake)
    few = lake.read("retrieved_passages", "oracle").to_pylist()[:10]
    lake.write("retrieved_passages", few, fingerprint="few", partition="oracle")
    calibrate(study)
    asked = defaultdict(set)
    for row in rows(study):
        asked[row["method"]].add((row["round_number"], row["question_id"]))
    assert {number for number, _ in asked["oracle"]} == set(range(10))
    assert asked["oracle"] < asked["bm25"] == asked["closed_book"]
    assert len(asked["bm25"]) == 50


def test_a_slow_model_is_asked_only_what_an_interval_needs(
    study: Study, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(study.home.lake)
    few = lake.read("retrieved_passages", "oracle").to_pylist()[:10]
    lake.write("retrieved_passages", few, fingerprint="few", partition="oracle")
    with monkeypatch.context() as slow:
        slow.setattr(module, "SECONDS", 0.0)
        calibrate(study)
    found = rows(study)
    asked = Counter((row["method"], row["prompt"]) for row in found)
    assert asked == dict.fromkeys(WAYS, module.N_LEAST)
    assert {row["round_number"] for row in found} == set(range(module.N_LEAST)), "of the same questions"


def test_a_quick_run_asks_only_what_an_interval_needs(study: Study) -> None:
    calibrate(dataclasses.replace(study, limit=150))
    asked = Counter((row["method"], row["prompt"]) for row in rows(study))
    assert asked == dict.fromkeys(WAYS, module.N_LEAST)


def test_fewer_questions_are_all_asked(tmp_path: Path) -> None:
    study = dataclasses.replace(small_study(tmp_path, "fake:digest"), methods=("closed_book",))
    fill_lake(Lake(study.home.lake), 2)
    calibrate(study)
    assert len(rows(study)) == 10 * len(PROMPTS)


def test_another_seed_asks_other_questions(study: Study) -> None:
    calibrate(study)
    first = [row["question_id"] for row in rows(study) if row["method"] == "bm25"]
    calibrate(dataclasses.replace(study, seed=1))
    again = [row["question_id"] for row in rows(study) if row["method"] == "bm25"]
    assert sorted(set(again)) != sorted(set(first))


def test_genread_waits_for_its_background_too(tmp_path: Path) -> None:
    study = small_study(tmp_path, "fake:digest?seconds_per_call=0.001")
    study = dataclasses.replace(study, methods=("closed_book", "genread"), prompts=(Prompt("zero_shot"),))
    fill_lake(Lake(study.home.lake), 2)
    with pytest.raises(LakeError, match="materialise asset lake/generated_passages"):
        calibrate(study)
    write_backgrounds(study)
    calibrate(study)
    found = {row["method"]: row["single_latency_ms"] for row in rows(study)}
    assert found["genread"] >= 2 <= 2 * found["closed_book"]


def test_a_calibration_is_current_until_what_is_timed_changes(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = calibrate(study).stamp
    ledger_less = with_model(study, path="fake:digest")
    assert calibrate(ledger_less).was_current
    assert calibrate(with_model(study, device_hour_usd=3.0)).was_current
    for changed in (
        with_model(study, path="fake:echo"),
        with_model(study, device="cuda:1"),
        dataclasses.replace(study, max_new_tokens=3),
        dataclasses.replace(study, prompts=study.prompts[:1]),
        dataclasses.replace(study, methods=("closed_book", "bm25")),
    ):
        again = calibrate(changed)
        assert not again.was_current
        assert again.stamp.fingerprint != first.fingerprint
    monkeypatch.setenv("LONGTAIL_THREADS", "3")
    assert not calibrate(study).was_current


def test_a_service_is_not_asked_again(study: Study, ledger: Path) -> None:
    path = f"fake:digest?stream=true&usd_per_prompt=1&seconds_per_call=0.001&ledger={ledger}"
    paid = with_model(study, path=path, service=Service("http://127.0.0.1"))
    paid = dataclasses.replace(paid, methods=("closed_book", "genread"), prompts=paid.prompts[:1])
    with pytest.raises(LakeError, match="materialise asset lake/answers"):
        calibrate(paid)
    write_backgrounds(paid)
    for method in paid.methods:
        answer(paid, method)
    before = ledger.read_text()
    calibrate(paid)
    assert ledger.read_text() == before
    lake = Lake(study.home.lake)
    times = {
        (method, row["question_id"]): row["latency_ms"]
        for method in paid.methods
        for row in lake.read("answers", f"tiny|{method}").to_pylist()
    }
    texts = {
        row["question_id"]: row["latency_ms"] for row in lake.read("generated_passages", "tiny").to_pylist()
    }
    found = rows(paid)
    assert len(found) == 2 * 50
    for row in found:
        more = texts[row["question_id"]] if row["method"] == "genread" else 0
        assert row["single_latency_ms"] == pytest.approx(times[row["method"], row["question_id"]] + more)
        assert (row["device"], row["round_number"], row["turn"]) == ("service", None, None)
    assert calibrate(paid).was_current


def test_refused_questions_are_left_out_and_none_at_all_is_an_error(study: Study) -> None:
    some = dataclasses.replace(study, methods=("closed_book", "bm25"))
    calibrate(with_model(some, path="fake:digest?refuse=Subject+1"))
    found = [
        row["question_id"] for row in rows(study) if row["method"] == "bm25" and row["prompt"] == "zero_shot"
    ]
    assert 0 < len(found) < 50
    refusing = with_model(some, path="fake:digest?refuse=Subject")
    with pytest.raises(BackendError, match="questions of method bm25 with prompt few_shot was answered"):
        calibrate(refusing)


def test_what_earlier_calls_left_is_dropped_before_each_question() -> None:
    class Remembers:
        """A backend that is fast where it has not forgotten."""

        calls: list[str] = []  # noqa: RUF012

        def forget(self) -> None:
            self.calls.append("forget")

        def generate(self, prompts: list[str], decoding: object) -> list[object]:
            self.calls.append(prompts[0])
            return [object()]

    backend = Remembers()
    module._milliseconds(backend, ((ModelInput("a"), None), (ModelInput("b"), None)))  # type: ignore[arg-type]
    assert backend.calls == ["forget", "a", "forget", "b"]
