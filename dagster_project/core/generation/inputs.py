"""What prompts are made from, read out of the lake: questions, wordings and passages.

What belongs here: reading them as records that many rows share. What does not: which rows there are (`plan`), and
putting a prompt together (`prompts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dagster_project.core.errors import LakeError
from dagster_project.core.generation.prompts.build import Passage, Passages, Question, text_as_read
from dagster_project.core.lake import Lake
from dagster_project.core.study.study import Study

_BATCH_ROWS = 8192


def read_questions(
    study: Study, lake: Lake, question_ids: Iterable[str] | None = None
) -> dict[str, list[Question]]:
    """The study's questions by dataset, sorted by question_id; only those of `question_ids`, where given."""
    columns = ["dataset", "question_id", "relation", "question", "objects", "gold_answers"]
    table = lake.read("questions", columns=columns, only=_among("question_id", question_ids))
    found: dict[str, list[Question]] = {}
    wanted = {dataset.name for dataset in study.datasets}
    for row in records(table):
        if row["dataset"] in wanted:
            found.setdefault(row["dataset"], []).append(
                Question(
                    row["question_id"],
                    row["relation"],
                    row["question"],
                    next(iter(row["objects"]), ""),
                    tuple(row["gold_answers"]),
                )
            )
    for questions in found.values():
        questions.sort(key=lambda question: question.question_id)
    return found


def read_wordings(
    lake: Lake, question_ids: Iterable[str] | None = None
) -> dict[tuple[str, str], list[tuple[int, str]]]:
    """(dataset, question_id) → its paraphrases as (paraphrase_id, text), sorted."""
    columns = ["dataset", "question_id", "paraphrase_id", "paraphrase"]
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for row in records(lake.read("paraphrases", columns=columns, only=_among("question_id", question_ids))):
        found.setdefault((row["dataset"], row["question_id"]), []).append(
            (row["paraphrase_id"], row["paraphrase"])
        )
    for wordings in found.values():
        wordings.sort()
    return found


def read_first_passages(lake: Lake, retriever: str) -> dict[str, dict[str, Passage]]:
    """Dataset → question_id → the retriever's best passage, as the model reads it.

    Errors: `LakeError` where lake table passages lacks one that was retrieved.
    """
    columns = ["dataset", "question_id", "passage_id"]
    best = lake.read("retrieved_passages", retriever, columns, pc.field("rank") == 1)
    by_id = read_passages(lake, retriever, best["passage_id"].unique().to_pylist())
    found: dict[str, dict[str, Passage]] = {}
    for row in records(best):
        passage = by_id.get(row["passage_id"])
        if passage is None:
            raise LakeError(
                f"lake table retrieved_passages, partition {retriever}: passage {row['passage_id']} is not in lake"
                " table passages; materialise lake/retrieved_passages again"
            )
        found.setdefault(row["dataset"], {})[row["question_id"]] = passage
    return found


def read_passages(lake: Lake, retriever: str, passage_ids: Iterable[str]) -> dict[str, Passage]:
    """passage_id → passage as the model reads it, of those that lake table passages holds."""
    columns = ["passage_id", "text", "source"]
    table = lake.read("passages", columns=columns, only=_among("passage_id", passage_ids))
    return {
        row["passage_id"]: Passage(row["passage_id"], text_as_read(row["text"], row["source"], retriever))
        for row in records(table)
    }


def read_generated_passages(
    lake: Lake, model_name: str, passage_ids: Iterable[str] | None = None
) -> dict[str, dict[str, Passage]]:
    """Dataset → question_id → the background text that the model wrote, uncut; of `passage_ids`, where given."""
    columns = ["dataset", "question_id", "passage_id", "text"]
    found: dict[str, dict[str, Passage]] = {}
    table = lake.read("generated_passages", model_name, columns, _among("passage_id", passage_ids))
    for row in records(table):
        found.setdefault(row["dataset"], {})[row["question_id"]] = Passage(row["passage_id"], row["text"])
    return found


def passages_of_questions(
    questions: Iterable[Question], passages: Mapping[str, Passage], *, reference_demos: bool
) -> Passages:
    """Passages before questions and before demonstrations.

    With `reference_demos` a demonstration's passage is looked up as in the reference implementation: there
    retrieval results are kept under the questions' text as the dataset has it, a question that is asked is looked up
    by just that text, a demonstration by its text in lower case without question marks. It so finds a passage only
    where some question of the dataset is written in that way, and then that question's (of several the last by
    question_id). Questions made from templates begin with a capital: their demonstrations stand bare.
    """
    if not reference_demos:
        return Passages(passages, passages)
    listed = list(questions)
    by_text = {
        question.question: passages[question.question_id]
        for question in listed
        if question.question_id in passages
    }
    looked_up = {
        question.question_id: by_text.get(question.question.replace("?", "").lower()) for question in listed
    }
    return Passages(passages, {key: passage for key, passage in looked_up.items() if passage is not None})


def records(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of a table, few at a time as Python objects."""
    for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
        yield from batch.to_pylist()


def _among(column: str, values: Iterable[str] | None) -> pc.Expression | None:
    return None if values is None else pc.field(column).isin(pa.array(sorted(set(values)), pa.string()))
