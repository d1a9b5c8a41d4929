"""Every question is asked under every grounding prompt; answer and explanation are told apart and scored."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from small_study import made, small_study

from longtail.generation.backends.base import Generation
from longtail.generation.engine.task import Scope
from longtail.generation.prompts import build
from longtail.generation.tasks.grounded import GroundedQuestion
from longtail.generation.tasks.registry import TASKS
from longtail.prompt_formats import GROUNDING_PROMPTS
from longtail.storage.lake import Lake, Outcome
from longtail.study.datasets import Dataset
from longtail.study.imports import Import, Place
from longtail.study.models import Service
from longtail.study.prompts import Grounding
from longtail.study.study import Study

NAMES = ("null", "according_to_wikipedia", "without_wikipedia")
_BLANK = Generation("", prompt_tokens=1, new_tokens=1, n_truncated_tokens=0, latency_ms=1.0, batch_size=1)


def dataset(name: str, format_: str | None = None) -> Dataset:
    imported = Import(format_, Place("any")) if format_ else None
    return Dataset(name, imported=imported)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """Three questions each of a dataset with short answers, of HotpotQA and of ELI5."""
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    base = small_study(tmp_path, f"fake:digest?ledger={tmp_path / 'ledger'}", batch_tokens=16)
    found = dataclasses.replace(
        base,
        datasets=(dataset("nq", "table"), dataset("hotpot", "hotpotqa"), dataset("eli", "eli5")),
        methods=("closed_book",),
        grounding=Grounding(prompts=NAMES),
    )
    fill(Lake(found.home.lake))
    return found


def fill(lake: Lake) -> None:
    questions = [
        {
            "dataset": name, "question_id": f"q{i}", "subject_aliases": [], "question": f"what is {name} {i}",
            "object_ids": [], "objects": [], "gold_answers": ["yes", "the gold one"],
        }
        for name in ("nq", "hotpot", "eli")
        for i in range(3)
    ]  # fmt: skip
    lake.write("questions", questions, fingerprint="f")


def in_two_steps(study: Study, **more: Any) -> Study:
    return dataclasses.replace(study, grounding=Grounding(prompts=NAMES, steps=2, **more))


def generate(study: Study) -> Outcome:
    if TASKS["grounded_answers"].is_asked(study):
        made(study, TASKS["grounded_answers"])
    return made(study, TASKS["grounded_generations"])


def rows_of(study: Study, table: str = "grounded_generations") -> list[dict[str, Any]]:
    return Lake(study.home.lake).read(table, "tiny").to_pylist()


def test_each_question_has_a_row_under_each_prompt(study: Study) -> None:
    generate(study)
    rows = rows_of(study)
    assert [(row["dataset"], row["grounding_prompt"], row["question_id"]) for row in rows] == [
        (name, prompt, f"q{i}") for name in ("eli", "hotpot", "nq") for prompt in NAMES for i in range(3)
    ]
    kinds = {row["grounding_prompt"]: row["grounding_kind"] for row in rows}
    assert list(kinds.values()) == ["null", "grounding", "anti_grounding"]
    assert {(row["method"], row["steps"]) for row in rows} == {("closed_book", 1)}
    scores = {"nq": "exact_match", "hotpot": "f1", "eli": "rouge_l"}
    for row in rows:
        given = [name for name in scores.values() if row[name] is not None]
        assert given == [scores[row["dataset"]]]
    assert generate(study).was_current


def test_prompts_are_those_of_the_paper(study: Study) -> None:
    def prompts(study: Study) -> dict[tuple[str, str], str]:
        scope = Scope(study, Lake(study.home.lake), study.models[0])
        items = TASKS["grounded_generations"].plan(scope).items
        return {
            (item.dataset, item.grounding_prompt): item.prompt().text
            for item in items
            if item.question.question_id == "q1"
        }

    once = prompts(study)
    assert once["nq", "null"].endswith("a semicolon, then the explanation.\nwhat is nq 1")
    assert once["nq", NAMES[1]] == once["nq", "null"] + " Answer according to Wikipedia."
    assert once["eli", "null"] == "what is eli 1"
    generate(in_two_steps(study))
    twice = prompts(in_two_steps(study))
    (first,) = [
        r for r in rows_of(study, "grounded_answers") if (r["dataset"], r["question_id"]) == ("nq", "q1")
    ]
    assert twice["nq", NAMES[1]] == (
        f"Question: what is nq 1\nAnswer: {first['answer']}\n\n\nGive a detailed explanation for why this is true."
        " Answer according to Wikipedia.\nExplanation:"
    )
    assert twice["eli", NAMES[1]] == "what is eli 1 Answer according to Wikipedia. Answer:"
    in_turns = dataclasses.replace(
        study, grounding=Grounding(prompts=NAMES, turns=(("tiny", "<u>{prompt}<m>"),))
    )
    assert prompts(in_turns)["eli", NAMES[1]] == "<u>what is eli 1 Answer according to Wikipedia.<m>"


def test_two_steps_keep_the_first_answer_under_every_prompt(study: Study) -> None:
    two = in_two_steps(study, datasets=("eli", "nq"))
    generate(two)
    first = {row["question_id"]: row["answer"] for row in rows_of(two, "grounded_answers")}
    rows = rows_of(two)
    assert {row["dataset"] for row in rows} == {"eli", "nq"}
    for row in rows:
        is_short = row["dataset"] == "nq"
        assert row["steps"] == (2 if is_short else 1)
        assert row["answer"] == (first[row["question_id"]] if is_short else None)
        assert (row["explanation"], row["is_parsed"]) == (row["generation"], True)


def test_a_passage_stands_in_front_in_both_steps_and_a_question_without_one_is_not_asked(
    study: Study,
) -> None:
    """Its text is the retriever's first passage, in the turns of the model, under every prompt."""
    base = dataclasses.replace(study, methods=("closed_book", "bm25"))
    two = in_two_steps(
        base, methods=("bm25", "closed_book"), datasets=("nq",), turns=(("tiny", "<u>{prompt}<m>"),)
    )
    retrieve(Lake(study.home.lake), "nq", ["q0", "q2"])
    outcome = generate(two)
    assert outcome.notes["without_passage"] == len(NAMES)
    rows = rows_of(two)
    asked = [
        (method, f"q{i}") for method, some in (("bm25", (0, 2)), ("closed_book", (0, 1, 2))) for i in some
    ]
    assert [(row["method"], row["question_id"]) for row in rows if row["grounding_prompt"] == "null"] == asked
    assert len(rows) == len(NAMES) * len(asked)
    first = {(row["question_id"], row["method"]): row["answer"] for row in rows_of(two, "grounded_answers")}
    assert set(first) == {(question, method) for method, question in asked}
    assert {(row["question_id"], row["method"]): row["answer"] for row in rows} == first
    items = [
        item
        for table in ("grounded_answers", "grounded_generations")
        for item in TASKS[table].plan(Scope(two, Lake(two.home.lake), two.models[0])).items
    ]
    assert len(items) == (1 + len(NAMES)) * len(asked)
    for item in items:
        key = item.key(0)
        front = f"<u>Passage of {key['question_id']}.\n\n"
        assert item.prompt().text.startswith(front) is (key["method"] == "bm25")


def retrieve(lake: Lake, name: str, question_ids: list[str]) -> None:
    """A passage for each of these questions, found by bm25."""
    passages = [
        {
            "passage_id": one, "entity_id": "Q1", "title": "t", "position": 0, "text": f"Passage of {one}.",
            "source": "sandbox",
        }
        for one in question_ids
    ]  # fmt: skip
    found = [
        {
            "dataset": name, "question_id": one, "retriever": "bm25", "paraphrase_id": 0, "rank": 1,
            "passage_id": one, "score": 1.0, "has_answer": True, "has_answer_popqa": True,
        }
        for one in question_ids
    ]  # fmt: skip
    lake.write("cited_passages", passages, fingerprint="f")
    lake.write("retrieved_passages", found, fingerprint="f", partition="bm25")


def test_a_dataset_may_be_asked_for_long_answers_alone(study: Study) -> None:
    """In two steps too; the score is then that of long answers."""
    generate(in_two_steps(study, long_answers=("nq",)))
    rows = [row for row in rows_of(study) if row["dataset"] == "nq"]
    assert {(row["steps"], row["answer"], row["is_parsed"]) for row in rows} == {(1, None, True)}
    assert all(row["rouge_l"] is not None and row["exact_match"] is None for row in rows)
    assert {row["dataset"] for row in rows_of(study, "grounded_answers")} == {"hotpot"}


@pytest.mark.parametrize(
    ("text", "answer", "explanation"),
    [
        ("Yes; it is so; really.", "Yes", "it is so; really."),
        ("no semicolon", "no semicolon", None),
        ("", "", None),
        (";", "", ""),
    ],
)
def test_a_text_without_a_semicolon_is_no_explanation(
    study: Study, text: str, answer: str, explanation: str | None
) -> None:
    row = row_of(study, "nq", text)
    assert (row["answer"], row["explanation"], row["generation"]) == (answer, explanation, text)
    assert row["is_parsed"] is (explanation is not None)
    assert row["exact_match"] == float(answer == "Yes")


def test_the_first_steps_answer_is_scored_and_an_empty_explanation_is_kept(study: Study) -> None:
    row = row_of(study, "hotpot", "", answer="the Gold")
    assert (row["answer"], row["explanation"], row["is_parsed"]) == ("the Gold", "", True)
    assert row["f1"] == pytest.approx(2 / 3)
    assert row_of(study, "hotpot", "yes it is; so")["f1"] == 0
    assert row_of(study, "eli", "yes")["rouge_l"] == 1


def test_the_authors_code_splits_at_the_first_two_semicolons_and_scores_by_kilt(study: Study) -> None:
    def of(name: str, text: str, answer: str | None = None) -> tuple[str, float]:
        row = row_of(study, name, text, answer)
        return row["reference_explanation"], row["kilt_score"]

    assert of("nq", "Yes; since it is; so") == ("since it is", 1.0)
    assert of("nq", "Yes, since it is") == ("Yes, since it is", 0.0)
    assert of("hotpot", "yes it is; so") == ("so", pytest.approx(0.5))  # KILT's F1 knows no special words
    assert of("hotpot", "for one; and another", answer="the Gold") == ("for one", pytest.approx(2 / 3))
    assert of("eli", "the gold; one") == ("the gold; one", pytest.approx(2 / 3))


def test_prompts_are_those_of_the_authors_code(study: Study) -> None:
    assert build.one_step_prompt("who is Al", "according_to_wikipedia", "reference").endswith(
        "then the explanation.\nWho is al? \nAnswer according to Wikipedia."
    )
    assert build.one_step_prompt("Why?", "find_quotes", "reference").endswith(
        'Why?\nGo to https://www.wikipedia.org and find direct quotes to answer the question. \nResponse: "'
    )
    assert build.one_step_prompt("who is Al", "null", "reference").endswith("\nWho is al?")
    assert build.first_step_prompt("who is Al", "reference").endswith("Who is al?\nAnswer string only:")
    assert "Question: who is Al\n" in build.second_step_prompt("who is Al", "X", "null", "reference")
    assert build.long_form_prompt("why", "attributed_to_wikipedia", "reference", is_small=False).startswith(
        "Why\n\nRespond to this question"
    )
    by_reference = in_two_steps(study, assembly="reference")
    generate(by_reference)
    for table in ("grounded_answers", "grounded_generations"):
        scope = Scope(by_reference, Lake(study.home.lake), study.models[0])
        texts = [item.prompt().text for item in TASKS[table].plan(scope).items]
        assert all("Give a detailed" in text or text.startswith(("Output", "What is")) for text in texts)
        assert not any(" Answer according" in text for text in texts)
    generate(in_two_steps(study))
    assert not generate(by_reference).was_current


def test_a_service_is_asked_at_the_temperature_of_the_authors_code(study: Study) -> None:
    asked = dataclasses.replace(study, grounding=Grounding(prompts=NAMES, assembly="reference"))
    service = dataclasses.replace(study.models[0], service=Service("http://127.0.0.1:1", "chat"))
    for model, temperature in ((study.models[0], 0.0), (service, 0.3)):
        items = TASKS["grounded_generations"].plan(Scope(asked, Lake(study.home.lake), model)).items
        assert {one.request.decoding.temperature for one in items} == {temperature}


def row_of(study: Study, name: str, text: str, answer: str | None = None) -> Mapping[str, Any]:
    task = TASKS["grounded_generations"]
    scope = Scope(study, Lake(study.home.lake), study.models[0])
    (item, *_) = [one for one in task.plan(scope).items if one.dataset == name]
    asked: GroundedQuestion = dataclasses.replace(item, answer=answer)
    return task.row(scope.model, asked, 0, dataclasses.replace(_BLANK, text=text))


def test_every_prompt_of_the_paper_is_there() -> None:
    kinds = [prompt.kind for prompt in GROUNDING_PROMPTS.values()]
    assert kinds == ["null"] + 8 * ["grounding"] + 3 * ["anti_grounding"]
    assert build.one_step_prompt("Why?", "null").endswith("Why?")
