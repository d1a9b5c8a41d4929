"""Partitions of answers and paraphrase_answers: their rows, what makes them stale, what they reuse."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import re
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from small_study import (
    answer,
    answer_in_other_words,
    calibrate,
    fill_lake,
    sample,
    small_study,
    with_model,
    write_backgrounds,
)

from longtail.errors import BackendError, LakeError, StudyError
from longtail.relations.relation import relation_set
from longtail.scoring.model_answer import THINKING_CUT
from longtail.storage.lake import Lake
from longtail.storage.ownership import model_lock
from longtail.study.backends import IMPORTED
from longtail.study.prompts import Prompt
from longtail.study.study import Study

ODD = {
    0: "nul \x00 in it",
    1: "\U0001f9ed emoji \U0001f469\u200d\U0001f680",
    2: "\u202eright \u05d0\u05d1\u05d2 to left\u200f",
    3: "long " * 2_048,
    4: "line\nend\r\nand\ttab",
    5: "' ; drop table generations; -- \" \\",
}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def study(tmp_path: Path) -> Study:
    made = small_study(tmp_path, "fake:passage")
    fill_lake(Lake(made.home.lake), 4)
    return made


def rows(study: Study, method: str = "closed_book") -> pa.Table:
    return Lake(study.home.lake).read("answers", f"tiny|{method}")


def test_one_row_per_question_and_prompt_in_order(study: Study) -> None:
    outcome = answer(study)
    table = rows(study)
    assert table.num_rows == outcome.stamp.n_rows == outcome.notes["rows"] == 2 * 20
    keys = [(row["dataset"], row["prompt"], row["question_id"]) for row in table.to_pylist()]
    assert keys == sorted(set(keys))
    assert set(table["prompt"].to_pylist()) == {"zero_shot", "few_shot"}
    assert table["passage_id"].null_count == table.num_rows
    assert not any(table["is_reused"].to_pylist())
    assert outcome.notes["computed"] == 40


def test_rows_of_one_generation_share_its_cost(tmp_path: Path) -> None:
    alike = small_study(tmp_path, "fake:digest?seconds_per_prompt=0.001", device_hour_usd=3600.0)
    fill_lake(Lake(alike.home.lake), 4, dict.fromkeys(range(20), "Springfield"))
    notes = answer(alike).notes
    found = [row for row in rows(alike).to_pylist() if row["prompt"] == "zero_shot"]
    assert len({row["prompt_hash"] for row in found}) == 5
    for digest in {row["prompt_hash"] for row in found}:
        own = [row for row in found if row["prompt_hash"] == digest]
        assert len({row["device_seconds"] for row in own}) == 1
        assert sum(row["device_seconds"] for row in own) == pytest.approx(sum(row["cost_usd"] for row in own))
        assert sum(row["device_seconds"] for row in own) == pytest.approx(0.001)
        assert [row["shared_tokens"] == row["prompt_tokens"] for row in own] == [False, True, True, True]
    assert notes["distinct_prompts"] < notes["rows"]


def test_nothing_is_generated_or_timed_for_imported_answers(study: Study) -> None:
    """So that a run over the partitions of all models does not end at such a one."""
    others = with_model(study, backend=IMPORTED, path=IMPORTED)
    for make in (answer_in_other_words, sample, calibrate):
        outcome = make(others)
        assert (outcome.stamp.n_rows, outcome.was_current) == (0, False)
        assert make(others).was_current


def test_a_local_model_s_reasoning_is_no_part_of_its_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = ("<think>Gold 9?\nno</think>\n\nGold 0\nmore", "<think>Gold 1", "no idea!", "Gold 3 I do not know")
    answers = {relation_set("popqa")[0].question(f"Subject {i}"): text for i, text in enumerate(said)}
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"rule": "digest", "answers": answers}), encoding="utf-8")
    thinking = small_study(tmp_path, str(script), thinking_tokens=50, declines=("No idea.",))
    prompts = (Prompt("zero_shot"), Prompt("few_shot", declines=("Gold 3 I do not know",)))
    thinking = dataclasses.replace(thinking, prompts=prompts)
    fill_lake(Lake(thinking.home.lake), 4)
    notes = answer(thinking).notes
    found = {(row["prompt"], row["question_id"].split("-")[0]): row for row in rows(thinking).to_pylist()}
    closed, declined = found["zero_shot", "Q0"], found["zero_shot", "Q2"]
    assert (closed["prediction"], closed["is_correct"], closed["is_declined"]) == ("Gold 0", True, False)
    assert closed["raw_text"].startswith(" <think>Gold 9?")
    assert (declined["prediction"], declined["is_correct"], declined["is_declined"]) == (
        " no idea!",
        False,
        True,
    )
    by_prompt = [found[name, "Q3"] for name in ("zero_shot", "few_shot")]
    assert [(row["is_declined"], row["is_correct"], row["token_f1"] > 0) for row in by_prompt] == [
        (False, True, True), (True, False, False),
    ]  # fmt: skip
    quarantined = Lake(thinking.home.lake).read_all("quarantine").to_pylist()
    assert {(row["row_key"].split("-")[0], row["reason"]) for row in quarantined} == {
        ("sandbox/Q1", THINKING_CUT)
    }
    assert notes["failed"] == 2
    assert "raise thinking_tokens" in caplog.text
    assert answer(thinking).was_current
    more = dataclasses.replace(thinking, prompts=(prompts[0], dataclasses.replace(prompts[1], declines=())))
    for changed in (more, with_model(thinking, declines=()), with_model(thinking, thinking_tokens=51)):
        answer(thinking)
        assert not answer(changed).was_current


def test_retrieval_puts_the_passage_first_and_scores_it(study: Study) -> None:
    notes = answer(study, "oracle").notes
    table = rows(study, "oracle")
    assert notes["without_passage"] == 2 * 3
    assert table.num_rows == 2 * 17
    assert all(table["is_correct"].to_pylist())
    assert notes["accuracy"] == 1.0
    one = table.filter(pa.compute.equal(table["prompt"], "zero_shot")).to_pylist()[0]
    number = one["question_id"].split("-")[0]
    questions = Lake(study.home.lake).read("questions").to_pylist()
    question = next(q for q in questions if q["question_id"] == one["question_id"])
    text = next(
        p["text"]
        for p in Lake(study.home.lake).read("passages").to_pylist()
        if p["passage_id"] == f"{number}-0"
    )
    prompt = f"{text}\n\nQ: {question['question']} A:"
    assert one["prompt_hash"] == sha256(prompt)


def test_a_current_partition_loads_nothing(study: Study, tmp_path: Path) -> None:
    assert not answer(study).was_current
    broken = with_model(study, path="fake:passage?fail_on_call=1")
    assert answer(broken).was_current
    assert answer(with_model(study, batch_tokens=4096, device="cpu")).was_current


def test_new_golds_rescore_without_generating(study: Study) -> None:
    answer(study)
    lake = Lake(study.home.lake)
    first = rows(study).to_pylist()[0]
    questions = lake.read("questions").to_pylist()
    for question in questions:
        if question["question_id"] == first["question_id"]:
            question["gold_answers"] = [first["prediction"].strip()]
    lake.write("questions", questions, fingerprint="g")
    again = answer(with_model(study, path="fake:passage?fail_on_call=1"))
    assert not again.was_current
    assert again.notes["computed"] == 0
    assert again.notes["reused"] == again.notes["distinct_prompts"]
    assert again.notes["device"] is None
    table = rows(study).to_pylist()
    assert all(row["is_reused"] for row in table)
    assert table[0]["is_correct"]
    assert not first["is_correct"]


def test_prompts_shared_with_another_study_are_reused(study: Study, tmp_path: Path) -> None:
    answer(study)
    other = dataclasses.replace(study, name="other", prompts=(Prompt("zero_shot"), Prompt("plain")))
    fill_lake(Lake(other.home.lake), 5)
    notes = answer(other).notes
    assert (notes["rows"], notes["distinct_prompts"]) == (50, 25)
    assert (notes["reused"], notes["computed"]) == (10, 15)
    table = Lake(other.home.lake).read("answers", "tiny|closed_book")
    assert sum(table["is_reused"].to_pylist()) == 2 * notes["reused"]


def test_paraphrases_are_all_asked(study: Study) -> None:
    notes = answer_in_other_words(study).notes
    table = Lake(study.home.lake).read("paraphrase_answers", "tiny")
    asked = Lake(study.home.lake).read("paraphrases")
    assert table.num_rows == asked.num_rows == notes["rows"]
    keys = [(r["question_id"], r["paraphrase_id"]) for r in table.to_pylist()]
    assert keys == sorted(keys)
    assert {"zero_shot_popqa_tp"} == set(table["prompt"].to_pylist())


def test_without_a_prompt_for_paraphrases_the_partition_is_empty(study: Study) -> None:
    outcome = answer_in_other_words(dataclasses.replace(study, prompts=(Prompt("zero_shot"),)))
    assert outcome.stamp.n_rows == 0


def test_a_rambling_model_keeps_its_first_sentence(study: Study) -> None:
    script = study.path.with_name("script.json")
    questions = Lake(study.home.lake).read("questions").to_pylist()
    known = {q["question"]: f"It is {q['gold_answers'][0]}. He also wrote." for q in questions}
    script.write_text(json.dumps({"answers": known}))
    plain = with_model(study, path=str(script))
    answer(plain)
    assert all(row["prediction"].endswith("wrote.") for row in rows(study).to_pylist())
    notes = answer(with_model(plain, rambles=True)).notes
    assert notes["reused"] == 0, "its answers end with their first sentence: they are other requests"
    assert all(re.fullmatch(r" It is Gold \d+\.", row["prediction"]) for row in rows(study).to_pylist())


def test_the_report_tells_tokens_shares_and_rates(study: Study) -> None:
    notes = answer(with_model(study, path="fake:echo?seconds_per_call=0.01", device_hour_usd=36.0)).notes
    found = rows(study).to_pylist()
    for name in ("prompt_tokens", "shared_tokens", "new_tokens"):
        assert notes[name] == sum(row[name] for row in found) > 0
    assert notes["shared_share"] == pytest.approx(notes["shared_tokens"] / notes["prompt_tokens"], abs=1e-4)
    assert notes["cost_usd"] == pytest.approx(sum(row["device_seconds"] for row in found) / 100)
    n_computed = notes["prompt_tokens"] - notes["shared_tokens"] + notes["new_tokens"]
    assert notes["tokens_per_second"] / notes["rows_per_second"] == pytest.approx(n_computed / 40, rel=0.05)
    assert notes["device"] == "none"
    assert notes["peak_memory_mb"] > 0


def test_failed_generations_are_no_rows_but_quarantined(study: Study) -> None:
    outcome = answer(with_model(study, path="fake:echo?refuse=Subject+7"))
    failed = [r for r in Lake(study.home.lake).read("quarantine", "answers|tiny|closed_book").to_pylist()]
    assert outcome.notes["failed"] == outcome.stamp.n_quarantined == len(failed) > 0
    assert outcome.notes["rows"] + len(failed) == 40
    assert all("Subject 7" in row["raw"] and "refused" in row["reason"] for row in failed)
    ids = {(row["prompt"], row["question_id"]) for row in rows(study).to_pylist()}
    assert ("zero_shot", "Q7-P19") not in ids


def test_a_partition_of_failures_only_is_an_error(study: Study) -> None:
    with pytest.raises(BackendError, match="all 40 generations failed, the first one: refused"):
        answer(with_model(study, path="fake:echo?refuse=Subject"))
    with pytest.raises(LakeError, match="missing"):
        rows(study)


def test_only_methods_of_the_study_are_asked(study: Study) -> None:
    with pytest.raises(StudyError, match="'hybrid' is not one of: closed_book"):
        answer(study, "hybrid")


def test_two_runs_of_one_model_take_turns(study: Study, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = logging.getLogger("lock")
    outcomes = []
    with model_lock(study.home.locks, "tiny", log):
        waiting = threading.Thread(target=lambda: outcomes.append(answer(study)))
        waiting.start()
        waiting.join(1.2)
        assert waiting.is_alive()
    waiting.join(20)
    assert outcomes[0].stamp.n_rows == 40
    assert "another run" in caplog.text


def test_samples_are_drawn_by_seeds_of_their_own(study: Study) -> None:
    notes = sample(study).notes
    table = Lake(study.home.lake).read("sampled_answers", "tiny").to_pylist()
    assert (notes["rows"], notes["distinct_prompts"], notes["computed"]) == (80, 20, 80)
    keys = [(row["prompt"], row["question_id"], row["sample"]) for row in table]
    assert keys == sorted(set(keys))
    assert {row["sample"] for row in table} == {0, 1, 2, 3}
    assert {row["temperature"] for row in table} == {0.5}
    assert len({row["seed"] for row in table}) == 80
    assert len({row["prompt_hash"] for row in table}) == 20
    assert len({row["prediction"] for row in table}) > 20


def test_more_samples_compute_only_the_new_ones(study: Study) -> None:
    sample(study)
    first = Lake(study.home.lake).read("sampled_answers", "tiny").to_pylist()
    more = dataclasses.replace(study, sampling=dataclasses.replace(study.sampling, n=6))
    notes = sample(more).notes
    assert (notes["computed"], notes["reused"]) == (40, 80)
    again = Lake(study.home.lake).read("sampled_answers", "tiny").to_pylist()
    texts = {(row["question_id"], row["sample"]): row["raw_text"] for row in again}
    assert all(texts[row["question_id"], row["sample"]] == row["raw_text"] for row in first)
    warmer = dataclasses.replace(study, sampling=dataclasses.replace(study.sampling, temperature=1.0))
    assert sample(warmer).notes["reused"] == 0


def test_genread_reads_what_the_model_wrote(study: Study) -> None:
    with pytest.raises(LakeError, match="materialise asset lake/generated_passages first"):
        answer(study, "genread")
    lake = Lake(study.home.lake)
    questions = {q["question_id"]: q for q in lake.read("questions").to_pylist()}
    asked = "Generate a background document from Wikipedia to answer the given question. "
    script = study.path.with_name("script.json")
    texts = {
        f"{asked}{q['question']}": f"{q['gold_answers'][0]} is known.\nMore" if i % 2 else "Nothing."
        for i, q in enumerate(questions.values())
    }
    script.write_text(json.dumps({"rule": "passage", "answers": texts}))
    scripted = with_model(study, path=str(script))
    notes = write_backgrounds(scripted).notes
    passages = lake.read("generated_passages", "tiny").to_pylist()
    assert notes["rows"] == 20
    assert notes["has_answer"] == pytest.approx(0.5)
    for row in passages:
        assert row["passage_id"] == f"genread:tiny:{row['question_id']}"
        assert "\n" not in row["text"]
        assert row["has_answer"] == row["has_answer_popqa"]
        assert row["prompt_hash"] == sha256(asked + questions[row["question_id"]]["question"])
        assert row["has_answer"] == (questions[row["question_id"]]["gold_answers"][0] in row["text"])
    answer(scripted, "genread")
    by_id = {row["question_id"]: row for row in passages}
    for row in lake.read("answers", "tiny|genread").to_pylist():
        passage = by_id[row["question_id"]]
        assert row["passage_id"] == passage["passage_id"]
        assert row["is_correct"] == passage["has_answer"]
        if row["prompt"] == "zero_shot":
            question = questions[row["question_id"]]["question"]
            assert row["prompt_hash"] == sha256(f"{passage['text']}\n\nQ: {question} A:")


def test_new_backgrounds_make_genread_stale(study: Study) -> None:
    write_backgrounds(study)
    answer(study, "genread")
    assert answer(study, "genread").was_current
    longer = dataclasses.replace(study, background_tokens=1)
    assert not write_backgrounds(longer).was_current
    assert not answer(longer, "genread").was_current
    assert answer(longer).notes["rows"] == 40  # closed_book does not hang on it
    assert answer(dataclasses.replace(longer, background_tokens=9)).was_current


def test_a_rambling_models_confidence_is_that_of_its_first_sentence(tmp_path: Path) -> None:
    study = with_model(small_study(tmp_path, "fake:echo"), rambles=True)
    fill_lake(Lake(study.home.lake), 1, labels={0: "Rome? It rains there. It"})
    answer(study)
    found = Lake(study.home.lake).read("answers", "tiny|closed_book").to_pylist()
    assert any(len(row["prediction"]) < len(row["raw_text"]) for row in found)
    assert all(row["confidence_tokens"] == len(row["prediction"].split()) for row in found)


def test_odd_labels_reach_the_rows_unchanged(tmp_path: Path) -> None:
    study = small_study(tmp_path, "fake:echo", batch_tokens=4_096)
    study = dataclasses.replace(study, prompts=(Prompt("zero_shot"),), max_new_tokens=4_000)
    lake = Lake(study.home.lake)
    fill_lake(lake, 2, labels=ODD)
    answer(study)
    questions = {q["question_id"]: q["question"] for q in lake.read("questions").to_pylist()}
    found = lake.read("answers", "tiny|closed_book").to_pylist()
    assert len(found) == len(questions) == 10
    for row in found:
        question = questions[row["question_id"]]
        assert row["prompt_hash"] == sha256(f"Q: {question} A:")
        if "\n" not in question:
            assert row["raw_text"] == f" {question}"
