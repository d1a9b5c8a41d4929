"""The computations of the main stages, as a notebook calls them: rows in, rows out; no lake, no study, no home."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dagster_project.core.methods import METHODS
from dagster_project.core.retrieval.base import Context, Query, Results, load_retriever
from dagster_project.core.retrieval.retrieve import find_passages
from dagster_project.core.retrieval.stored_passages import Passage, StoredPassages
from dagster_project.core.storage.lake import Computed, Streamed

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
    if isinstance(computed.rows, Streamed):
        return [row for table in computed.rows.tables for row in table.to_pylist()]
    return (
        computed.rows.to_pylist() if isinstance(computed.rows, pa.Table) else list(map(dict, computed.rows))
    )


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
