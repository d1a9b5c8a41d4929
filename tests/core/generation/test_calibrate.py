"""What one user waits: asked one at a time, of the same questions, and not again for the clock's sake."""

from __future__ import annotations

import dataclasses
import statistics
from pathlib import Path

import pytest
from small_study import answer, calibrate, fill_lake, small_study, with_model, write_backgrounds

from dagster_project.core.errors import BackendError, LakeError
from dagster_project.core.generation import calibrate as module
from dagster_project.core.generation.calibrate import N_QUESTIONS, choose_questions
from dagster_project.core.generation.plan import plan_answers
from dagster_project.core.lake import Lake
from dagster_project.core.study import Service, Study


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


PROMPTS = ["certainty", "few_shot", "zero_shot", "zero_shot_popqa_tp"]


@pytest.fixture
def study(tmp_path: Path, ledger: Path) -> Study:
    made = small_study(tmp_path, f"fake:digest?seconds_per_call=0.002&ledger={ledger}")
    fill_lake(Lake(made.home.lake), 12)
    return made


def rows(study: Study, method: str = "closed_book") -> list[dict]:  # type: ignore[type-arg]
    return Lake(study.home.lake).read("latency_calibrations", f"tiny|{method}").to_pylist()


def test_fifty_questions_of_each_prompt_one_call_each_after_one_warm_up(study: Study, ledger: Path) -> None:
    outcome = calibrate(study)
    found = rows(study)
    # closed_book answers paraphrases and samples too: their prompts are timed with it
    assert [row["prompt"] for row in found] == PROMPTS
    for row in found:
        assert row["n_questions"] == N_QUESTIONS == 50
        assert 2 <= row["single_latency_ms"] <= row["single_latency_ms_p95"]
        assert (row["model"], row["method"], row["device"], row["engine"]) == (
            "tiny", "closed_book", "none", "fake 1",
        )  # fmt: skip
        assert outcome.notes[f"{row['prompt']}_ms"] == round(row["single_latency_ms"], 2)
    assert len(ledger.read_text().splitlines()) == len(PROMPTS) * (1 + 50)
    assert list(study.home.row_cache.glob("*")) == []


def test_fewer_questions_are_all_asked(tmp_path: Path) -> None:
    study = small_study(tmp_path, "fake:digest")
    fill_lake(Lake(study.home.lake), 2)
    calibrate(study)
    assert {row["n_questions"] for row in rows(study)} == {10}


def test_nothing_is_taken_from_the_row_cache(study: Study, ledger: Path) -> None:
    answer(study)
    before = len(ledger.read_text().splitlines())
    calibrate(study)
    assert len(ledger.read_text().splitlines()) == before + len(PROMPTS) * 51


def test_genread_waits_for_its_background_too(study: Study, ledger: Path) -> None:
    with pytest.raises(LakeError, match="materialise asset lake/generated_passages"):
        calibrate(study, "genread")
    write_backgrounds(study)
    before = len(ledger.read_text().splitlines())
    calibrate(study, "genread")
    assert len(ledger.read_text().splitlines()) == before + 2 * 2 * 51
    assert all(row["single_latency_ms"] >= 4 for row in rows(study, "genread"))


def test_it_is_current_until_what_is_timed_changes(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    first = calibrate(study).stamp
    slower = with_model(study, path="fake:digest?seconds_per_call=0.2")
    assert calibrate(slower).was_current
    assert calibrate(with_model(study, device_hour_usd=3.0)).was_current
    for changed in (
        with_model(study, path="fake:echo"),
        with_model(study, device="cuda:1"),
        dataclasses.replace(study, max_new_tokens=3),
        dataclasses.replace(study, prompts=study.prompts[:1]),
    ):
        again = calibrate(changed)
        assert not again.was_current
        assert again.stamp.fingerprint != first.fingerprint
    monkeypatch.setenv("LONGTAIL_THREADS", "3")
    assert not calibrate(study).was_current


def test_the_chosen_questions_are_the_same_for_every_method(study: Study) -> None:
    lake = Lake(study.home.lake)
    chosen = {
        method: choose_questions(plan_answers(study, lake, "tiny", method).rows, study.seed)
        for method in ("closed_book", "bm25")
    }
    ids = [
        [row.question.question_id for row in some[prompt]]
        for some in chosen.values()
        for prompt in ("few_shot", "zero_shot")
    ]
    assert all(one == ids[0] for one in ids)
    assert sorted(ids[0]) != ids[0]
    other = choose_questions(plan_answers(study, lake, "tiny", "bm25").rows, study.seed + 1)
    assert [row.question.question_id for row in other["zero_shot"]] != ids[0]


def test_a_service_is_not_asked_again(study: Study, ledger: Path) -> None:
    path = f"fake:digest?stream=true&usd_per_prompt=1&seconds_per_call=0.001&ledger={ledger}"
    paid = with_model(study, path=path, service=Service("http://127.0.0.1"))
    with pytest.raises(LakeError, match="materialise asset lake/answers"):
        calibrate(paid)
    answer(paid)
    before = ledger.read_text()
    calibrate(paid)
    assert ledger.read_text() == before
    lake = Lake(study.home.lake)
    chosen = choose_questions(plan_answers(paid, lake, "tiny", "closed_book").rows, paid.seed)
    asked = {row.question.question_id for row in chosen["zero_shot"]}
    times = [
        row["latency_ms"]
        for row in lake.read("answers", "tiny|closed_book").to_pylist()
        if row["prompt"] == "zero_shot" and row["question_id"] in asked
    ]
    found = {row["prompt"]: row for row in rows(paid)}
    assert found["zero_shot"]["n_questions"] == 50
    assert found["zero_shot"]["single_latency_ms"] == pytest.approx(statistics.median(times))
    assert {row["device"] for row in rows(paid)} == {"service"}
    assert calibrate(paid).was_current


def test_refused_questions_are_left_out_and_none_at_all_is_an_error(study: Study) -> None:
    calibrate(with_model(study, path="fake:digest?refuse=Subject+1"))
    assert all(0 < row["n_questions"] < 50 for row in rows(study))
    with pytest.raises(BackendError, match="none of the questions of prompt certainty was answered"):
        calibrate(with_model(study, path="fake:digest?refuse=Subject"))


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
    module._milliseconds(backend, [("a", None), ("b", None)])  # type: ignore[arg-type]
    assert backend.calls == ["forget", "a", "forget", "b"]
