"""The passages retrieved for each question: lake table `retrieved_passages`.

What belongs here: running a retriever over the questions, judging what it found, recall. What does not: how a
retriever ranks (its own module), and what a model makes of a passage (`generation`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from dagster_project.core.fingerprints import code_version, fingerprint
from dagster_project.core.lake import Computed, Lake, Outcome
from dagster_project.core.retrieval.base import Hit, Query, Retriever
from dagster_project.core.retrieval.indexes import index_fingerprint, index_folder, read_passages
from dagster_project.core.retrieval.registry import load_retriever
from dagster_project.core.scoring.match import has_answer, has_answer_popqa
from dagster_project.core.study.study import Study

_QUESTION_COLUMNS = ["dataset", "question_id", "question", "subject_id", "gold_answers"]


def retrieve_passages(study: Study, lake: Lake, retriever: str, log: logging.Logger) -> Outcome:
    """Write a retriever's partition of `retrieved_passages`: up to `top_k` passages a question, ranks from 1.

    Notes: recall@1 and recall@k (a question without a passage counts as not found) and n. Errors:
    `IndexMissingError` where the retriever's index is not built over the present passages.
    """
    tool = load_retriever(retriever)
    stamp = fingerprint(
        retriever,
        study.top_k,
        lake.content("questions"),
        index_fingerprint(lake, tool),
        code_version(__name__),
    )

    def compute() -> Computed:
        return _compute(study, lake, retriever, tool, log)

    return lake.materialise("retrieved_passages", stamp, compute, partition=retriever)


def _compute(study: Study, lake: Lake, retriever: str, tool: Retriever, log: logging.Logger) -> Computed:
    folder = index_folder(study, lake, retriever, tool)
    passages = read_passages(lake)
    texts = {passage.passage_id: passage.text for passage in passages}
    questions = lake.read("questions", columns=_QUESTION_COLUMNS).to_pylist()
    queries = [
        Query(q["question_id"], q["question"], q["subject_id"], tuple(q["gold_answers"])) for q in questions
    ]
    found = tool.search(passages, folder, queries, study.top_k, log)
    rows = [
        row
        for question, hits in zip(questions, found, strict=True)
        for row in _rows(question, retriever, hits, texts)
    ]
    notes = recall(rows, len(questions), study.top_k)
    log.info("%s: %s", retriever, ", ".join(f"{name} {value:.4g}" for name, value in notes.items()))
    return Computed(rows, notes=notes)


def recall(rows: Sequence[Mapping[str, Any]], n_questions: int, k: int) -> dict[str, float]:
    """Share of the questions with an answer in the first passage, and in one of the first `k`."""
    first = {(row["dataset"], row["question_id"]) for row in rows if row["rank"] == 1 and row["has_answer"]}
    any_of = {(row["dataset"], row["question_id"]) for row in rows if row["rank"] <= k and row["has_answer"]}
    n = max(n_questions, 1)
    notes: dict[str, float] = {"recall_at_1": len(first) / n, f"recall_at_{k}": len(any_of) / n}
    return {**notes, "n_questions": n_questions}


def _rows(
    question: Mapping[str, Any], retriever: str, hits: Sequence[Hit], texts: Mapping[str, str]
) -> list[dict[str, Any]]:
    golds = question["gold_answers"]
    return [
        {
            "dataset": question["dataset"],
            "question_id": question["question_id"],
            "retriever": retriever,
            "rank": rank,
            "passage_id": hit.passage_id,
            "score": hit.score,
            "has_answer": has_answer(texts[hit.passage_id], golds),
            "has_answer_popqa": has_answer_popqa(texts[hit.passage_id], golds),
        }
        for rank, hit in enumerate(hits, start=1)
    ]
