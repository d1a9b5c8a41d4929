"""Indexes that are built once, whole or not at all, and what retrieval writes."""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longtail.errors import IndexMissingError, LakeError, StudyError
from longtail.methods import METHODS
from longtail.retrieval.base import load_retriever
from longtail.retrieval.indexes import build_index
from longtail.retrieval.retrieve import retrieve_passages
from longtail.retrieval.stored_passages import open_passages
from longtail.scoring.match import has_answer, has_answer_popqa
from longtail.storage.checksums import RECORD
from longtail.storage.lake import Lake
from longtail.study.study import Study
from tests.small_disk import files_up_to
from tests.synced import renames_on_disk


def found(lake: Lake, retriever: str) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in lake.read("retrieved_passages", retriever).to_pylist():
        rows.setdefault(row["question_id"], []).append(row)
    return rows


def write_passages(lake: Lake, texts: list[tuple[str, int, str]]) -> None:
    rows = [
        {"passage_id": f"{e}-{p}", "entity_id": e, "title": e, "position": p, "text": t, "source": "sandbox"}
        for e, p, t in texts
    ]
    lake.write("passages", rows, fingerprint=str(texts))


def test_bm25_rows(rdf_study: Study, searchable: Lake, log: logging.Logger) -> None:
    build_index(rdf_study, searchable, "bm25", log)
    outcome = retrieve_passages(rdf_study, searchable, "bm25", log)
    questions = {row["question_id"]: row for row in searchable.read("questions").to_pylist()}
    texts = {row["passage_id"]: row["text"] for row in searchable.read("passages").to_pylist()}
    rows = found(searchable, "bm25")
    assert rows.keys() <= questions.keys()
    for question_id, own in rows.items():
        assert [row["rank"] for row in own] == list(range(1, len(own) + 1))
        assert len(own) <= rdf_study.top_k
        assert [row["score"] for row in own] == sorted((row["score"] for row in own), reverse=True)
        for row in own:
            golds = questions[question_id]["gold_answers"]
            assert row["has_answer"] == has_answer(texts[row["passage_id"]], golds)
            assert row["has_answer_popqa"] == has_answer_popqa(texts[row["passage_id"]], golds)
    # Namesakes: the question about one Ada Quill finds both, and both state an occupation.
    assert {row["passage_id"] for row in rows["Q2-P106"][:2]} == {"Q1-0", "Q2-0"}
    firsts = [own[0]["has_answer"] for own in rows.values()]
    anys = [any(row["has_answer"] for row in own) for own in rows.values()]
    assert outcome.notes["n_questions"] == len(questions)
    assert outcome.notes["recall_at_1"] == pytest.approx(sum(firsts) / len(questions))
    assert outcome.notes["recall_at_3"] == pytest.approx(sum(anys) / len(questions))


def test_second_call_builds_nothing(rdf_study: Study, searchable: Lake, log: logging.Logger) -> None:
    with renames_on_disk() as names:
        first = build_index(rdf_study, searchable, "bm25", log)
    assert names[-1] == first.path.name
    files = {file: file.stat().st_mtime_ns for file in first.path.iterdir()}
    second = build_index(rdf_study, searchable, "bm25", log)
    assert not first.was_current
    assert second.was_current
    assert (second.fingerprint, second.n_passages, second.n_bytes) == (
        first.fingerprint, first.n_passages, first.n_bytes,
    )  # fmt: skip
    assert {file: file.stat().st_mtime_ns for file in second.path.iterdir()} == files
    assert not retrieve_passages(rdf_study, searchable, "bm25", log).was_current
    assert retrieve_passages(rdf_study, searchable, "bm25", log).was_current


def test_missing_stale_and_damaged_indexes_are_told(
    rdf_study: Study, searchable: Lake, log: logging.Logger
) -> None:
    with pytest.raises(
        IndexMissingError, match=r"bm25 index is missing .* materialise asset indexes/bm25 first"
    ):
        retrieve_passages(rdf_study, searchable, "bm25", log)
    old = build_index(rdf_study, searchable, "bm25", log)
    write_passages(searchable, [("Q1", 0, "other")])
    with pytest.raises(IndexMissingError, match="is of other passages"):
        retrieve_passages(rdf_study, searchable, "bm25", log)
    new = build_index(rdf_study, searchable, "bm25", log)
    assert new.path != old.path
    assert not old.path.exists()
    data = next(new.path.rglob("data*"))
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(IndexMissingError, match=r"is damaged: 00000/data\S+ does not match its checksum"):
        retrieve_passages(rdf_study, searchable, "bm25", log)
    assert not build_index(rdf_study, searchable, "bm25", log).was_current
    retrieve_passages(rdf_study, searchable, "bm25", log)


def test_no_passages_no_index(rdf_study: Study, searchable: Lake, log: logging.Logger) -> None:
    searchable.write("passages", [], fingerprint="none")
    with pytest.raises(LakeError, match="no passage to search"):
        build_index(rdf_study, searchable, "bm25", log)


@pytest.mark.parametrize("retriever", [method.name for method in METHODS.values() if method.index])
def test_a_full_disk_leaves_nothing(
    rdf_study: Study, searchable: Lake, log: logging.Logger, retriever: str
) -> None:
    write_passages(searchable, [(f"Q{i}", 0, f"word{i}") for i in range(20)])
    open_passages(searchable, rdf_study.home.indexes, log)
    load_retriever(
        METHODS[retriever]
    )  # Python does not see that a compiled file is cut, and would read it for good
    with files_up_to(200), pytest.raises(LakeError, match="index could not be written"):
        build_index(rdf_study, searchable, retriever, log)
    files = [path for path in rdf_study.home.indexes.rglob("*") if path.is_file()]
    assert {path.relative_to(rdf_study.home.indexes).parts[0] for path in files} == {"passages"}
    with pytest.raises(IndexMissingError, match="missing"):
        retrieve_passages(rdf_study, searchable, retriever, log)
    assert not build_index(rdf_study, searchable, retriever, log).was_current


def test_an_index_that_lacks_its_last_bytes_is_not_kept(
    rdf_study: Study, searchable: Lake, log: logging.Logger
) -> None:
    """numpy gives no error where the end of an array, which it still buffers, finds no room on the disk."""
    write_passages(searchable, [("Q1", i, f"word{i % 5}") for i in range(2_000)])
    report = build_index(rdf_study, searchable, "bm25", log)
    largest = max(report.path.rglob("*.npy"), key=lambda file: file.stat().st_size)
    n_bytes = largest.stat().st_size
    for name in ("index.json", RECORD):
        (report.path / name).unlink()
    with files_up_to(n_bytes - 1), pytest.raises(LakeError, match="index could not be written"):
        build_index(rdf_study, searchable, "bm25", log)
    again = build_index(rdf_study, searchable, "bm25", log)
    assert (again.was_current, again.n_bytes) == (False, report.n_bytes)


def test_oracle_takes_the_first_passage_with_an_answer(
    rdf_study: Study, searchable: Lake, log: logging.Logger
) -> None:
    write_passages(
        searchable,
        [
            ("Q1", 10, "She was a weaver, and a painter and more."),
            ("Q1", 0, "Ada Quill is a person."),
            ("Q1", 2, "She worked as a weaver."),
            ("Q2", 0, "Ada Quill was no weaver."),  # the namesake's article holds no answer about her
            ("Q9", 0, "Łódź"),
        ],
    )
    outcome = retrieve_passages(rdf_study, searchable, "oracle", log)
    rows = found(searchable, "oracle")
    assert {question: [row["passage_id"] for row in own] for question, own in rows.items()} == {
        "Q1-P106": ["Q1-2"]
    }
    row = rows["Q1-P106"][0]
    assert (row["rank"], row["score"], row["has_answer"]) == (1, None, True)
    assert outcome.notes["recall_at_1"] == pytest.approx(1 / 5)


def test_top_k_is_the_study_s(
    make_study: Callable[[str], Study], rdf_study: Study, searchable: Lake, log: logging.Logger
) -> None:
    build_index(rdf_study, searchable, "bm25", log)
    retrieve_passages(rdf_study, searchable, "bm25", log)
    one = make_study(rdf_study.path.read_text(encoding="utf-8").replace("top_k: 3", "top_k: 1"))
    assert not retrieve_passages(one, searchable, "bm25", log).was_current
    assert {row["rank"] for rows in found(searchable, "bm25").values() for row in rows} == {1}


def test_every_retriever_is_found_by_its_record(
    rdf_study: Study, searchable: Lake, log: logging.Logger
) -> None:
    names = [name for name, method in METHODS.items() if not method.is_parametric]
    assert names == [
        "bm25",
        "dense",
        "elsewhere",
        "http",
        "hybrid",
        "irrelevant_cohesive",
        "oracle",
        "random",
        "relevant",
        "swapped",
    ]
    for name in names:
        module, _, attribute = str(METHODS[name].retriever).partition(":")
        assert isinstance(load_retriever(METHODS[name]), getattr(importlib.import_module(module), attribute))
    with pytest.raises(IndexMissingError, match="closed_book retrieves nothing"):
        load_retriever(METHODS["closed_book"])
    with pytest.raises(
        StudyError,
        match=r"method 'bm52' is not one of: .*bm25, dense, elsewhere, http, hybrid, irrelevant_cohesive, oracle",
    ):
        build_index(rdf_study, searchable, "bm52", log)
    with pytest.raises(IndexMissingError, match="oracle has no index"):
        build_index(rdf_study, searchable, "oracle", log)


def test_importing_retrieval_imports_no_heavy_library() -> None:
    modules = "retrieval.retrieve, longtail.retrieval.dense, longtail.embedding.lake_tables"
    code = f"import longtail.{modules}, sys; print({{'torch', 'faiss'}} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert output.stdout.strip() == "set()"
