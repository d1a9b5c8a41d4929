"""Facts and popularity: from the sandbox, an RDF file or Wikimedia through the same clients, or from imported files."""

import datetime

import dagster as dg

from dagster_project.defs.partitions import chosen_study, months
from dagster_project.defs.resources import LOG, StudyResource
from dagster_project.defs.results import clear_errors, result
from longtail.imports.facts import import_entities, import_popularity, import_triples
from longtail.questions.frequencies import measure_frequencies
from longtail.questions.sampling import sample_facts
from longtail.wikimedia.ingest import ingest_entities, ingest_triples
from longtail.wikimedia.page_views import ingest_page_view_months

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


@dg.asset(key_prefix="lake", group_name="ingest", kinds={"parquet"})
def imported_popularity(study: StudyResource) -> dg.MaterializeResult:
    """One row per entity: the popularity in imported datasets; empty without any."""
    with clear_errors():
        return result(study.lake, [import_popularity(study.study, study.lake, LOG)])


@dg.asset(key_prefix="lake", group_name="ingest", kinds={"parquet"}, deps=[triples, entities])
def subject_frequencies(study: StudyResource) -> dg.MaterializeResult:
    """One row per subject: its frequency in texts or its popularity; empty if the study samples no facts."""
    with clear_errors():
        return result(study.lake, [measure_frequencies(study.study, study.lake, LOG)])


@dg.asset(
    key_prefix="lake", group_name="ingest", kinds={"parquet"}, deps=[triples, entities, subject_frequencies]
)
def candidate_triples(study: StudyResource) -> dg.MaterializeResult:
    """One row per fact: whether the sample keeps it, or why not; empty if the study samples no facts."""
    with clear_errors():
        return result(study.lake, [sample_facts(study.study, study.lake, LOG)])


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
