"""Entailment between answers: equal to a plain loop, each pair once, and clear errors."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from longtail.entailment.answers import Entailments, compare_answers
from longtail.entailment.classifier import Classifier, check, model_of, open_classifier
from longtail.errors import BackendError
from longtail.storage.lake import Lake
from longtail.study.models import Nli
from longtail.study.prompts import Prompt
from longtail.study.study import Study
from tests.lake_rows import fill
from tests.longtail.generation.tiny_models import save_tiny_classifier

ANSWERS = {
    "Q1": ["Paris", "Paris", "the city of Paris, in the north of France", ""],
    "Q2": ["Łódź", "Rome", "Paris"],
    "Q3": ["Rome", "Rome"],
    "Q4": ["alone"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_classifier(tmp_path_factory.mktemp("nli") / "tiny")


def asked(study: Study, folder: Path | None) -> tuple[Study, Lake]:
    """The study with samples instead of paraphrases, and a lake with the answers."""
    nli = None if folder is None else Nli(str(folder), device="cpu")
    prompts = (*study.prompts, Prompt("certain", generations=("samples",)))
    lake = Lake(study.home.lake)
    for table, number in (("paraphrase_answers", "paraphrase_id"), ("sampled_answers", "sample")):
        shared = {"model": "tiny", "dataset": "facts", "prompt": "zero_shot"}
        rows = [
            fill(table, {**shared, "question_id": key, number: i, "prediction": text})
            for key, texts in ANSWERS.items()
            for i, text in enumerate(texts)
        ]
        lake.write(table, rows, fingerprint="by hand", partition="tiny")
    return replace(study, nli=nli, prompts=prompts), lake


def by_plain_loop(folder: Path, texts: list[str]) -> float:
    """The definition: one forward pass a pair, over all ordered pairs of different answers."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    values = []
    for one, other in permutations(texts, 2):
        if one == other:
            values.append(1.0)
            continue
        with torch.inference_mode():
            logits = model(**tokenizer([one], [other], return_tensors="pt")).logits
        values.append(float(torch.softmax(logits[0], 0)[2]))
    return sum(values) / len(values)


def test_means_equal_a_plain_loop(hand_study: Study, folder: Path, log: logging.Logger) -> None:
    study, lake = asked(hand_study, folder)
    outcome = compare_answers(study, lake, "tiny", log)
    rows = lake.read("answer_entailments", "tiny").to_pylist()
    assert [(row["asked"], row["question_id"], row["n_pairs"]) for row in rows] == [
        (kind, key, n) for kind in ("paraphrases", "samples") for key, n in (("Q1", 6), ("Q2", 3), ("Q3", 1))
    ]
    for row in rows:
        assert row["mean_entailment"] == pytest.approx(
            by_plain_loop(folder, ANSWERS[row["question_id"]]), abs=1e-5
        )
    assert len({row["mean_entailment"] for row in rows}) == 3
    # Q1 has three texts and Q2 three others: six ordered pairs each, shared by paraphrases and samples.
    assert outcome.notes == {"computed_now": 12, "without_value": 0}
    assert compare_answers(study, lake, "tiny", log).was_current


def test_an_interrupted_run_continues_from_the_store(
    hand_study: Study, folder: Path, log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, lake = asked(hand_study, folder)
    nli = Nli(str(folder), device="cpu")
    with Entailments(study.home.cache, nli, log) as entailments:
        first = entailments.of([("Paris", "Rome"), ("Rome", "Paris")])
    assert compare_answers(study, lake, "tiny", log).notes["computed_now"] == 10
    with Entailments(study.home.cache, nli, log) as entailments:
        monkeypatch.setattr(Classifier, "probabilities", None)
        assert entailments.of([("Rome", "Paris"), ("Paris", "Rome")]) == first
    assert first["Paris", "Rome"] != first["Rome", "Paris"]


def test_without_a_classifier_the_table_is_empty(hand_study: Study, log: logging.Logger) -> None:
    study, lake = asked(hand_study, None)
    assert compare_answers(study, lake, "tiny", log).stamp.n_rows == 0
    assert not (study.home.cache / "entailments.sqlite").exists()


def test_numbers_that_are_not_finite_are_counted(
    hand_study: Study, tmp_path: Path, log: logging.Logger
) -> None:
    from safetensors.torch import load_file, save_file

    broken = save_tiny_classifier(tmp_path / "broken")
    weights = load_file(broken / "model.safetensors")
    weights["classifier.bias"][:] = np.nan
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    study, lake = asked(hand_study, broken)
    outcome = compare_answers(study, lake, "tiny", log)
    # Two equal answers need no classifier.
    assert {row["question_id"] for row in lake.read("answer_entailments", "tiny").to_pylist()} == {"Q3"}
    assert outcome.notes == {"computed_now": 0, "without_value": 4}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
            r"none of its labels \(LABEL_0, LABEL_1, LABEL_2\)",
        ),
        (
            {"0": "not_entailment", "1": "neutral", "2": "x"},
            r"none of its labels \(not_entailment, neutral, x\)",
        ),
        ({"0": "Entailment", "1": "entails", "2": "x"}, r"2 of its labels \(Entailment, entails, x\)"),
        (None, r"none of its labels \(it names none\)"),
    ],
)
def test_a_label_that_is_not_called_entailment_is_refused(
    tmp_path: Path, folder: Path, names: dict[str, str] | None, message: str
) -> None:
    other = save_tiny_classifier(tmp_path / "other")
    settings = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**settings, "id2label": names}))
    with pytest.raises(BackendError, match=message):
        check(Nli(str(other)))
    check(Nli(str(folder)))


def test_weights_without_a_classifier_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    bare = save_tiny_classifier(tmp_path / "bare")
    weights = load_file(bare / "model.safetensors")
    kept = {name: value for name, value in weights.items() if not name.startswith("classifier")}
    save_file(kept, bare / "model.safetensors", {"format": "pt"})
    with (
        pytest.raises(BackendError, match=r"lacks weights of a classifier: classifier\.bias"),
        open_classifier(model_of(Nli(str(bare), device="cpu"))),
    ):
        pass


def test_a_folder_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="no folder"):
        check(Nli(str(tmp_path / "no where")))
    (tmp_path / "pickled").mkdir()
    (tmp_path / "pickled" / "config.json").write_text("{}")
    (tmp_path / "pickled" / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(BackendError, match="only safetensors weights are loaded"):
        check(Nli(str(tmp_path / "pickled")))
