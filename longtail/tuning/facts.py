"""Which facts a setting trains on, which it is judged on, and the passages that it reads.

A fact is judged as a whole: all its patterns are trained on, or none. The vectors of passages stay as they are while the
retriever's queries are trained.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from longtail.errors import LakeError
from longtail.generation.prompts.build import (
    Question,
    read_candidates,
    read_questions,
    read_wordings,
    text_apart,
    text_as_read,
)
from longtail.methods import VERBALISED, Method
from longtail.relations.cloze import put_sentinel, search_text
from longtail.retrieval.base import load_retriever
from longtail.retrieval.dense import Flat, Nearest, nearest
from longtail.retrieval.indexes import Index
from longtail.retrieval.passage_vectors import finite_rows, read_vectors
from longtail.retrieval.stored_passages import open_passages
from longtail.storage.lake import Lake
from longtail.study.study import Study
from longtail.study.sweep import Setting, Sweep
from longtail.threads import thread_count

HELD_OUT, JUDGED = "held_out", "judged"


@dataclass(frozen=True)
class Query:
    """One pattern of a fact. `wording` still has [Y]."""

    question: Question
    relation: str
    paraphrase_id: int
    wording: str

    @property
    def text(self) -> str:
        """What the reader reads."""
        return put_sentinel(self.wording)

    @property
    def retriever_text(self) -> str:
        """What the retriever reads, as in the study's retrieval."""
        return search_text(self.wording)


@dataclass(frozen=True)
class Facts:
    """The queries of a setting: those it trains on, and those of each split that it is judged on.

    `candidates`: those of each relation.
    """

    training: Sequence[Query]
    judged: Mapping[str, Sequence[Query]]
    candidates: Mapping[str, Sequence[str]]


def read_facts(study: Study, lake: Lake, sweep: Sweep, setting: Setting) -> Facts:
    """The facts of the sweep's dataset, split by its seed.

    Errors: `LakeError` where a relation has no cloze query, or too few facts to hold one out.
    """
    wordings = read_wordings(lake)
    known = read_candidates(lake)
    candidates = {relation: names for (dataset, relation), names in known.items() if dataset == sweep.dataset}
    by_relation: dict[str, list[Question]] = {}
    for question in read_questions(study, lake).get(sweep.dataset, ()):
        if question.relation in candidates and (sweep.dataset, question.question_id) in wordings:
            by_relation.setdefault(question.relation, []).append(question)
    for relation in (*setting.relations, *sweep.judged_relations):
        if relation not in by_relation:
            raise LakeError(
                f"{study.path}: sweep: dataset {sweep.dataset} has no cloze queries of relation {relation}"
            )
        if relation in setting.relations and len(by_relation[relation]) < 2:
            raise LakeError(f"{study.path}: sweep: relation {relation} needs two facts, one to hold out")

    def queries(relation: str, questions: Sequence[Question]) -> Iterator[Query]:
        for question in questions:
            for number, wording in wordings[sweep.dataset, question.question_id]:
                yield Query(question, relation, number, wording)

    training: list[Query] = []
    judged: dict[str, list[Query]] = {HELD_OUT: [], JUDGED: []}
    for relation in setting.relations:
        shuffled = _shuffle(by_relation[relation], sweep.seed)
        n_held_out = math.ceil(sweep.held_out * len(shuffled))
        training += queries(relation, shuffled[n_held_out:])
        judged[HELD_OUT] += queries(relation, shuffled[: min(n_held_out, sweep.judged_facts)])
    for relation in sweep.judged_relations:
        judged[JUDGED] += queries(relation, _shuffle(by_relation[relation], sweep.seed)[: sweep.judged_facts])
    return Facts(training, judged, candidates)


def batch(facts: Facts, setting: Setting, seed: int, step: int) -> list[Query]:
    """The queries of a step, from 0. All are taken in a random order before any is taken again."""
    n = len(facts.training)
    queries = []
    for place in range(step * setting.batch_size, (step + 1) * setting.batch_size):
        order = np.random.default_rng([seed, place // n]).permutation(n)
        queries.append(facts.training[order[place % n]])
    return queries


def _shuffle(questions: Sequence[Question], seed: int) -> list[Question]:
    """In an order that depends on the seed and the questions' ids alone."""
    return sorted(
        questions, key=lambda question: hashlib.sha256(f"{seed}|{question.question_id}".encode()).hexdigest()
    )


class FixedIndex:
    """The stored index of a dense retriever. Its vectors are mapped, not read.

    Errors: `IndexMissingError` where the index is not built over the present passages.
    """

    def __init__(self, study: Study, lake: Lake, method: Method, log: logging.Logger) -> None:
        index = Index.of(method, load_retriever(method), lake.content("passages"), study.home.indexes)
        index.require()
        self._parts = list(read_vectors(index.folder))
        self._passages = open_passages(lake, study.home.indexes, log)
        self._method = method
        whole = lake.read("passages", columns=["passage_id"], only=pc.field("source") == VERBALISED)
        self._verbalised = frozenset(whole["passage_id"].to_pylist())

    def search(self, vectors: np.ndarray, k: int, device: str) -> np.ndarray:
        """The rows of the nearest passages, best first: (queries, k), or fewer columns where there are fewer passages.

        Errors: `LakeError` where a query has no finite vector.
        """
        if not finite_rows(vectors).all():
            raise LakeError(
                f"retriever {self._method.name}: a query's vector is not finite; its training failed"
            )
        import faiss

        faiss.omp_set_num_threads(thread_count())
        best = Nearest.none(len(vectors))
        for rows, part in self._parts:
            hits = nearest(Flat(part, device), vectors, k)
            best = best.join_with(Nearest(rows[hits.rows], hits.scores), k)
        return best.rows

    def texts(self, rows: Sequence[int]) -> list[str]:
        """The passages as a model reads them apart from the question."""
        passages = [self._passages[int(row)] for row in rows]
        sources = [VERBALISED if passage.passage_id in self._verbalised else "" for passage in passages]
        return [
            text_apart(passage.title, text_as_read(passage.text, source, self._method))
            for passage, source in zip(passages, sources, strict=True)
        ]

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """float32 vectors, one for each row, with the shape of `rows` before the dimensions."""
        starts = [part_rows[0] for part_rows, _ in self._parts if len(part_rows)]
        parts = [part for part in self._parts if len(part[0])]
        result = np.empty((rows.size, parts[0][1].shape[1]), dtype=np.float32)
        for place, row in enumerate(rows.ravel()):
            part_rows, vectors = parts[int(np.searchsorted(starts, row, side="right")) - 1]
            result[place] = vectors[int(np.searchsorted(part_rows, row))]
        return result.reshape(*rows.shape, -1)
