"""The computations of the main stages, as a notebook calls them: rows in, rows out; no lake, no study, no home."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from longtail.generation.backends.base import Decoding
from longtail.generation.engine.job import Job
from longtail.generation.engine.partition import generate_rows
from longtail.generation.engine.session import ModelSession
from longtail.generation.engine.task import Request
from longtail.generation.prompts.build import Passage as ReadPassage
from longtail.generation.prompts.build import Question
from longtail.generation.tasks.answers import Answers, plan_answers
from longtail.methods import METHODS
from longtail.retrieval.base import Context, Query, Results, load_retriever
from longtail.retrieval.retrieve import find_passages
from longtail.retrieval.stored_passages import Passage, StoredPassages
from longtail.storage.lake import Computed, Streamed
from longtail.study.models import Model
from longtail.study.prompts import Prompt

LOG = logging.getLogger("longtail-tests")
GOLDS = {"Q1-P36": ("Amaurot",), "Q2-P36": ("Lagado", "the flying city"), "Q3-P36": ("Oz",)}
PASSAGES = {
    "Q1-0": ("Q1", "Utopia is an island."),
    "Q1-1": ("Q1", "Its capital is Amaurot."),
    "Q2-0": ("Q2", "Laputa is ruled from Lagado."),
}


@pytest.fixture(autouse=True)
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A computation that looked for a home would fail."""
    monkeypatch.setenv("LONGTAIL_HOME", "/dev/null/no[home")


def rows_of(computed: Computed) -> list[dict[str, Any]]:
    tables = computed.rows.tables if isinstance(computed.rows, Streamed) else [computed.rows]
    return [row for table in tables for row in table.to_pylist()]


def retrieved(name: str, k: int, others: dict[str, Results]) -> Computed:
    passages = StoredPassages.of(
        Passage(passage_id, entity_id, "title", int(passage_id[-1]), text)
        for passage_id, (entity_id, text) in PASSAGES.items()
    )
    queries = [Query("d", key, f"Capital of {key}?", key[:2], golds) for key, golds in GOLDS.items()]
    context = Context(passages, Path(), Path(), LOG, k, others=others)
    return find_passages(load_retriever(METHODS[name]), name, context, queries)


def test_retrieved_passages() -> None:
    oracle = retrieved("oracle", 1, {})
    assert [(row["question_id"], row["rank"], row["passage_id"]) for row in rows_of(oracle)] == [
        ("Q1-P36", 1, "Q1-1"),
        ("Q2-P36", 1, "Q2-0"),
    ]
    assert oracle.notes == {"recall_at_1": 2 / 3, "n_questions": 3, "n_without_passage": 1}
    found = {("d", "Q1-P36", 0): ["Q1-0", "Q1-1"], ("d", "Q3-P36", 0): ["Q2-0"]}
    hybrid = retrieved("hybrid", 2, {"one": found, "two": {("d", "Q1-P36", 0): ["Q1-0"]}})
    assert [(row["passage_id"], row["rank"], row["has_answer"]) for row in rows_of(hybrid)] == [
        ("Q1-0", 1, False),
        ("Q1-1", 2, True),
        ("Q2-0", 1, False),
    ]
    assert {row["retriever"] for row in rows_of(retrieved("hybrid", 2, {"one": found}))} == {"hybrid"}
    assert hybrid.notes == {
        "recall_at_1": 0.0, "recall_at_2": 1 / 3, "n_questions": 3, "n_without_passage": 1
    }  # fmt: skip


class Kept(dict[bytes, Any]):
    """A row cache in memory."""

    def find(self, keys: Iterable[bytes]) -> dict[bytes, Any]:
        return {key: self[key] for key in keys if key in self}

    def store(self, rows: Mapping[bytes, Any]) -> Mapping[bytes, Any]:
        self.update(rows)
        return rows


def answered(cache: Kept) -> Computed:
    model = Model("tiny", "fake:passage", backend="fake")
    questions = [Question(key, None, f"Capital of {key}?", golds[0], golds) for key, golds in GOLDS.items()]
    passages = {"d": {key: ReadPassage("p1", "Amaurot") for key in list(GOLDS)[:2]}}
    plan = plan_answers(model, [Prompt("zero")], Request(Decoding(15)), {"d": questions}, passages, seed=0)
    with ModelSession(LOG) as session:
        job = Job(model, cache, session, "origin", "tiny", LOG)
        return generate_rows(
            Answers(), plan, job, 0, {"method": "oracle", "run_id": "r", "code_version": "c"}
        )


def test_answers() -> None:
    cache = Kept()
    first = answered(cache)
    columns = ("question_id", "method", "passage_id", "prediction", "is_correct")
    assert [tuple(row[name] for name in columns) for row in rows_of(first)] == [
        ("Q1-P36", "oracle", "p1", " Amaurot", True),
        ("Q2-P36", "oracle", "p1", " Amaurot", False),
    ]
    assert (first.notes["accuracy"], first.notes["without_passage"], first.notes["computed"]) == (0.5, 1, 2)
    again = answered(cache)
    assert (again.notes["computed"], again.notes["resumed"], len(cache)) == (0, 2, 2)
    assert rows_of(again) == rows_of(first)
    assert {row["is_reused"] for row in rows_of(again)} == {False}  # computed for the same fingerprint
