"""Reference questions, which no model answers: their entities, the popularity of these, and shares linked by text."""

import dagster as dg

from dagster_project.defs.ingest import entities
from dagster_project.defs.partitions import months
from dagster_project.defs.questions import questions
from dagster_project.defs.resources import LOG, StudyResource
from dagster_project.defs.results import clear_errors, result
from longtail.reference.linking import describe_linking, link_reference_questions
from longtail.reference.nq_open import import_reference_questions
from longtail.reference.page_views import ingest_reference_page_views


@dg.asset(key_prefix="lake", group_name="reference", kinds={"parquet"})
def reference_questions(study: StudyResource) -> dg.MaterializeResult:
    """One row per (reference dataset, question), from files such as NQ-open's; empty without any."""
    with clear_errors():
        return result(study.lake, [import_reference_questions(study.study, study.lake, LOG)])


@dg.asset(key_prefix="lake", group_name="reference", kinds={"parquet"}, deps=[reference_questions, entities])
def reference_mentions(study: StudyResource) -> dg.MaterializeResult:
    """One row per name in a reference question, with the entity or article that it is linked to."""
    with clear_errors():
        return result(study.lake, [link_reference_questions(study.study, study.lake, LOG)])


@dg.asset(
    key_prefix="lake",
    group_name="page_views",
    kinds={"parquet", "wikipedia"},
    partitions_def=months,
    backfill_policy=dg.BackfillPolicy.single_run(),
    deps=[reference_mentions],
)
def reference_page_views(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
    """One row per (article, month), for articles in reference questions that are no entity of the lake."""
    with clear_errors():
        keys = list(context.partition_keys)
        return result(study.lake, ingest_reference_page_views(study.study, study.lake, keys, LOG))


@dg.asset(
    key_prefix="lake",
    group_name="questions",
    kinds={"parquet"},
    deps=[questions, entities, reference_mentions],
)
def entity_linking(study: StudyResource) -> dg.MaterializeResult:
    """One row per (dataset, relation) whose questions were linked to entities by text: how many were linked."""
    with clear_errors():
        return result(study.lake, [describe_linking(study.study, study.lake, LOG)])
