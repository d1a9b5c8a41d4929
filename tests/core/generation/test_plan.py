"""Plans: which rows, in which order, with which keys; prompts built when asked for, from records that rows share."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hand_lake import METHODS, QUESTIONS, fill, hand_study

from dagster_project.core.errors import LakeError
from dagster_project.core.generation.plan import (
    PlannedRow,
    plan_answers,
    plan_generated_passages,
    plan_paraphrase_answers,
    plan_sampled_answers,
    prompt_slice,
)
from dagster_project.core.lake import Lake
from dagster_project.core.study.study import Dataset, Prompt, Sampling, Study

ZERO = Prompt("zero", asks=("questions", "paraphrases", "samples"))
SHOTS = Prompt("shots", shots=6, draw="per_question")
REFERENCE = dataclasses.replace(SHOTS, name="reference", reference_demos=True)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake")
    texts = [("one", "Q1-P36", " Utopia. A far"), ("one", "Q4-P50", ""), ("two", "Q1-P36", "Laputa. Far")]
    fill(lake, texts)
    return lake


def find(rows: object, **keys: object) -> PlannedRow:
    found = [row for row in rows if keys.items() <= row.keys.items()]  # type: ignore[attr-defined]
    assert len(found) == 1
    return found[0]


def test_answers_are_ordered_and_keyed(lake: Lake, tmp_path: Path) -> None:
    study = hand_study(tmp_path, ZERO, SHOTS, Prompt("not_asked", asks=("samples",)))
    plan = plan_answers(study, lake, "tiny", "closed_book")
    places = [(row.keys["dataset"], row.keys["prompt"], row.keys["question_id"]) for row in plan.rows]
    assert places == sorted(places)
    assert len(places) == 2 * sum(map(len, QUESTIONS.values()))
    assert plan.n_without_passage == 0
    row = find(plan.rows, dataset="one", prompt="zero", question_id="Q1-P36")
    assert row.keys == {
        "dataset": "one", "question_id": "Q1-P36", "prompt": "zero", "passage_id": None,
        "demonstration_ids": [], "demonstration_passage_ids": [],
    }  # fmt: skip
    assert row.text() == "Q: What is the capital of Utopia? A:"
    assert (row.row_key, row.sample_seed) == ("one/Q1-P36/zero", None)
    assert row.gold_answers == ("Amaurot", "Amaurote")


def test_labels_are_taken_literally(lake: Lake, tmp_path: Path) -> None:
    rows = plan_answers(hand_study(tmp_path, ZERO), lake, "tiny", "closed_book").rows
    assert find(rows, question_id="Q2-P36").text() == "Q: What is the capital of {question} \n? A:"


@pytest.mark.parametrize("method", ["bm25", "dense", "oracle"])
def test_questions_without_a_passage_are_counted(lake: Lake, tmp_path: Path, method: str) -> None:
    plan = plan_answers(hand_study(tmp_path, ZERO, SHOTS), lake, "tiny", method)
    asked = {(row.keys["dataset"], row.keys["question_id"]) for row in plan.rows}
    assert not asked & {("one", "Q3-P22"), ("two", "Q9-P22")}
    assert (len(plan.rows), plan.n_without_passage) == (2 * 8, 2 * 2)


def test_passages_stand_before_question_and_demonstrations(lake: Lake, tmp_path: Path) -> None:
    rows = plan_answers(hand_study(tmp_path, SHOTS), lake, "tiny", "dense").rows
    row = find(rows, dataset="one", question_id="Q1-P36")
    keys = row.keys
    assert keys["passage_id"] == "Q1-0"
    assert set(keys["demonstration_ids"]) == set(QUESTIONS["one"]) - {"Q1-P36"}
    expected = [None if i == "Q3-P22" else f"{i[:2]}-0" for i in keys["demonstration_ids"]]
    assert keys["demonstration_passage_ids"] == expected
    text = row.text()
    assert text.endswith("\n\nUtopia is far. Its capital is Amaurot.\n\nQ: What is the capital of Utopia? A:")
    assert "Emma is a book. By Jane Austen.\n\nQ: Who is the author of Emma? A: Jane Austen" in text
    assert f"\n\n{text}".count("\n\nQ: Who is the father of Ann? A: Bo\n\n") == 1
    assert f"\n\n{text}".count("\n\nQ: Who is the father of Cy? A: \n\n") == 1  # its passage is empty


def test_the_references_demonstrations(lake: Lake, tmp_path: Path) -> None:
    """Retrieval results by the question's text; demonstrations looked up in lower case without question marks."""
    rows = plan_answers(hand_study(tmp_path, REFERENCE), lake, "tiny", "bm25").rows
    keys = find(rows, dataset="one", question_id="Q1-P36").keys
    carried = dict(zip(keys["demonstration_ids"], keys["demonstration_passage_ids"], strict=True))
    assert carried.pop("Q4-P50") == "Q5-0"  # "Who is the author of Emma?" finds "who is the author of emma"
    assert carried.pop("Q5-P50") == "Q5-0"  # which finds itself
    assert set(carried.values()) == {None}
    assert keys["passage_id"] == "Q1-0"
    two = find(rows, dataset="two", question_id="Q1-P36").keys
    assert set(two["demonstration_passage_ids"]) == {None}
    plain = plan_answers(hand_study(tmp_path, SHOTS), lake, "tiny", "bm25").rows
    assert (
        find(plain, dataset="one", question_id="Q1-P36").keys["demonstration_ids"]
        == keys["demonstration_ids"]
    )


def test_genread_takes_the_models_own_text(lake: Lake, tmp_path: Path) -> None:
    study = hand_study(tmp_path, SHOTS, ZERO)
    plan = plan_answers(study, lake, "tiny", "genread")
    assert {(row.keys["dataset"], row.keys["question_id"]) for row in plan.rows} == {
        ("one", "Q1-P36"), ("one", "Q4-P50"), ("two", "Q1-P36"),
    }  # fmt: skip
    assert plan.n_without_passage == 2 * 7
    row = find(plan.rows, dataset="one", prompt="zero", question_id="Q1-P36")
    assert (
        row.text() == " Utopia. A far\n\nQ: What is the capital of Utopia? A:"
    )  # not cut as dense passages are
    assert row.keys["passage_id"] == "genread:tiny:Q1-P36"
    shown = find(plan.rows, dataset="one", prompt="shots", question_id="Q4-P50")
    assert " Utopia. A far\n\nQ: What is the capital of Utopia? A: Amaurot\n\n" in shown.text()
    carried = dict(zip(shown.keys["demonstration_ids"], shown.keys["demonstration_passage_ids"], strict=True))
    assert {key for key, passage in carried.items() if passage} == {"Q1-P36"}


def test_an_empty_background_text_leaves_the_question_bare_but_named(lake: Lake, tmp_path: Path) -> None:
    row = find(plan_answers(hand_study(tmp_path, ZERO), lake, "tiny", "genread").rows, question_id="Q4-P50")
    assert (row.text(), row.keys["passage_id"]) == ("Q: Who is the author of Emma? A:", "genread:tiny:Q4-P50")


def test_a_retrieved_passage_that_is_gone_is_told(lake: Lake, tmp_path: Path) -> None:
    passages = lake.read("passages").to_pylist()[1:]
    lake.write("passages", passages, fingerprint="g")
    with pytest.raises(
        LakeError, match=r"partition bm25: passage Q1-0 is not in lake table passages; materialise"
    ):
        plan_answers(hand_study(tmp_path, ZERO), lake, "tiny", "bm25")


def test_paraphrases(lake: Lake, tmp_path: Path) -> None:
    plan = plan_paraphrase_answers(hand_study(tmp_path, ZERO, SHOTS), lake)
    places = [(row.keys["dataset"], row.keys["question_id"], row.keys["paraphrase_id"]) for row in plan.rows]
    assert places == sorted(places)
    assert len(places) == 3 * 10
    row = find(plan.rows, dataset="two", question_id="Q9-P22", paraphrase_id=1)
    assert row.keys == {"dataset": "two", "question_id": "Q9-P22", "paraphrase_id": 1, "prompt": "zero"}
    assert (row.text(), row.row_key) == ("Q: Say: Who is the father of Di? A:", "two/Q9-P22/1/zero")
    assert (row.gold_answers, row.sample_seed) == (("Ed",), None)


def test_samples_are_seeded_by_seed_dataset_question_and_number(lake: Lake, tmp_path: Path) -> None:
    study = hand_study(tmp_path, ZERO, Prompt("bare", format="question", asks=("samples",)))
    plan = plan_sampled_answers(study, lake)
    names = ("dataset", "prompt", "question_id", "sample")
    places = [tuple(row.keys[name] for name in names) for row in plan.rows]
    assert places == sorted(places)
    assert len(places) == 2 * 3 * 10
    seeds = {
        (row.keys["dataset"], row.keys["question_id"], row.keys["sample"]): row.sample_seed
        for row in plan.rows
    }
    assert len(set(seeds.values())) == len(seeds) == 30
    assert all(seed is not None and 0 <= seed < 2**63 for seed in seeds.values())
    row = find(plan.rows, dataset="one", question_id="Q1-P36", sample=2, prompt="bare")
    assert (row.text(), row.row_key) == ("What is the capital of Utopia?", "one/Q1-P36/2/bare")
    assert row.sample_seed == seeds["one", "Q1-P36", 2]
    others = plan_sampled_answers(dataclasses.replace(study, seed=1), lake)
    assert not {row.sample_seed for row in others.rows} & set(seeds.values())


def test_more_samples_keep_the_seeds_of_the_first(lake: Lake, tmp_path: Path) -> None:
    study = hand_study(tmp_path, ZERO)
    few = {row.row_key: row.sample_seed for row in plan_sampled_answers(study, lake).rows}
    more = plan_sampled_answers(dataclasses.replace(study, sampling=Sampling(n=5)), lake)
    assert few.items() <= {row.row_key: row.sample_seed for row in more.rows}.items()


def test_background_texts_are_asked_once_a_question(lake: Lake, tmp_path: Path) -> None:
    plan = plan_generated_passages(hand_study(tmp_path, ZERO, SHOTS), lake)
    assert len(plan.rows) == 10
    row = find(plan.rows, dataset="one", question_id="Q3-P22")
    assert row.keys == {"dataset": "one", "question_id": "Q3-P22"}
    assert row.text() == (
        "Generate a background document from Wikipedia to answer the given question. Who is the father of Ann?"
    )


def test_rows_share_all_they_refer_to(lake: Lake, tmp_path: Path) -> None:
    shared = dataclasses.replace(SHOTS, draw="per_relation", name="shared")
    rows = plan_answers(hand_study(tmp_path, SHOTS, shared), lake, "tiny", "bm25").rows
    assert all(sys.getsizeof(row) <= 88 and not hasattr(row, "__dict__") for row in rows)
    assert len({id(row.group) for row in rows}) == 4
    assert len({id(row.question) for row in rows} | {id(q) for row in rows for q in row.shown}) == 10


def test_only_the_studys_datasets_are_asked(lake: Lake, tmp_path: Path) -> None:
    study = dataclasses.replace(hand_study(tmp_path, ZERO), datasets=(Dataset("two"),))
    plans = (
        plan_answers(study, lake, "tiny", "bm25"),
        plan_paraphrase_answers(study, lake),
        plan_sampled_answers(study, lake),
        plan_generated_passages(study, lake),
    )
    assert {row.keys["dataset"] for plan in plans for row in plan.rows} == {"two"}


def with_prompt(**changes: Any) -> Callable[[Study], Study]:
    return lambda study: dataclasses.replace(
        study, prompts=(study.prompts[0], dataclasses.replace(study.prompts[1], **changes))
    )


@pytest.mark.parametrize(
    ("change", "stale"),
    [
        (with_prompt(shots=5), set(METHODS)),
        (with_prompt(draw="per_relation"), set(METHODS)),
        (with_prompt(demonstrations_from="all_questions"), set(METHODS)),
        (with_prompt(format="question"), set(METHODS)),
        (with_prompt(name="renamed"), set(METHODS)),
        (with_prompt(reference_demos=True), set(METHODS) - {"closed_book"}),
        (lambda study: dataclasses.replace(study, prompts=study.prompts[::-1]), set()),
        (lambda study: dataclasses.replace(study, datasets=study.datasets[::-1]), set()),
        (lambda study: dataclasses.replace(study, datasets=study.datasets[:1]), {*METHODS, "P", "S", "G"}),
        (lambda study: dataclasses.replace(study, seed=9), {*METHODS, "P", "S", "G"}),
        (lambda study: dataclasses.replace(study, sampling=Sampling(n=4)), {"S"}),
        (lambda study: dataclasses.replace(study, top_k=9, max_new_tokens=9), set()),
        (
            lambda study: dataclasses.replace(
                study, prompts=(*study.prompts, Prompt("more", asks=("samples", "paraphrases")))
            ),
            {"P", "S"},
        ),
    ],
)
def test_what_makes_partitions_stale(
    tmp_path: Path, change: Callable[[Study], Study], stale: set[str]
) -> None:
    def slices(study: Study) -> dict[str, object]:
        return {method: prompt_slice(study, "answers", method) for method in METHODS} | {
            "P": prompt_slice(study, "paraphrase_answers"),
            "S": prompt_slice(study, "sampled_answers"),
            "G": prompt_slice(study, "generated_passages"),
        }

    study = hand_study(tmp_path, ZERO, SHOTS)
    before, after = slices(study), slices(change(study))
    assert {name for name in before if before[name] != after[name]} == stale


def test_prompts_change_only_with_their_slice(lake: Lake, tmp_path: Path) -> None:
    """The slice is not too small: what it says is the same gives the same rows."""
    plain, reference = (
        hand_study(tmp_path, SHOTS),
        hand_study(tmp_path, dataclasses.replace(REFERENCE, name="shots")),
    )
    for method in METHODS:
        texts = [
            [row.text() for row in plan_answers(s, lake, "tiny", method).rows] for s in (plain, reference)
        ]
        same = prompt_slice(plain, "answers", method) == prompt_slice(reference, "answers", method)
        assert same == (method == "closed_book")
        assert not same or texts[0] == texts[1]
