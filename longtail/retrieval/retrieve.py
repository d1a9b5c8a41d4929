"""The passages retrieved for each question: lake table `retrieved_passages`."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from longtail.generation.prompts.build import read_wordings
from longtail.methods import CONDITION
from longtail.relations.cloze import search_text
from longtail.relations.relation import by_name, content_of
from longtail.retrieval.base import (
    Context,
    Hit,
    Query,
    QueryKey,
    Results,
    Retriever,
    Written,
    load_retriever,
)
from longtail.retrieval.indexes import Index
from longtail.retrieval.stored_passages import open_passages
from longtail.scoring.match import has_answer, has_answer_popqa
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome, Streamed
from longtail.study.study import Study

_TABLE = "retrieved_passages"
_ELSEWHERE = ["passage_id", "swapped_title", "swapped_text"]
_IS_FROM_ELSEWHERE = pc.field("swapped_text").is_valid() & pc.field("swapped_answers").is_null()
_QUESTION_COLUMNS = [
    "dataset",
    "question_id",
    "question",
    "subject_id",
    "gold_answers",
    "relation",
    "subject",
]


def retrieve_passages(study: Study, lake: Lake, retriever: str, log: logging.Logger) -> Outcome:
    """Write a retriever's partition of `retrieved_passages`: up to `top_k` passages a wording, ranks from 1.

    Notes: recall@1 and recall@k (a question without a passage counts as not found), n, and how many questions have no
    passage. Errors: `IndexMissingError` where the retriever's index is not built over the present passages, `LakeError`
    where the partition of a retriever whose results it reads is missing.
    """
    method, indexes = study.method(retriever), study.home.indexes
    with_paraphrases, others = study.reads_paraphrases(retriever), study.results_read_by(retriever)
    clozes = [dataset.name for dataset in study.cloze_datasets]
    tool = load_retriever(method)
    versions = [tool.query_version(), tool.search_version()]
    needed = [lake.content("questions"), *(lake.content(_TABLE, other) for other in others)]
    if method.is_seeded:
        needed.append(str(study.seed))
    if with_paraphrases:
        needed.append(lake.content("paraphrases"))
    if method.passages == CONDITION:
        needed.append(fingerprint(content_of(study.relations, "name", "statement")))
    index = Index.of(method, tool, lake.content("passages"), indexes)
    made_of = [retriever, study.top_k, index.folder.name, versions, needed, clozes]
    stamp = fingerprint(*made_of, code_version(__name__))

    def compute() -> Computed:
        context = open_context(study, lake, index, log)
        queries = list(read_queries(lake, clozes, with_paraphrases=with_paraphrases))
        return find_passages(tool, retriever, context, queries, keeps_vectors=with_paraphrases)

    outcome = lake.materialise(_TABLE, stamp, compute, partition=retriever)
    if outcome.notes:
        log.info(
            "%s: %s", retriever, ", ".join(f"{name} {value:.4g}" for name, value in outcome.notes.items())
        )
    return outcome


def find_passages(
    tool: Retriever, name: str, context: Context, queries: Sequence[Query], *, keeps_vectors: bool = False
) -> Computed:
    """The rows of `retrieved_passages` that a retriever, called `name`, finds for queries, and its recall as notes."""
    results, vectors = tool.search_with_vectors(context, queries)
    brought = context.from_elsewhere
    found = [
        [replace(hit, written=hit.written or brought.get(hit.passage_id)) for hit in hits] for hits in results
    ]
    texts = context.passages.texts({hit.passage_id for hits in found for hit in hits if not hit.written})
    texts |= {hit.passage_id: hit.written.text for hits in found for hit in hits if hit.written}
    notes: dict[str, float] = {}
    rows = _judge(queries, found, texts, vectors if keeps_vectors else None, context.k, notes)
    return Computed(Streamed.of(_TABLE, ({"retriever": name, **row} for row in rows)), notes=notes)


def _judge(
    queries: Sequence[Query],
    found: Sequence[Sequence[Hit]],
    texts: Mapping[str, str],
    vectors: np.ndarray | None,
    k: int,
    notes: dict[str, float],
) -> Iterator[dict[str, Any]]:
    """The hits as rows. At their end, `notes` says how many questions have an answer in the first passage and in the
    first `k`; paraphrases do not count."""
    n_questions = n_without = n_first = n_any = 0
    for number, (query, hits) in enumerate(zip(queries, found, strict=True)):
        contain = [has_answer(texts[hit.passage_id], query.gold_answers) for hit in hits]
        if not query.paraphrase_id:
            n_questions, n_without = n_questions + 1, n_without + (not hits)
            n_first, n_any = n_first + any(contain[:1]), n_any + any(contain[:k])
        for rank, (hit, contains) in enumerate(zip(hits, contain, strict=True), start=1):
            yield {
                "dataset": query.dataset,
                "question_id": query.question_id,
                "paraphrase_id": query.paraphrase_id,
                "rank": rank,
                "passage_id": hit.passage_id,
                "score": hit.score,
                **_columns_of(hit.written),
                "query_embedding": vectors[number] if vectors is not None and rank == 1 else None,
                "has_answer": contains,
                "has_answer_popqa": has_answer_popqa(texts[hit.passage_id], query.gold_answers),
            }
    n = max(n_questions, 1)
    notes |= {"recall_at_1": n_first / n, f"recall_at_{k}": n_any / n}
    notes |= {"n_questions": n_questions, "n_without_passage": n_without}


def _columns_of(written: Written | None) -> dict[str, Any]:
    """The columns of a passage that is not among the study's."""
    return {
        "swapped_from": written and written.original,
        "swapped_title": written and written.title,
        "swapped_text": written and written.text,
        "swapped_answers": list(written.answers) if written and written.answers else None,
    }


def open_context(study: Study, lake: Lake, index: Index, log: logging.Logger) -> Context:
    """What a retriever of the study searches with. Errors: as `retrieve_passages`."""
    index.require()
    others = study.results_read_by(index.method.name)
    return Context(
        passages=open_passages(lake, study.home.indexes, log),
        folder=index.folder,
        cache=study.home.cache / "indexes",
        log=log,
        k=study.top_k,
        seed=study.seed,
        device=study.embeddings.device,
        others={other: read_results(lake, other) for other in others},
        from_elsewhere={
            row["passage_id"]: Written(row["swapped_text"], None, (), row["swapped_title"])
            for other in others
            for row in lake.read(_TABLE, other, _ELSEWHERE, _IS_FROM_ELSEWHERE).to_pylist()
        },
        relations=by_name(study.relations),
    )


def read_queries(lake: Lake, clozes: Collection[str], *, with_paraphrases: bool) -> Iterator[Query]:
    """Every question of the lake, each before its other wordings; those of datasets `clozes` as `search_text`."""
    wordings = read_wordings(lake) if with_paraphrases else {}
    for question in lake.read("questions", columns=_QUESTION_COLUMNS).to_pylist():
        key = question["dataset"], question["question_id"]
        others = [(number, text) for number, text in wordings.get(key, ()) if number]
        for number, text in ((0, question["question"]), *others):
            yield Query(
                *key,
                search_text(text) if question["dataset"] in clozes else text,
                question["subject_id"],
                tuple(question["gold_answers"]),
                number,
                question["relation"],
                question["subject"],
            )


def read_results(lake: Lake, retriever: str) -> Results:
    """The passages that a retriever found, as the lake holds them."""
    columns = ["dataset", "question_id", "paraphrase_id", "rank", "passage_id"]
    found: dict[QueryKey, list[str]] = {}
    rows = lake.read(_TABLE, retriever, columns).to_pylist()
    for row in sorted(rows, key=lambda row: row["rank"]):
        key = row["dataset"], row["question_id"], row["paraphrase_id"]
        found.setdefault(key, []).append(row["passage_id"])
    return found
