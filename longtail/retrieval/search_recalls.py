"""How many of the nearest passages an approximate search finds: lake table `search_recalls`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from longtail.retrieval.base import load_retriever
from longtail.retrieval.dense import Dense
from longtail.retrieval.indexes import Index
from longtail.retrieval.retrieve import open_context, read_queries, read_results
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome
from longtail.study.study import Study

QUESTIONS = 1_000
_DEPTHS = (1, 5, 20)


def measure_search_recalls(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write the table: no row unless a retriever of the study has an approximate search and has searched.

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
        (lake.content("retrieved_passages", name), indexes[name].folder.name, tool.query_version())
        for name, tool in tools.items()
    ]
    questions = lake.content("questions") if tools else ""
    stamp = fingerprint(compared, questions, study.top_k, study.seed, code_version(__name__))

    def compute() -> Computed:
        rows = [_rows(study, lake, tool, indexes[name], log) for name, tool in tools.items()]
        return Computed(list(chain.from_iterable(rows)))

    return lake.materialise("search_recalls", stamp, compute)


def _rows(
    study: Study, lake: Lake, tool: Dense, index: Index, log: logging.Logger
) -> Iterator[dict[str, Any]]:
    retriever, clozes = index.method.name, [dataset.name for dataset in study.cloze_datasets]
    queries = list(read_queries(lake, clozes, with_paraphrases=False))
    drawn = np.random.default_rng(study.seed).permutation(len(queries))[:QUESTIONS]
    asked = [queries[number] for number in np.sort(drawn)]
    found = read_results(lake, retriever)
    exact = tool.exact_hits(open_context(study, lake, index, log), asked)
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
                "n_found": len(wanted.intersection(found.get(query.key, ())[:depth])),
            }
