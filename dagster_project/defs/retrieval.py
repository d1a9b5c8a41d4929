"""Passages, their indexes, and the passages retrieved for each question."""

import logging
from collections.abc import Iterator, Sequence

import dagster as dg

from dagster_project.defs.ingest import entities, triples
from dagster_project.defs.questions import paraphrases, questions
from dagster_project.defs.resources import LOG, StudyResource, asset_key, chosen_study, retrievers
from dagster_project.defs.results import clear_errors, lake_asset, result, table_specs
from longtail.retrieval.collections import EXCLUDED_PAGES, write_beside
from longtail.retrieval.indexes import build_index
from longtail.retrieval.passages import build_passages
from longtail.retrieval.retrieve import cite_passages, measure_search_recalls, retrieve_passages
from longtail.storage.lake import Lake, Outcome
from longtail.study.study import Study

passages, _excluded_pages = (asset_key("lake", table) for table in ("passages", EXCLUDED_PAGES))


@dg.multi_asset(specs=table_specs(("passages", EXCLUDED_PAGES), "retrieval", deps=[triples, entities]))
def collected_pages(study: StudyResource) -> Iterator[dg.MaterializeResult]:
    """The passages, and the pages of collections that have none: one pass over the files gives both."""
    with clear_errors():
        outcome = build_passages(study.study, study.lake, LOG)
        yield result(study.lake, [outcome], passages)
        yield result(study.lake, [write_beside(study.lake, outcome)], _excluded_pages)


def _index_asset(retriever: str, library: str) -> dg.AssetsDefinition:
    @dg.asset(
        name=retriever,
        key_prefix=asset_key("indexes").path,
        group_name="retrieval",
        kinds={library},
        deps=[passages],
        description=f"The stored {retriever} index of all passages, reused until they change.",
    )
    def index(study: StudyResource) -> dg.MaterializeResult:
        with clear_errors():
            report = build_index(study.study, study.lake, retriever, LOG)
        return dg.MaterializeResult(
            metadata={
                "n_passages": report.n_passages,
                **report.notes,
                "was_current": report.was_current,
                "path": dg.MetadataValue.path(report.path),
            },
            data_version=dg.DataVersion(report.fingerprint),
        )

    return index


indexes = [
    _index_asset(name, library)
    for name in chosen_study().retrieval_methods
    if (library := chosen_study().method(name).index)
]


def _retrieve(study: Study, lake: Lake, keys: Sequence[str], log: logging.Logger) -> list[Outcome]:
    """A fusion comes after the retrievers that it reads."""
    ordered = sorted(keys, key=study.retrieval_methods.index)
    return [retrieve_passages(study, lake, key, log) for key in ordered]


retrieved_passages = lake_asset(
    "retrieved_passages",
    _retrieve,
    group_name="retrieval",
    partitions_def=retrievers,
    deps=[questions, paraphrases, passages, *indexes],
)
cited_passages = lake_asset(
    "cited_passages", cite_passages, group_name="citations", deps=[passages, retrieved_passages]
)
search_recalls = lake_asset(
    "search_recalls", measure_search_recalls, group_name="citations", deps=[questions, retrieved_passages]
)
