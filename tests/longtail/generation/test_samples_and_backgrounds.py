"""Partitions of sampled_answers and generated_passages, and the answers that read the latter (method genread)."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import pytest
from small_study import answer, fill_lake, sample, small_study, with_model, write_backgrounds

from longtail.errors import LakeError
from longtail.storage.lake import Lake
from longtail.study.study import Study


@pytest.fixture
def study(tmp_path: Path) -> Study:
    made = small_study(tmp_path, "fake:passage")
    fill_lake(Lake(made.home.lake), 4)
    return made


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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
