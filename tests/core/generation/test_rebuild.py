"""Every row's prompt comes back from its ids alone, to the letter; what has changed since is told in one line."""

from __future__ import annotations

import dataclasses
import logging
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hand_lake import METHODS, QUESTIONS, fill, hand_study, question_row
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_project.core.errors import LakeError, LongtailError, StudyError
from dagster_project.core.fingerprints import prompt_hash
from dagster_project.core.generation.engine.session import ModelSession
from dagster_project.core.generation.plan import (
    Plan,
    plan_answers,
    plan_generated_passages,
    plan_paraphrase_answers,
    plan_sampled_answers,
)
from dagster_project.core.generation.rebuild import rebuild_prompt, rebuild_prompts
from dagster_project.core.generation.run import (
    answer_paraphrases,
    answer_questions,
    generate_passages,
    sample_answers,
)
from dagster_project.core.lake import WHOLE, Lake
from dagster_project.core.study.study import DEMONSTRATION_POOLS, DRAWS, PROMPT_FORMATS, Prompt, Study

LOG = logging.getLogger("rebuild")
ALL_PROMPTS = (
    Prompt("zero", asks=("questions", "paraphrases", "samples")),
    Prompt("bare", format="question", asks=("paraphrases", "samples", "questions")),
    Prompt("long", format="question_answer", shots=3, draw="per_relation"),
    Prompt("each", shots=6, draw="per_question"),
    Prompt("sampled", shots=4, draw="per_question", demonstrations_from="all_questions"),
    Prompt(
        "reference", shots=6, draw="per_relation", demonstrations_from="all_questions", reference_demos=True
    ),
)
PLACES = [(dataset, question_id) for dataset in QUESTIONS for question_id in QUESTIONS[dataset]]
LINES = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=12)
PROMPTS = st.builds(
    lambda format_name, shots, draw, pool, reference: Prompt(
        "p", format_name, shots, draw if shots else None, pool, reference_demos=reference
    ),
    st.sampled_from(PROMPT_FORMATS),
    st.integers(0, 9),
    st.sampled_from(DRAWS),
    st.sampled_from(DEMONSTRATION_POOLS),
    st.booleans(),
)


@pytest.fixture
def answered(tmp_path: Path) -> tuple[Study, Lake]:
    """Every table of every kind of row, as the fake model writes them."""
    study = hand_study(tmp_path, *ALL_PROMPTS)
    lake = Lake(study.home.lake)
    fill(lake)
    with ModelSession(LOG) as session:
        kept: dict[str, Any] = {"session": session, "run_id": "run", "log": LOG}
        generate_passages(study, lake, "tiny", **kept)
        for method in METHODS:
            answer_questions(study, lake, "tiny", method, **kept)
        answer_paraphrases(study, lake, "tiny", **kept)
        sample_answers(study, lake, "tiny", **kept)
    return study, lake


def all_rows(lake: Lake) -> list[dict[str, Any]]:
    tables = ("answers", "paraphrase_answers", "sampled_answers", "generated_passages")
    return [row for table in tables for row in lake.read_all(table).to_pylist()]


def test_all_rows_of_a_study(answered: tuple[Study, Lake]) -> None:
    study, lake = answered
    rows = all_rows(lake)
    assert {row.get("method") for row in rows} == {*METHODS, None}
    assert len(rows) == 6 * (10 + 10 + 3 * 8) + 2 * 30 + 2 * 30 + 10
    texts = list(rebuild_prompts(study, lake, rows))
    assert [prompt_hash(text) for text in texts] == [row["prompt_hash"] for row in rows]
    assert len(set(texts)) > 200
    for row, text in list(zip(rows, texts, strict=True))[::29]:
        assert rebuild_prompt(study, lake, row) == text


@settings(max_examples=25, deadline=None)
@given(PROMPTS, st.dictionaries(st.sampled_from(PLACES), LINES), st.integers(0, 99), st.sampled_from(METHODS))
def test_any_prompt(prompt: Prompt, generated: dict[tuple[str, str], str], seed: int, method: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        study = hand_study(Path(folder), prompt, seed=seed)
        lake = Lake(Path(folder) / "lake")
        fill(lake, [(*place, text) for place, text in generated.items()])
        check(study, lake, plan_answers(study, lake, "tiny", method), {"model": "tiny", "method": method})
        asks = ("questions", "paraphrases", "samples")
        study = dataclasses.replace(study, prompts=(Prompt("p", prompt.format, asks=asks),))
        check(study, lake, plan_paraphrase_answers(study, lake), {"model": "tiny"})
        check(study, lake, plan_sampled_answers(study, lake), {"model": "tiny"})
        check(study, lake, plan_generated_passages(study, lake), {"model": "tiny"})


def check(study: Study, lake: Lake, plan: Plan, columns: dict[str, str]) -> None:
    rows = [{**row.keys, **columns} for row in plan.rows]
    assert list(rebuild_prompts(study, lake, rows)) == [row.text() for row in plan.rows]


def test_no_rows(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    fill(lake)
    assert list(rebuild_prompts(hand_study(tmp_path, *ALL_PROMPTS), lake, [])) == []


def error_of(study: Study, lake: Lake, row: dict[str, Any]) -> str | None:
    try:
        rebuild_prompt(study, lake, row)
    except LongtailError as error:
        return str(error)
    return None


def test_a_changed_question_is_told_wherever_it_stands(answered: tuple[Study, Lake]) -> None:
    study, lake = answered
    changed = [question_row(*place) for place in PLACES]
    changed[0]["question"] = "What was the capital of Utopia?"
    lake.write("questions", changed, fingerprint="g")
    rows = [row for row in all_rows(lake) if row["dataset"] == "one" and "paraphrase_id" not in row]
    told = {}
    for row in rows[::3]:
        stands = row["question_id"] == "Q1-P36" or "Q1-P36" in row.get("demonstration_ids", ())
        told[id(row)] = error_of(study, lake, row)
        assert (told[id(row)] is not None) == stands
    message = next(message for message in told.values() if message is not None)
    assert "\n" not in message
    assert "an input of its prompt has changed since it was answered (SHA-256" in message
    assert message.startswith("lake table answers, row one/Q")
    assert message.endswith("; materialise lake/answers again")


@pytest.mark.parametrize(
    ("table", "partition", "message"),
    [
        ("questions", WHOLE, "question Q1-P36 of its prompt is not in lake table questions any more"),
        ("passages", WHOLE, "passage Q1-0 of its prompt is not in lake table passages any more"),
        ("paraphrases", WHOLE, "paraphrase 0 of its prompt is not in lake table paraphrases any more"),
        (
            "generated_passages",
            "tiny",
            "passage genread:tiny:Q1-P36 of its prompt is not in lake table generated_",
        ),
    ],
)
def test_what_is_gone_is_told(answered: tuple[Study, Lake], table: str, partition: str, message: str) -> None:
    study, lake = answered
    rows = all_rows(lake)
    left = [
        row
        for row in lake.read(table, partition).to_pylist()
        if (row.get("dataset"), row.get("question_id")) != ("one", "Q1-P36")
        and row.get("passage_id") != "Q1-0"
    ]
    lake.write(table, left, fingerprint="g", partition=partition)
    of_it = [
        row
        for row in rows
        if row["dataset"] == "one" and row["question_id"] == "Q1-P36" and _reads(row, table)
    ]
    told = error_of(study, lake, of_it[0])
    assert told is not None
    assert message in told
    assert "\n" not in told


def _reads(row: dict[str, Any], table: str) -> bool:
    return {
        "questions": True,
        "passages": row.get("method") == "bm25",
        "paraphrases": "paraphrase_id" in row,
        "generated_passages": row.get("method") == "genread",
    }[table]


def test_a_prompt_that_left_the_study_is_told(answered: tuple[Study, Lake]) -> None:
    study, lake = answered
    smaller = dataclasses.replace(study, prompts=study.prompts[1:])
    row = next(row for row in all_rows(lake) if row["prompt"] == "zero")
    with pytest.raises(StudyError, match="prompt 'zero' is not one of: bare, long"):
        rebuild_prompt(smaller, lake, row)


def test_a_changed_template_is_told(answered: tuple[Study, Lake]) -> None:
    study, lake = answered
    other = dataclasses.replace(study.prompts[0], format="question_answer")
    row = next(row for row in all_rows(lake) if row["prompt"] == "zero")
    with pytest.raises(LakeError, match="has changed since it was answered"):
        rebuild_prompt(dataclasses.replace(study, prompts=(other, *study.prompts[1:])), lake, row)
