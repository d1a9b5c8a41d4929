"""Grounding: the data portrait of the corpus, and what of each generation stands in it."""

import dagster as dg

from dagster_project.defs.generation import answers, generated_passages, grounded_generations
from dagster_project.defs.partitions import models
from dagster_project.defs.questions import questions
from dagster_project.defs.resources import LOG, StudyResource
from dagster_project.defs.results import clear_errors, result
from dagster_project.defs.retrieval import passages
from longtail.grounding.cooccurrences import count_cooccurrences
from longtail.grounding.corpus import build_portrait
from longtail.grounding.quip import score_generations
from longtail.tables import TABLES


@dg.asset(key_prefix="indexes", group_name="grounding", kinds={"numba"}, deps=[passages])
def portrait(study: StudyResource) -> dg.MaterializeResult:
    """The data portrait of the corpus: a Bloom filter of its 25-grams, reused until the passages change."""
    with clear_errors():
        report = build_portrait(study.study, study.lake, LOG)
    return dg.MaterializeResult(
        metadata={
            "n_grams": report.n_grams,
            "n_bytes": report.n_bytes,
            "planned_rate": report.planned_rate,
            "observed_rate": report.observed_rate,
            "was_current": report.was_current,
            "path": dg.MetadataValue.path(report.path),
        },
        data_version=dg.DataVersion(report.fingerprint),
    )


@dg.asset(
    key_prefix="lake",
    group_name="grounding",
    kinds={"parquet"},
    deps=[questions, passages],
    description=TABLES["entity_cooccurrences"].grain,
)
def entity_cooccurrences(study: StudyResource) -> dg.MaterializeResult:
    with clear_errors():
        return result(study.lake, [count_cooccurrences(study.study, study.lake, LOG)])


@dg.asset(
    key_prefix="lake",
    group_name="grounding",
    kinds={"parquet", "numba"},
    partitions_def=models,
    backfill_policy=dg.BackfillPolicy.single_run(),
    deps=[
        portrait,
        generated_passages,
        grounded_generations,
        dg.AssetDep(answers, partition_mapping=dg.AllPartitionMapping()),
    ],
    description=TABLES["quip_scores"].grain,
)
def quip_scores(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
    keys = sorted(context.partition_keys)
    with clear_errors():
        return result(study.lake, [score_generations(study.study, study.lake, key, LOG) for key in keys])
