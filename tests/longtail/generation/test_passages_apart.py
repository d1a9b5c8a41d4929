"""A model that reads passages apart from the question gets the retriever's best ones, and its rows name them."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import pytest
from hand_lake import PASSAGES, fill, hand_study
from small_study import answer, calibrate, fill_lake, small_study, with_model

from longtail.errors import BackendError, StudyError
from longtail.generation.engine.task import ModelInput, Scope
from longtail.generation.tasks.registry import TASKS
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.study.prompts import Prompt
from longtail.study.study import Study

SHOTS = Prompt("shots", shots=1, draw="per_question")


def planned(tmp_path: Path, method: str, passages: int, *prompts: Prompt) -> dict[str, Any]:
    """The items of dataset one by question_id, in a lake that has two passages for a question."""
    lake = Lake(tmp_path / "lake")
    if not lake.partitions("questions"):
        fill(lake, [("one", "Q1-P36", "A background.")])
    study = with_model(hand_study(tmp_path, *prompts or (Prompt("zero"),)), passages=passages)
    items = TASKS["answers"].plan(Scope(study, lake, study.model("tiny"), method)).items
    return {item.question.question_id: item for item in items if item.group.dataset == "one"}


def test_the_passages_stand_apart_best_first_with_their_titles(tmp_path: Path) -> None:
    item = planned(tmp_path, "bm25", 2)["Q1-P36"]
    texts = tuple(f"title: T context: {PASSAGES[name][0]}" for name in ("Q1-0", "Q8-0"))
    assert item.prompt() == ModelInput("Q: What is the capital of Utopia? A:", texts)
    assert item.ingredients()["passage_ids"] == ["Q1-0", "Q8-0"]
    assert item.ingredients()["passage_id"] == "Q1-0"
    assert len(planned(tmp_path, "bm25", 1)["Q1-P36"].prompt().passages) == 1
    # the dense retriever's passages are cut before a title is put to them
    (cut, _) = planned(tmp_path, "dense", 2)["Q1-P36"].prompt().passages
    assert cut == "title: T context: Utopia is far. Its capital is Amaurot."


def test_demonstrations_have_no_passage_and_other_methods_ask_as_ever(tmp_path: Path) -> None:
    item = planned(tmp_path, "bm25", 2, SHOTS)["Q1-P36"]
    assert item.prompt().text.startswith("Q: ")
    assert item.ingredients()["demonstration_passage_ids"] == [None]
    assert len(item.prompt().passages) == 2
    for method in ("closed_book", "genread"):
        apart, plain = (planned(tmp_path, method, n)["Q1-P36"] for n in (2, 0))
        assert apart.prompt() == plain.prompt()
        assert apart.ingredients() == plain.ingredients()


def test_the_hash_tells_passages_from_text_and_from_each_other() -> None:
    def sha(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()

    assert ModelInput("q").hash() == sha("q")
    assert ModelInput("q", ("a", "b")).hash() == sha("\n".join((sha("q"), sha("a"), sha("b"))))
    inputs = [("q",), ("q", "a"), ("q", "a", "b"), ("q", "b", "a"), ("q", "ab"), ("q", ""), ("q", "a\nb")]
    assert len({ModelInput(text, tuple(own)).hash() for text, *own in inputs}) == len(inputs)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    found = small_study(tmp_path, f"fake:digest?ledger={tmp_path / 'ledger'}", batch_tokens=16, passages=2)
    found = dataclasses.replace(found, prompts=(Prompt("zero_shot"),), methods=("closed_book", "bm25"))
    lake = Lake(found.home.lake)
    fill_lake(lake, 2)
    rows = lake.read("retrieved_passages", "bm25").to_pylist()
    more = [row | {"rank": 2, "passage_id": "Q0-0"} for row in rows]
    lake.write("retrieved_passages", rows + more, fingerprint="f", partition="bm25")
    return found


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"backend": "transformers", "path": "sandbox:s"},
            "backend transformers cannot read passages apart from the prompt; backends that can: fake",
        ),
        (
            {"path": "fake:passage?stream=true"},
            r"answers tiny\|bm25: fake 1 cannot read passages apart from the prompt",
        ),
    ],
)
def test_a_backend_that_reads_no_passages_refuses_them(
    study: Study, changes: dict[str, str], message: str
) -> None:
    with pytest.raises(BackendError, match=message):
        answer(with_model(study, **changes), "bm25")


def test_single_answers_are_timed_with_their_passages(study: Study, tmp_path: Path) -> None:
    """The ledger names each prompt as the model reads it: those of answers, and the closed-book ones, again."""
    for method in study.methods:
        answer(study, method)
    made = set((tmp_path / "ledger").read_text().splitlines())
    (tmp_path / "ledger").write_text("")
    calibrate(study)
    timed = set((tmp_path / "ledger").read_text().splitlines())
    assert timed == made


def declared(folder: Path, **model: Any) -> Study:
    path = folder / "study.yaml"
    keys = "".join(f"\n    {key}: {value}" for key, value in model.items())
    path.write_text(
        "name: s\ndescription: d\nsource: {kind: sandbox, snapshot: '2026-10'}\ntop_k: 7\n"
        "datasets: [{name: sandbox}]\nprompts: [{name: zero}]\npopularity: {measure: sitelinks}\n"
        f"models:\n  - name: m\n    path: nowhere{keys}\n"
    )
    return load_study(path)


def test_a_reader_reads_twenty_passages_or_as_many_as_are_retrieved(tmp_path: Path) -> None:
    fused = {"backend": "fusion_in_decoder", "encoder_decoder": "true"}
    assert declared(tmp_path, **fused).models[0].passages == 7
    assert declared(tmp_path, **fused, passages=3).models[0].passages == 3
    assert declared(tmp_path).models[0].passages == 0
    with pytest.raises(
        StudyError, match=r"models\[0\]\.passages: the study retrieves 7 for a question, not 8; raise top_k"
    ):
        declared(tmp_path, **fused, passages=8)
    with pytest.raises(StudyError, match=r"models\[0\]\.passages: must be a whole number of 1"):
        declared(tmp_path, **fused, passages=0)
    with pytest.raises(StudyError, match=r"models\[0\]\.passages: has no meaning for backend transformers"):
        declared(tmp_path, passages=2)
