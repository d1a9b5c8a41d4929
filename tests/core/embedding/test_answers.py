"""Answer embeddings: every distinct answer once, and no answer embedded twice."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from dagster_project.core.embedding.answers import embed_answers
from dagster_project.core.embedding.encoder import ENCODER, load_encoder
from dagster_project.core.errors import LakeError
from dagster_project.core.lake import Lake
from dagster_project.core.study.study import Prompt, Study
from dagster_project.core.tables import TABLES

_ZERO = {pa.string(): "", pa.bool_(): False, pa.int32(): 0, pa.int64(): 0, pa.float64(): 0.0}


def write_answers(lake: Lake, model: str, predictions: list[str], table: str = "paraphrase_answers") -> None:
    columns = TABLES[table].columns
    blank = {column.name: _ZERO[column.type] for column in columns}
    rows = [
        {**blank, "model": model, "question_id": f"Q{i}-P19", "prediction": text}
        for i, text in enumerate(predictions)
    ]
    lake.write(table, rows, fingerprint=str(predictions), partition=model)


@pytest.fixture
def two_models(make_study: Callable[[str], Study], hand_text: str) -> Study:
    second = ", {name: second, path: nowhere, backend: fake}]"
    return make_study(hand_text.replace("backend: fake}]", "backend: fake}" + second))


def test_every_distinct_answer_once(two_models: Study, log: logging.Logger) -> None:
    lake = Lake(two_models.home.lake)
    write_answers(lake, "tiny", ["Łódź", "", "Paris", "Paris"])
    write_answers(lake, "second", ["Paris", "Rome\x00"])
    write_answers(lake, "left_the_study", ["nobody asks"])
    outcome = embed_answers(two_models, lake, log)
    rows = lake.read("answer_embeddings").to_pylist()
    assert [row["text"] for row in rows] == ["", "Paris", "Rome\x00", "Łódź"]
    assert {row["encoder"] for row in rows} == {ENCODER.stamp}
    expected = load_encoder().encode([row["text"] for row in rows], log)
    np.testing.assert_allclose([row["embedding"] for row in rows], expected, atol=1e-6)
    assert outcome.notes["embedded_now"] == 4
    assert outcome.notes["empty_answers"] == 1
    assert embed_answers(two_models, lake, log).was_current


def test_known_texts_are_not_embedded_again(two_models: Study, log: logging.Logger) -> None:
    lake = Lake(two_models.home.lake)
    write_answers(lake, "tiny", ["Łódź", "Paris"])
    outcome = embed_answers(two_models, lake, log)
    assert outcome.notes["models_without_answers"] == ["second"]
    before = {row["text"]: row["embedding"] for row in lake.read("answer_embeddings").to_pylist()}
    write_answers(lake, "tiny", ["Paris"])
    write_answers(lake, "second", ["Rome"])
    assert embed_answers(two_models, lake, log).notes["embedded_now"] == 1
    after = {row["text"]: row["embedding"] for row in lake.read("answer_embeddings").to_pylist()}
    assert after.keys() == {"Paris", "Rome"}
    assert after["Paris"] == before["Paris"]


_OTHERS = [
    "another",
    ENCODER.name,  # the name alone does not identify the weights
    replace(ENCODER, weights_sha256="0" * 64).stamp,
    replace(ENCODER, max_tokens=128).stamp,
]


@pytest.mark.parametrize("other", _OTHERS)
def test_vectors_of_another_encoder_are_not_kept(hand_study: Study, other: str, log: logging.Logger) -> None:
    lake = Lake(hand_study.home.lake)
    write_answers(lake, "tiny", ["Paris"])
    stranger = {"text": "Paris", "embedding": [0.0] * ENCODER.n_dimensions, "encoder": other}
    lake.write("answer_embeddings", [stranger], fingerprint="old")
    assert embed_answers(hand_study, lake, log).notes["embedded_now"] == 1
    row = lake.read("answer_embeddings").to_pylist()[0]
    assert row["encoder"] == ENCODER.stamp
    assert abs(sum(x * x for x in row["embedding"]) - 1) < 1e-5


def test_without_answers(hand_study: Study, make_study: Callable[[str], Study], log: logging.Logger) -> None:
    lake = Lake(hand_study.home.lake)
    with pytest.raises(LakeError, match="lake/paraphrase_answers"):
        embed_answers(hand_study, lake, log)
    text = hand_study.path.read_text(encoding="utf-8")
    silent = make_study(text.replace("asks: [questions, paraphrases]", "asks: [questions]"))
    assert embed_answers(silent, lake, log).stamp.n_rows == 0


def test_sampled_answers_are_embedded_too(hand_study: Study, log: logging.Logger) -> None:
    lake = Lake(hand_study.home.lake)
    both = replace(hand_study, prompts=(Prompt("p", asks=("paraphrases", "samples")),))
    write_answers(lake, "tiny", ["Paris", "Rome"])
    assert embed_answers(hand_study, lake, log).stamp.n_rows == 2
    with pytest.raises(LakeError, match="materialise asset lake/sampled_answers first"):
        embed_answers(both, lake, log)
    write_answers(lake, "tiny", ["Rome", "Oslo", "Oslo"], table="sampled_answers")
    outcome = embed_answers(both, lake, log)
    assert outcome.notes["embedded_now"] == 1
    assert [row["text"] for row in lake.read("answer_embeddings").to_pylist()] == ["Oslo", "Paris", "Rome"]
    only_samples = replace(hand_study, prompts=(Prompt("p", asks=("samples",)),))
    assert embed_answers(only_samples, lake, log).stamp.n_rows == 2
