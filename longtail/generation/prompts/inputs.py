"""The inputs of prompts, read from the lake: questions, wordings and passages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from longtail.errors import LakeError
from longtail.generation.prompts.build import (
    Passage,
    Passages,
    Question,
    text_apart,
    text_as_read,
)
from longtail.methods import Method
from longtail.storage.lake import Lake
from longtail.study.study import Study

_BATCH_ROWS = 8192


def read_questions(study: Study, lake: Lake) -> dict[str, list[Question]]:
    """The study's questions by dataset, in the order of the datasets' names and of question_id."""
    columns = ["dataset", "question_id", "relation", "question", "objects", "gold_answers"]
    by_dataset: dict[str, list[Question]] = {}
    wanted = {dataset.name for dataset in study.datasets}
    for row in records(lake.read("questions", columns=columns)):
        if row["dataset"] in wanted:
            by_dataset.setdefault(row["dataset"], []).append(
                Question(
                    row["question_id"],
                    row["relation"],
                    row["question"],
                    next(iter(row["objects"] or row["gold_answers"]), ""),
                    tuple(row["gold_answers"]),
                )
            )
    for questions in by_dataset.values():
        questions.sort(key=lambda question: question.question_id)
    return dict(sorted(by_dataset.items()))


def read_wordings(lake: Lake) -> dict[tuple[str, str], list[tuple[int, str]]]:
    """From (dataset, question_id) to the question's paraphrases as (paraphrase_id, text), sorted."""
    columns = ["dataset", "question_id", "paraphrase_id", "paraphrase"]
    by_question: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for row in records(lake.read("paraphrases", columns=columns)):
        by_question.setdefault((row["dataset"], row["question_id"]), []).append(
            (row["paraphrase_id"], row["paraphrase"])
        )
    for wordings in by_question.values():
        wordings.sort()
    return by_question


def read_candidates(lake: Lake) -> dict[tuple[str, str], list[str]]:
    """From (dataset, relation) to the candidates of its cloze queries, in the order in which they are scored."""
    by_relation: dict[tuple[str, str], list[str]] = {}
    for row in records(lake.read("candidates")):
        by_relation.setdefault((row["dataset"], row["relation"]), []).append(row["candidate"])
    return by_relation


def read_passages(lake: Lake, retriever: Method, n: int) -> dict[str, dict[str, list[Passage]]]:
    """Dataset → question_id → the retriever's `n` best passages, which the model reads apart from the question; with 0
    the first one, as the model reads it before the question.

    Errors: `LakeError` where lake table cited_passages lacks one that was retrieved.
    """
    by_dataset: dict[str, dict[str, list[Passage]]] = {}
    for row, passage in _read(lake, retriever, pc.field("paraphrase_id") == 0, n):
        by_dataset.setdefault(row["dataset"], {}).setdefault(row["question_id"], []).append(passage)
    return by_dataset


def first_passages(passages: Mapping[str, Mapping[str, Sequence[Passage]]]) -> dict[str, dict[str, Passage]]:
    """Dataset → question_id → the first passage."""
    return {
        dataset: {question_id: best[0] for question_id, best in by_question.items()}
        for dataset, by_question in passages.items()
    }


def read_passages_of_wordings(
    lake: Lake, retriever: Method, n: int
) -> dict[tuple[str, str, int], list[Passage]]:
    """From (dataset, question_id, paraphrase_id) to passages, as `read_passages` has them by question."""
    by_wording: dict[tuple[str, str, int], list[Passage]] = {}
    for row, passage in _read(lake, retriever, None, n):
        by_wording.setdefault((row["dataset"], row["question_id"], row["paraphrase_id"]), []).append(passage)
    return by_wording


def _read(
    lake: Lake, retriever: Method, only: pc.Expression | None, n: int
) -> Iterator[tuple[dict[str, Any], Passage]]:
    """Rows of what was retrieved with their passages, best first: `n` that are read apart, or with 0 the first."""
    columns = ["dataset", "question_id", "paraphrase_id", "rank", "passage_id"]
    first = pc.field("rank") <= max(n, 1)
    chosen = first if only is None else only & first
    best = lake.read("retrieved_passages", retriever.name, columns, chosen).sort_by("rank")
    texts = _texts_as_read(lake, retriever, best["passage_id"].unique().to_pylist(), are_apart=n > 0)
    for row in records(best):
        passage = texts.get(row["passage_id"])
        if passage is None:
            raise LakeError(
                f"lake table retrieved_passages, partition {retriever.name}: passage {row['passage_id']} is not in lake"
                " table cited_passages; materialise lake/cited_passages again"
            )
        yield row, passage


def _texts_as_read(
    lake: Lake, retriever: Method, passage_ids: list[str], *, are_apart: bool
) -> dict[str, Passage]:
    """From passage_id to the passage as the model reads it, where lake table cited_passages holds it."""
    only = pc.field("passage_id").isin(pa.array(passage_ids, pa.string()))
    table = lake.read("cited_passages", columns=["passage_id", "title", "text", "source"], only=only)
    passages = {}
    for row in records(table):
        text = text_as_read(row["text"], row["source"], retriever)
        passages[row["passage_id"]] = Passage(
            row["passage_id"], text_apart(row["title"], text) if are_apart else text
        )
    return passages


def read_generated_passages(lake: Lake, model_name: str) -> dict[str, dict[str, Passage]]:
    """Dataset → question_id → the background text that the model wrote, uncut."""
    columns = ["dataset", "question_id", "passage_id", "text"]
    by_dataset: dict[str, dict[str, Passage]] = {}
    for row in records(lake.read("generated_passages", model_name, columns)):
        by_dataset.setdefault(row["dataset"], {})[row["question_id"]] = Passage(
            row["passage_id"], row["text"]
        )
    return by_dataset


def passages_of_questions(
    questions: Iterable[Question], passages: Mapping[str, Passage], *, reference_demos: bool
) -> Passages:
    """Passages before questions and before demonstrations.

    With `reference_demos` a demonstration's passage is looked up as in the reference implementation: there
    retrieval results are kept under the questions' text as the dataset has it. A question that is asked is looked up
    by just that text, a demonstration by its text in lower case without question marks. A demonstration so finds a
    passage only where some question of the dataset is written in that way, and then it finds that question's passage
    (the last one's by question_id, if there are several). Questions made from templates begin with a capital, so
    their demonstrations have no passage.
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
