"""The passages retrieved for each question: lake table `retrieved_passages`.

What belongs here: running a retriever over the questions, judging the passages that it found, recall. What does not:
how a retriever ranks (its own module), and what a model makes of a passage (`generation`).
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dagster_project.core.generation.prompts.inputs import read_wordings
from dagster_project.core.questions.cloze import cloze_datasets
from dagster_project.core.relations.cloze import search_text
from dagster_project.core.retrieval.base import (
    Context,
    Hit,
    Query,
    QueryKey,
    Results,
    Retriever,
    load_retriever,
)
from dagster_project.core.retrieval.indexes import index_fingerprint, index_folder, searchable_passages
from dagster_project.core.scoring.match import has_answer, has_answer_popqa
from dagster_project.core.storage.fingerprints import code_version, fingerprint
from dagster_project.core.storage.lake import Computed, Lake, Outcome, Streamed
from dagster_project.core.study.study import Study

_TABLE = "retrieved_passages"
_CLOZE = "dagster_project.core.questions.cloze"  # only the names of datasets come from it; the fingerprint has them
_QUESTION_COLUMNS = ["dataset", "question_id", "question", "subject_id", "gold_answers", "relation"]


def retrieve_passages(study: Study, lake: Lake, retriever: str, log: logging.Logger) -> Outcome:
    """Write a retriever's partition of `retrieved_passages`: up to `top_k` passages a wording, ranks from 1.

    Notes: recall@1 and recall@k (a question without a passage counts as not found), n, and how many questions have no
    passage. Errors: `IndexMissingError` where the retriever's index is not built over the present passages, `LakeError`
    where the partition of a retriever whose results it reads is missing.
    """
    method = study.method(retriever)
    tool = load_retriever(method)
    needed = [lake.content(_TABLE, other) for other in study.results_read_by(retriever)]
    if method.is_seeded:
        needed.append(str(study.seed))
    if study.reads_paraphrases(retriever):
        needed.append(lake.content("paraphrases"))
    stamp = fingerprint(
        retriever,
        study.top_k,
        lake.content("questions"),
        index_fingerprint(lake, tool),
        tool.query_version(),
        tool.search_version(),
        needed,
        _cloze_names(study),
        code_version(__name__, without=[_CLOZE]),
    )

    def compute() -> Computed:
        return _compute(study, lake, retriever, tool, log)

    return lake.materialise(_TABLE, stamp, compute, partition=retriever)


def _compute(study: Study, lake: Lake, retriever: str, tool: Retriever, log: logging.Logger) -> Computed:
    context = open_context(study, lake, retriever, tool, log)
    queries = list(read_queries(study, lake, with_paraphrases=study.reads_paraphrases(retriever)))
    found, vectors = tool.search_with_vectors(context, queries)
    texts = context.passages.texts({hit.passage_id for hits in found for hit in hits})
    kept = vectors if study.reads_paraphrases(retriever) else None
    recalled = Recall(study.top_k)
    rows = recalled.counting(_rows(retriever, queries, found, texts, kept))
    notes = recalled.notes

    def streamed() -> Iterator[pa.Table]:
        yield from Streamed.of(_TABLE, rows).tables
        recalled.finish(sum(not query.paraphrase_id for query in queries))
        log.info("%s: %s", retriever, ", ".join(f"{name} {value:.4g}" for name, value in notes.items()))

    return Computed(Streamed(streamed()), notes=notes)


def open_context(study: Study, lake: Lake, retriever: str, tool: Retriever, log: logging.Logger) -> Context:
    """What a retriever of the study searches with. Errors: as `retrieve_passages`."""
    return Context(
        passages=searchable_passages(study, lake, log),
        folder=index_folder(study, lake, retriever, tool),
        cache=study.home.cache / "indexes",
        log=log,
        k=study.top_k,
        seed=study.seed,
        device=study.embeddings.device,
        others={other: read_results(lake, other) for other in study.results_read_by(retriever)},
    )


def read_queries(study: Study, lake: Lake, *, with_paraphrases: bool) -> Iterator[Query]:
    """Every question of the lake, each before its other wordings; a cloze query as `search_text` gives it."""
    wordings = read_wordings(lake) if with_paraphrases else {}
    clozes = _cloze_names(study)
    for question in lake.read("questions", columns=_QUESTION_COLUMNS).to_pylist():
        own = Query(
            question["dataset"],
            question["question_id"],
            _text(question["dataset"], question["question"], clozes),
            question["subject_id"],
            tuple(question["gold_answers"]),
            relation=question["relation"],
        )
        yield own
        for paraphrase_id, text in wordings.get((own.dataset, own.question_id), ()):
            if paraphrase_id:
                searched = _text(own.dataset, text, clozes)
                yield dataclasses.replace(own, text=searched, paraphrase_id=paraphrase_id)


def _cloze_names(study: Study) -> list[str]:
    return [dataset.name for dataset in cloze_datasets(study)]


def _text(dataset: str, wording: str, clozes: Collection[str]) -> str:
    return search_text(wording) if dataset in clozes else wording


def read_results(lake: Lake, retriever: str) -> Results:
    """The passages that a retriever found, as the lake holds them."""
    columns = ["dataset", "question_id", "paraphrase_id", "rank", "passage_id"]
    found: dict[QueryKey, list[str]] = {}
    rows = lake.read(_TABLE, retriever, columns).to_pylist()
    for row in sorted(rows, key=lambda row: row["rank"]):
        key = row["dataset"], row["question_id"], row["paraphrase_id"]
        found.setdefault(key, []).append(row["passage_id"])
    return found


class Recall:
    """Counts, while rows are written, the questions with a passage, and those with an answer in the first passage and
    in the first `k`."""

    def __init__(self, k: int) -> None:
        self.notes: dict[str, float] = {}
        self._k, self._found, self._first, self._any = k, 0, 0, set[QueryKey]()

    def counting(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """The rows as they are; those of paraphrases do not count."""
        for row in rows:
            self._found += row["rank"] == 1 and not row["paraphrase_id"]
            if row["has_answer"] and not row["paraphrase_id"] and row["rank"] <= self._k:
                self._first += row["rank"] == 1
                self._any.add((row["dataset"], row["question_id"], 0))
            yield row

    def finish(self, n_questions: int) -> None:
        """Set `notes`: the shares of `n_questions` questions, and their number with and without a passage."""
        n = max(n_questions, 1)
        self.notes |= {"recall_at_1": self._first / n, f"recall_at_{self._k}": len(self._any) / n}
        self.notes |= {"n_questions": n_questions, "n_without_passage": n_questions - self._found}


def _rows(
    retriever: str,
    queries: Sequence[Query],
    found: Sequence[Sequence[Hit]],
    texts: Mapping[str, str],
    vectors: np.ndarray | None,
) -> Iterator[dict[str, Any]]:
    for number, (query, hits) in enumerate(zip(queries, found, strict=True)):
        golds = query.gold_answers
        for rank, hit in enumerate(hits, start=1):
            yield {
                "dataset": query.dataset,
                "question_id": query.question_id,
                "paraphrase_id": query.paraphrase_id,
                "retriever": retriever,
                "rank": rank,
                "passage_id": hit.passage_id,
                "score": hit.score,
                "query_embedding": vectors[number] if vectors is not None and rank == 1 else None,
                "has_answer": has_answer(texts[hit.passage_id], golds),
                "has_answer_popqa": has_answer_popqa(texts[hit.passage_id], golds),
            }
