"""The passages retrieved for each question, how many of the nearest ones an approximate search finds, and the texts of
all that were found.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longtail.generation.prompts.build import read_wordings
from longtail.methods import CONDITION
from longtail.relations.cloze import search_text
from longtail.relations.relation import by_name, content_of
from longtail.retrieval.base import Context, Hit, Query, QueryKey, Results, Retriever, Written, load_retriever
from longtail.retrieval.dense import Dense
from longtail.retrieval.indexes import Index
from longtail.retrieval.stored_passages import open_passages
from longtail.scoring.match import has_answer, has_answer_popqa
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome, Streamed
from longtail.storage.lake_files import PART_ROWS
from longtail.study.study import Study
from longtail.tables import TABLES

_TABLE, _CITED = "retrieved_passages", "cited_passages"
MOST_COMPARED = 1_000
"""Questions on which an approximate search is compared with an exact one."""
_DEPTHS = (1, 5, 20)
_WRITTEN = ["retriever", "passage_id", "swapped_from", "swapped_title", "swapped_text"]
_ELSEWHERE = ["passage_id", "swapped_title", "swapped_text"]
_IS_FROM_ELSEWHERE = pc.field("swapped_text").is_valid() & pc.field("swapped_answers").is_null()
_QUESTION_COLUMNS = [
    "dataset", "question_id", "question", "subject_id", "gold_answers", "relation", "subject"
]  # fmt: skip


def retrieve_passages(study: Study, lake: Lake, retriever: str, log: logging.Logger) -> Outcome:
    """Write a retriever's partition of `retrieved_passages`: up to `top_k` passages a wording, ranks from 1.

    Notes: recall@1 and recall@k (a question without a passage counts as not found), n, and how many questions have no
    passage. Errors: `IndexMissingError` where the retriever's index is not built over the present passages, `LakeError`
    where the partition of a retriever whose results it reads is missing.
    """
    method, others = study.method(retriever), study.results_read_by(retriever)
    with_paraphrases, clozes = study.reads_paraphrases(retriever), _cloze_names(study)
    tool = load_retriever(method)
    index = Index.of(method, tool, lake.content("passages"), study.home.indexes)
    stamp = fingerprint(
        [retriever, study.top_k, index.folder.name, tool.search_version(), clozes],
        [lake.content("questions"), *(lake.content(_TABLE, other) for other in others)],
        study.seed if method.is_seeded else None,
        lake.content("paraphrases") if with_paraphrases else None,
        content_of(study.relations, "name", "statement") if method.passages == CONDITION else None,
        code_version(__name__),
    )

    def compute() -> Computed:
        return find_passages(
            tool, retriever, open_context(study, lake, index, others, log),
            list(read_queries(lake, clozes, with_paraphrases=with_paraphrases)), keeps_vectors=with_paraphrases,
        )  # fmt: skip

    outcome = lake.materialise(_TABLE, stamp, compute, partition=retriever)
    if outcome.notes:
        log.info(
            "%s: %s", retriever, ", ".join(f"{name} {value:.4g}" for name, value in outcome.notes.items())
        )
    return outcome


def _cloze_names(study: Study) -> list[str]:
    return [dataset.name for dataset in study.cloze_datasets]


def find_passages(
    tool: Retriever, name: str, context: Context, queries: Sequence[Query], *, keeps_vectors: bool = False
) -> Computed:
    """The rows of `retrieved_passages` that a retriever, called `name`, finds for queries, and its recall as notes."""
    brought = context.from_elsewhere
    results = [
        [replace(hit, written=hit.written or brought.get(hit.passage_id)) for hit in hits]
        for hits in tool.search(context, queries)
    ]
    texts = context.passages.texts({hit.passage_id for hits in results for hit in hits if not hit.written})
    texts |= {hit.passage_id: hit.written.text for hits in results for hit in hits if hit.written}
    notes: dict[str, float] = {}
    rows = _judge(queries, results, texts, keeps_vectors, context.k, notes)
    return Computed(Streamed.of(_TABLE, ({"retriever": name, **row} for row in rows)), notes=notes)


def _judge(
    queries: Sequence[Query],
    results: Sequence[Sequence[Hit]],
    texts: Mapping[str, str],
    keeps_vectors: bool,
    k: int,
    notes: dict[str, float],
) -> Iterator[dict[str, Any]]:
    """The hits as rows. At their end, `notes` says how many questions have an answer in the first passage and in the
    first `k`; paraphrases do not count."""
    n_questions = n_without = n_first = n_any = 0
    for query, hits in zip(queries, results, strict=True):
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
                "query_embedding": hit.query_vector if keeps_vectors and rank == 1 else None,
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


def open_context(
    study: Study, lake: Lake, index: Index, others: Collection[str], log: logging.Logger
) -> Context:
    """What a retriever of the study searches with; it reads the results of `others`. Errors: as `retrieve_passages`."""
    index.require()
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
    results: dict[QueryKey, list[str]] = {}
    rows = lake.read(_TABLE, retriever, columns).to_pylist()
    for row in sorted(rows, key=lambda row: row["rank"]):
        key = row["dataset"], row["question_id"], row["paraphrase_id"]
        results.setdefault(key, []).append(row["passage_id"])
    return results


def measure_search_recalls(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write lake table `search_recalls`: how many of the nearest passages an approximate search finds.

    No row unless a retriever of the study has an approximate search and has searched.

    Errors: `IndexMissingError` where an index is not built over the present passages.
    """
    searched = lake.partitions("retrieved_passages")
    tools = {
        name: tool
        for name in study.retrieval_methods
        if name in searched
        and isinstance(tool := load_retriever(study.method(name)), Dense)
        and tool.is_approximate
    }
    indexes = {
        name: Index.of(study.method(name), tool, lake.content("passages"), study.home.indexes)
        for name, tool in tools.items()
    }
    compared = [
        (lake.content("retrieved_passages", name), indexes[name].folder.name, tool.search_version())
        for name, tool in tools.items()
    ]
    questions = lake.content("questions") if tools else ""
    stamp = fingerprint(compared, questions, study.top_k, study.seed, code_version(__name__))

    def compute() -> Computed:
        rows = [_recall_rows(study, lake, tool, indexes[name], log) for name, tool in tools.items()]
        return Computed(list(chain.from_iterable(rows)))

    return lake.materialise("search_recalls", stamp, compute)


def _recall_rows(
    study: Study, lake: Lake, tool: Dense, index: Index, log: logging.Logger
) -> Iterator[dict[str, Any]]:
    retriever = index.method.name
    queries = list(read_queries(lake, _cloze_names(study), with_paraphrases=False))
    drawn = np.random.default_rng(study.seed).permutation(len(queries))[:MOST_COMPARED]
    asked = [queries[number] for number in np.sort(drawn)]
    results = read_results(lake, retriever)
    exact = tool.exact_hits(open_context(study, lake, index, (), log), asked)
    depths = sorted({depth for depth in (*_DEPTHS, study.top_k) if depth <= study.top_k})
    for query, hits in zip(asked, exact, strict=True):
        for depth in depths if hits else ():
            wanted = {hit.passage_id for hit in hits[:depth]}
            yield {
                "retriever": retriever,
                "dataset": query.dataset,
                "question_id": query.question_id,
                "k": depth,
                "n_exact": len(wanted),
                "n_found": len(wanted.intersection(results.get(query.key, ())[:depth])),
            }


def cite_passages(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write lake table `cited_passages`: what the study's retrievers found, in the columns and the order of `passages`,
    then what they wrote or brought.

    Errors: `LakeError` where table `passages` is missing or damaged.
    """
    retrievers = [name for name in lake.partitions(_TABLE) if name in study.retrieval_methods]
    contents = [lake.content(_TABLE, name) for name in retrievers]
    stamp = fingerprint(lake.content("passages"), contents, code_version(__name__))

    def compute() -> Computed:
        parts = [lake.read(_TABLE, name, ["passage_id"])["passage_id"] for name in retrievers]
        ids = pc.unique(pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string()))
        log.info("passages: %d were found by some retriever", len(ids))
        is_written = pc.field("swapped_text").is_valid()
        written: dict[str, dict[str, Any]] = {}
        for name in retrievers:
            for row in lake.read(_TABLE, name, _WRITTEN, is_written).to_pylist():
                written.setdefault(row["passage_id"], row)
        return Computed(Streamed(_cite(lake, ids, list(written.values()))))

    return lake.materialise(_CITED, stamp, compute)


def _cite(lake: Lake, ids: pa.Array, written: Sequence[Mapping[str, Any]]) -> Iterator[pa.Table]:
    """The passages with these ids, in tables of `PART_ROWS` rows or a few more; one batch of all is in memory."""
    originals: dict[str, dict[str, Any]] = {}
    needed = pa.array({row["swapped_from"] for row in written}, pa.string())
    waiting: list[pa.Table] = []
    for batch in lake.batches("passages"):
        waiting.append(batch.filter(pc.is_in(batch["passage_id"], ids)))
        if written:
            rows = batch.filter(pc.is_in(batch["passage_id"], needed)).to_pylist()
            originals |= {row["passage_id"]: row for row in rows}
        if sum(table.num_rows for table in waiting) >= PART_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
    if written:
        yield pa.Table.from_pylist([_citation_row(row, originals) for row in written], TABLES[_CITED].schema)


def _citation_row(row: Mapping[str, Any], originals: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """A passage that a retriever wrote or brought: its original with another text, or one of its own."""
    original = originals.get(row["swapped_from"]) or {"title": row["swapped_title"], "position": 0}
    return original | {
        "passage_id": row["passage_id"], "text": row["swapped_text"], "source": row["retriever"]
    }  # fmt: skip
