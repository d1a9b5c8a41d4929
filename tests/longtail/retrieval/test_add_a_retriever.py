"""A retriever of this module, added by one record: the study, the index and the lake take it as any other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import pytest

from longtail.methods import METHODS, RETRIEVAL, Method
from longtail.retrieval.base import Context, Hit, Query, Retriever
from longtail.retrieval.indexes import build_index
from longtail.retrieval.retrieve import retrieve_passages
from longtail.storage.lake import Lake
from longtail.study.study import Study
from longtail.study.tables import describe_study

TOY = Method(
    "toy",
    "the passage whose title stands in the question",
    RETRIEVAL,
    retriever=f"{__name__}:TitleRetriever",
    index="plain text",
)


class TitleRetriever(Retriever):
    """Finds the passages whose title stands in the question; its index is a file of titles."""

    def build(self, context: Context) -> None:
        titles = "\n".join(" ".join(passage.title.split()) for passage in context.passages)
        (context.folder / "titles.txt").write_text(titles, encoding="utf-8")

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        titles = (context.folder / "titles.txt").read_text(encoding="utf-8").split("\n")
        named = list(zip(titles, context.passages, strict=True))
        return [
            [Hit(passage.passage_id, 1.0) for title, passage in named if title in query.text][: context.k]
            for query in queries
        ]


@pytest.fixture
def study(rdf_study: Study, make_study: Callable[[str], Study], monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setitem(METHODS, TOY.name, TOY)
    text = rdf_study.path.read_text(encoding="utf-8")
    assert "bm25, dense, oracle" in text
    return make_study(text.replace("bm25, dense, oracle", "toy, hybrid"))


def test_it_is_indexed_and_searched_and_its_passages_are_in_the_lake(
    study: Study, searchable: Lake, log: logging.Logger
) -> None:
    report = build_index(study, searchable, "toy", log)
    assert [file.name for file in report.path.iterdir() if file.suffix == ".txt"] == ["titles.txt"]
    assert build_index(study, searchable, "toy", log).was_current
    for name in study.retrieval_methods:
        retrieve_passages(study, searchable, name, log)
    rows = searchable.read("retrieved_passages", "toy").to_pylist()
    assert [row["passage_id"] for row in rows if row["question_id"] == "Q1-P106"] == ["Q1-0", "Q2-0"]
    assert {row["retriever"] for row in rows} == {"toy"}
    fused = searchable.read("retrieved_passages", "hybrid").to_pylist()
    assert [row["passage_id"] for row in fused] == [row["passage_id"] for row in rows]


def test_lake_table_methods_takes_it_from_its_record(study: Study, searchable: Lake) -> None:
    describe_study(study, searchable, ["methods"])
    rows = {row["method"]: row for row in searchable.read("methods").to_pylist()}
    assert list(rows) == ["closed_book", "toy", "hybrid"]
    assert (rows["toy"]["kind"], rows["toy"]["has_index"], rows["toy"]["description"]) == (
        "retrieval", True, TOY.description,
    )  # fmt: skip
