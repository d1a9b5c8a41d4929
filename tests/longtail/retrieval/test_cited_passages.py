"""Table cited_passages: those passages that a retriever of the study found, and nothing else."""

from __future__ import annotations

import dataclasses
import logging

from longtail.retrieval.retrieve import cite_passages, retrieve_passages
from longtail.storage.lake import Lake
from longtail.study.study import Study


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
