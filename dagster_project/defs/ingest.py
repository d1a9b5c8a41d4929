"""The study as tables; facts and popularity from the sandbox, an RDF file, Wikimedia or imported files."""

import datetime
from collections.abc import Iterator

import dagster as dg

from dagster_project.defs.resources import LOG, StudyResource, chosen_study, months
from dagster_project.defs.results import clear_errors, lake_asset, result
from longtail.imports.datasets import import_entities, import_popularity, import_triples
from longtail.questions.frequencies import measure_frequencies
from longtail.questions.sampling import sample_facts
from longtail.study.tables import STUDY_TABLES, describe_study
from longtail.tables import TABLES
from longtail.wikimedia.ingest import ingest_entities, ingest_triples
from longtail.wikimedia.page_views import ingest_page_view_months


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            ["lake", name],
            description=TABLES[name].grain,
            group_name="study",
            kinds={"parquet", "yaml"},
        )
        for name in STUDY_TABLES
    ]
)
def study_tables(study: StudyResource) -> Iterator[dg.MaterializeResult]:
    """Models, methods, prompts, datasets and the popularity window, as named in study.yaml."""
    with clear_errors():
        for outcome in describe_study(study.study, study.lake):
            yield result(study.lake, [outcome], dg.AssetKey(["lake", outcome.table]))


_A_MONTH = datetime.timedelta(days=35)
"""From one run of schedule monthly_popularity to the next, with some days for a service that is late."""


def _follows_the_newest() -> bool:
    popularity = chosen_study().popularity
    return popularity.measure == "page_views" and popularity.last_month is None


@dg.asset(key_prefix="lake", group_name="ingest", kinds={"parquet", "wikidata"})
def triples(study: StudyResource) -> dg.MaterializeResult:
    """One row per (subject, property, object): the facts of the study's relations."""
    with clear_errors():
        outcome = ingest_triples(study.study, study.lake, LOG)
        return result(study.lake, [outcome, *import_triples(study.study, study.lake, LOG)])


@dg.asset(key_prefix="lake", group_name="ingest", kinds={"parquet", "wikidata"}, deps=[triples])
def entities(study: StudyResource) -> dg.MaterializeResult:
    """One row per entity: labels, aliases, article and site links of every subject and object."""
    with clear_errors():
        outcome = ingest_entities(study.study, study.lake, LOG)
        return result(study.lake, [outcome, *import_entities(study.study, study.lake, LOG)])


imported_popularity = lake_asset("imported_popularity", import_popularity, group_name="ingest")
subject_frequencies = lake_asset(
    "subject_frequencies", measure_frequencies, group_name="ingest", deps=[triples, entities]
)
candidate_triples = lake_asset(
    "candidate_triples", sample_facts, group_name="ingest", deps=[triples, entities, subject_frequencies]
)


@dg.asset(
    key_prefix="lake",
    group_name="page_views",
    kinds={"parquet", "wikipedia"},
    partitions_def=months,
    backfill_policy=dg.BackfillPolicy.single_run(),
    deps=[entities, candidate_triples],
    freshness_policy=dg.FreshnessPolicy.time_window(fail_window=_A_MONTH) if _follows_the_newest() else None,
)
def page_views(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
    """One row per (entity with an article, month) that the study asks about: page views; missing is not zero."""
    with clear_errors():
        outcomes = ingest_page_view_months(study.study, study.lake, list(context.partition_keys), LOG)
        return result(study.lake, outcomes)
