"""The passages retrieved for each question: lake table `retrieved_passages`.

What belongs here: running a retriever over the questions, judging the passages that it found, recall. What does not:
how a retriever ranks (its own module), and what a model makes of a passage (`generation`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from dagster_project.core.fingerprints import code_version, fingerprint
from dagster_project.core.lake import Computed, Lake, Outcome
from dagster_project.core.retrieval.base import Context, Hit, Query, Results, Retriever, load_retriever
from dagster_project.core.retrieval.indexes import index_fingerprint, index_folder
from dagster_project.core.retrieval.stored_passages import open_passages
from dagster_project.core.scoring.match import has_answer, has_answer_popqa
from dagster_project.core.study.study import Study

_TABLE = "retrieved_passages"
_QUESTION_COLUMNS = ["dataset", "question_id", "question", "subject_id", "gold_answers"]


def retrieve_passages(study: Study, lake: Lake, retriever: str, log: logging.Logger) -> Outcome:
    """Write a retriever's partition of `retrieved_passages`: up to `top_k` passages a question, ranks from 1.

    Notes: recall@1 and recall@k (a question without a passage counts as not found) and n. Errors:
    `IndexMissingError` where the retriever's index is not built over the present passages, `LakeError` where the
    partition of a retriever that it fuses is missing.
    """
    method = study.method(retriever)
    tool = load_retriever(method)
    needed = [lake.content(_TABLE, other) for other in study.fused(retriever)]
    if method.is_seeded:
        needed.append(str(study.seed))
    stamp = fingerprint(
        retriever,
        study.top_k,
        lake.content("questions"),
        index_fingerprint(lake, tool),
        needed,
        code_version(__name__),
    )

    def compute() -> Computed:
        return _compute(study, lake, retriever, tool, log)

    return lake.materialise(_TABLE, stamp, compute, partition=retriever)


def _compute(study: Study, lake: Lake, retriever: str, tool: Retriever, log: logging.Logger) -> Computed:
    context = Context(
        passages=open_passages(study, lake, log),
        folder=index_folder(study, lake, retriever, tool),
        cache=study.home.cache / "indexes",
        log=log,
        k=study.top_k,
        seed=study.seed,
        device=study.embeddings.device,
        others={other: _results(lake, other) for other in study.fused(retriever)},
    )
    questions = lake.read("questions", columns=_QUESTION_COLUMNS).to_pylist()
    queries = [
        Query(q["dataset"], q["question_id"], q["question"], q["subject_id"], tuple(q["gold_answers"]))
        for q in questions
    ]
    found = tool.search(context, queries)
    texts = context.passages.texts({hit.passage_id for hits in found for hit in hits})
    rows = [
        row
        for question, hits in zip(questions, found, strict=True)
        for row in _rows(question, retriever, hits, texts)
    ]
    notes = recall(rows, len(questions), study.top_k)
    log.info("%s: %s", retriever, ", ".join(f"{name} {value:.4g}" for name, value in notes.items()))
    return Computed(rows, notes=notes)


def _results(lake: Lake, retriever: str) -> Results:
    """The passages that a retriever found, as the lake holds them."""
    columns = ["dataset", "question_id", "rank", "passage_id"]
    found: dict[tuple[str, str], list[str]] = {}
    rows = lake.read(_TABLE, retriever, columns).to_pylist()
    for row in sorted(rows, key=lambda row: row["rank"]):
        found.setdefault((row["dataset"], row["question_id"]), []).append(row["passage_id"])
    return found


def recall(rows: Sequence[Mapping[str, Any]], n_questions: int, k: int) -> dict[str, float]:
    """The share of questions with an answer in the first passage, and in one of the first `k` passages."""
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
