"""Passages, their indexes, and the passages retrieved for each question."""

from collections.abc import Iterator

import dagster as dg

from dagster_project.defs.ingest import entities, triples
from dagster_project.defs.questions import paraphrases, questions
from dagster_project.defs.resources import LOG, StudyResource, chosen_study, retrievers
from dagster_project.defs.results import clear_errors, lake_asset, result
from longtail.retrieval.cited_passages import cite_passages
from longtail.retrieval.excluded_pages import TABLE, write_beside
from longtail.retrieval.indexes import build_index
from longtail.retrieval.passages import build_passages
from longtail.retrieval.retrieve import retrieve_passages
from longtail.retrieval.search_recalls import measure_search_recalls
from longtail.tables import TABLES

passages, _excluded_pages = (dg.AssetKey(["lake", table]) for table in ("passages", TABLE))


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            key,
            deps=[triples, entities],
            description=TABLES[key.path[-1]].grain,
            group_name="retrieval",
            kinds={"parquet"},
        )
        for key in (passages, _excluded_pages)
    ]
)
def collected_pages(study: StudyResource) -> Iterator[dg.MaterializeResult]:
    """The passages, and the pages of collections that have none: one pass over the files gives both."""
    with clear_errors():
        outcome = build_passages(study.study, study.lake, LOG)
        yield result(study.lake, [outcome], passages)
        yield result(study.lake, [write_beside(study.lake, outcome)], _excluded_pages)


def _index_asset(retriever: str, library: str) -> dg.AssetsDefinition:
    @dg.asset(
        name=retriever,
        key_prefix="indexes",
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


@dg.asset(
    key_prefix="lake",
    group_name="retrieval",
    kinds={"parquet"},
    partitions_def=retrievers,
    backfill_policy=dg.BackfillPolicy.single_run(),
    deps=[questions, paraphrases, passages, *indexes],
)
def retrieved_passages(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
    """One row per (dataset, question, wording, retriever, rank); a fusion comes after the retrievers that it reads."""
    keys = sorted(context.partition_keys, key=study.study.retrieval_methods.index)
    with clear_errors():
        return result(study.lake, [retrieve_passages(study.study, study.lake, key, LOG) for key in keys])


cited_passages = lake_asset(
    "cited_passages", cite_passages, group_name="citations", deps=[passages, retrieved_passages]
)
search_recalls = lake_asset(
    "search_recalls", measure_search_recalls, group_name="citations", deps=[questions, retrieved_passages]
)
