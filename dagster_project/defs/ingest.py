"""The study as tables; facts and popularity from the sandbox, an RDF file, Wikimedia or imported files."""

import datetime
from collections.abc import Iterator

import dagster as dg

from dagster_project.defs.resources import StudyResource, asset_key, chosen_study, months
from dagster_project.defs.results import clear_errors, lake_asset, result, table_specs
from longtail.imports.datasets import import_entities, import_popularity, import_triples
from longtail.questions.sampling import measure_frequencies, sample_facts
from longtail.study.tables import STUDY_TABLES, describe_study
from longtail.wikimedia.ingest import ingest_entities, ingest_triples
from longtail.wikimedia.page_views import ingest_page_view_months


@dg.multi_asset(specs=table_specs(STUDY_TABLES, "study", "yaml"))
def study_tables(study: StudyResource) -> Iterator[dg.MaterializeResult]:
    """Models, methods, prompts, datasets and the popularity window, as named in study.yaml."""
    with clear_errors():
        for outcome in describe_study(study.study, study.lake):
            yield result(study.lake, [outcome], asset_key("lake", outcome.table))


_A_MONTH = datetime.timedelta(days=35)
"""From one run of schedule monthly_popularity to the next, with some days for a service that is late."""


_POPULARITY = chosen_study().popularity
_FOLLOWS_THE_NEWEST = _POPULARITY.measure == "page_views" and _POPULARITY.last_month is None

triples = lake_asset(
    "triples", lambda *of: [ingest_triples(*of), *import_triples(*of)], "wikidata", group_name="ingest"
)
entities = lake_asset(
    "entities",
    lambda *of: [ingest_entities(*of), *import_entities(*of)],
    "wikidata",
    group_name="ingest",
    deps=[triples],
)
imported_popularity = lake_asset("imported_popularity", import_popularity, group_name="ingest")
subject_frequencies = lake_asset(
    "subject_frequencies", measure_frequencies, group_name="ingest", deps=[triples, entities]
)
candidate_triples = lake_asset(
    "candidate_triples", sample_facts, group_name="ingest", deps=[triples, entities, subject_frequencies]
)
page_views = lake_asset(
    "page_views",
    ingest_page_view_months,
    "wikipedia",
    group_name="page_views",
    partitions_def=months,
    deps=[entities, candidate_triples],
    freshness_policy=dg.FreshnessPolicy.time_window(fail_window=_A_MONTH) if _FOLLOWS_THE_NEWEST else None,
)
