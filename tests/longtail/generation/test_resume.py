"""A partition that was interrupted, anywhere and anyhow, ends like one that was not."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import answer, fill_lake, small_study, with_model

from longtail.storage.fingerprints import prompt_hash
from longtail.storage.lake import Lake
from longtail.study.prompts import Prompt
from longtail.study.study import Study

RUN_COLUMNS = ["run_id", "latency_ms", "shared_tokens", "device_seconds", "cost_usd"]
ODD = {
    0: "nul \x00 in it",
    1: "\U0001f9ed emoji \U0001f469\u200d\U0001f680",
    2: "\u202eright \u05d0\u05d1\u05d2 to left\u200f",
    3: "long " * 2_048,
    4: "line\nend\r\nand\ttab",
    5: "' ; drop table generations; -- \" \\",
}


def rows(study: Study) -> pa.Table:
    """The partition's rows, in order, but for the columns that only tell of the run."""
    table = Lake(study.home.lake).read("answers", "tiny|closed_book")
    return table.drop_columns(RUN_COLUMNS).replace_schema_metadata(None)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, pa.Table, Path]:
    """A finished study, its rows, and its home."""
    folder = tmp_path_factory.mktemp("whole")
    previous = os.environ.get("LONGTAIL_HOME")
    os.environ["LONGTAIL_HOME"] = str(folder / "home")
    try:
        study = small_study(folder, "fake:digest")
        fill_lake(Lake(study.home.lake), 6)
        answer(study)
        return study, rows(study), folder / "home"
    finally:
        os.environ.pop("LONGTAIL_HOME")
        if previous is not None:
            os.environ["LONGTAIL_HOME"] = previous


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_set_of_finished_batches_gives_the_same_table(
    data: st.DataObject, uninterrupted: tuple[Study, pa.Table, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    _, whole, home = uninterrupted
    folder = tmp_path_factory.mktemp("some")
    shutil.copytree(home, folder / "home")
    (cache,) = (folder / "home" / "row_cache").glob("*.sqlite")
    with sqlite3.connect(cache) as connection:
        keys = [key for (key,) in connection.execute("select key from generations order by key")]
        lost = data.draw(st.lists(st.sampled_from(keys), unique=True))
        connection.executemany("delete from generations where key = ?", [(key,) for key in lost])
    connection.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_HOME", str(folder / "home"))
        study = small_study(folder, "fake:digest")
        Lake(study.home.lake).path("answers", "tiny|closed_book").unlink()
        notes = answer(study, run_id="again").notes
        assert (notes["computed"], notes["resumed"], notes["reused"]) == (len(lost), 60 - len(lost), 0)
        volatile = ["batch_size"]
        assert rows(study).drop_columns(volatile).equals(whole.drop_columns(volatile))
        stamps = (Lake(study.home.lake), Lake(home / "small" / "lake"))
        one, other = (lake.content("answers", "tiny|closed_book") for lake in stamps)
        assert one == other


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
        assert row["prompt_hash"] == prompt_hash(f"Q: {question} A:")
        if "\n" not in question:
            assert row["raw_text"] == f" {question}"
