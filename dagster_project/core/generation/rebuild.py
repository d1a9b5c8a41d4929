"""The exact prompt of a lake row, rebuilt from its ids: prompts themselves are never stored.

What belongs here: from key columns to the prompt, checked by its hash. What does not: the rule that puts a prompt
together (`prompts`), and planning (`plan`): no draw or retrieval is repeated, the row says what stands in its prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dagster_project.core.errors import LakeError
from dagster_project.core.fingerprints import prompt_hash
from dagster_project.core.generation.inputs import (
    read_generated_passages,
    read_passages,
    read_questions,
    read_wordings,
)
from dagster_project.core.generation.prompts.build import Passage, Question, bare_prompt, block, join_blocks
from dagster_project.core.lake import Lake
from dagster_project.core.methods import BACKGROUND, METHODS
from dagster_project.core.prompt_formats import BACKGROUND_TEMPLATE, FORMATS
from dagster_project.core.study.study import Study

Row = Mapping[str, Any]
PassageKey = tuple[str, str, str]
"""(method, "", passage_id) of retrieved passages, (model, dataset, passage_id) of those that a model wrote."""


def rebuild_prompt(study: Study, lake: Lake, row: Row) -> str:
    """The prompt of one row of answers, paraphrase_answers, sampled_answers or generated_passages.

    `row` holds the row's columns; of the key columns none may be missing, and answers also need the ids of their
    passage and demonstrations. Checked against prompt_hash where the row has it. Errors: `LakeError` where a question
    or passage is no longer in the lake or has changed since; `StudyError` where the study no longer has the prompt.
    """
    return next(rebuild_prompts(study, lake, [row]))


def rebuild_prompts(study: Study, lake: Lake, rows: Sequence[Row]) -> Iterator[str]:
    """The prompts of many rows, in their order, the lake read once for all; as `rebuild_prompt`."""
    ingredients = _read(study, lake, rows)
    for row in rows:
        text = _prompt(study, ingredients, row)
        expected = row.get("prompt_hash")
        if expected is not None and prompt_hash(text) != expected:
            raise LakeError(
                f"{_place(row)}: an input of its prompt has changed since it was answered (SHA-256"
                f" {prompt_hash(text)}, not {expected}); materialise lake/{_table(row)} again"
            )
        yield text


@dataclass(frozen=True)
class _Ingredients:
    """Records of the lake; questions and wordings by (dataset, question_id)."""

    questions: Mapping[tuple[str, str], Question]
    wordings: Mapping[tuple[str, str], Mapping[int, str]]
    passages: Mapping[PassageKey, Passage]


def _read(study: Study, lake: Lake, rows: Sequence[Row]) -> _Ingredients:
    ids = {row["question_id"] for row in rows}
    ids.update(shown for row in rows for shown in row.get("demonstration_ids") or ())
    questions = {
        (dataset, question.question_id): question
        for dataset, found in read_questions(study, lake, ids).items()
        for question in found
    }
    reworded = [row["question_id"] for row in rows if _table(row) == "paraphrase_answers"]
    wordings = read_wordings(lake, reworded) if reworded else {}
    return _Ingredients(
        questions, {key: dict(found) for key, found in wordings.items()}, _read_passages(lake, rows)
    )


def _read_passages(lake: Lake, rows: Sequence[Row]) -> dict[PassageKey, Passage]:
    wanted: dict[tuple[bool, str], set[str]] = {}
    for row in rows:
        if _table(row) == "answers":
            is_own = METHODS[row["method"]].kind == BACKGROUND
            ids = wanted.setdefault((is_own, row["model" if is_own else "method"]), set())
            ids.update(_named(row["passage_id"], *row["demonstration_passage_ids"]))
    found: dict[PassageKey, Passage] = {}
    for (is_own, owner), ids in wanted.items():
        if is_own:
            for dataset, passages in read_generated_passages(lake, owner, ids).items():
                found.update({(owner, dataset, passage.passage_id): passage for passage in passages.values()})
        elif ids:
            passages = read_passages(lake, owner, ids)
            found.update({(owner, "", passage_id): passage for passage_id, passage in passages.items()})
    return found


def _prompt(study: Study, ingredients: _Ingredients, row: Row) -> str:
    table = _table(row)
    template = (
        BACKGROUND_TEMPLATE if table == "generated_passages" else FORMATS[study.prompt(row["prompt"]).format]
    )
    question = _question(ingredients, row, row["question_id"])
    if table == "paraphrase_answers":
        wording = ingredients.wordings.get((row["dataset"], row["question_id"]), {}).get(row["paraphrase_id"])
        if wording is None:
            raise _missing(row, f"paraphrase {row['paraphrase_id']}", "paraphrases")
        return bare_prompt(wording, template)
    if table != "answers":
        return bare_prompt(question.question, template)
    if row["demonstration_ids"] is None:
        raise LakeError(
            f"{_place(row)}: its answer is imported: others put its prompt together, and it was not kept"
        )
    blocks = []
    for shown_id, passage_id in zip(row["demonstration_ids"], row["demonstration_passage_ids"], strict=True):
        shown = _question(ingredients, row, shown_id)
        blocks.append(block(template, shown.question, _text(ingredients, row, passage_id), shown.answer))
    blocks.append(block(template, question.question, _text(ingredients, row, row["passage_id"])))
    return join_blocks(blocks)


def _question(ingredients: _Ingredients, row: Row, question_id: str) -> Question:
    question = ingredients.questions.get((row["dataset"], question_id))
    if question is None:
        raise _missing(row, f"question {question_id}", "questions")
    return question


def _text(ingredients: _Ingredients, row: Row, passage_id: str | None) -> str:
    if passage_id is None:
        return ""
    is_own = METHODS[row["method"]].kind == BACKGROUND
    owner, dataset = (row["model"], row["dataset"]) if is_own else (row["method"], "")
    passage = ingredients.passages.get((owner, dataset, passage_id))
    if passage is None:
        raise _missing(row, f"passage {passage_id}", "generated_passages" if is_own else "passages")
    return passage.text


def _named(*passage_ids: str | None) -> Iterator[str]:
    return (passage_id for passage_id in passage_ids if passage_id is not None)


def _table(row: Row) -> str:
    """The lake table that a row is of, by its key columns."""
    if "paraphrase_id" in row:
        return "paraphrase_answers"
    if "sample" in row:
        return "sampled_answers"
    return "answers" if "prompt" in row else "generated_passages"


def _missing(row: Row, what: str, table: str) -> LakeError:
    return LakeError(
        f"{_place(row)}: {what} of its prompt is not in lake table {table} any more; materialise lake/{_table(row)} again"
    )


def _place(row: Row) -> str:
    names = ("dataset", "question_id", "paraphrase_id", "sample", "model", "method", "prompt")
    return f"lake table {_table(row)}, row {'/'.join(str(row[name]) for name in names if name in row)}"
