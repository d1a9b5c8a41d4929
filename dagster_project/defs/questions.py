"""Questions and paraphrases from facts, and reference questions, which no model answers."""

from collections.abc import Iterator

import dagster as dg

from dagster_project.defs.ingest import candidate_triples, entities, triples
from dagster_project.defs.resources import LOG, StudyResource, asset_key, months
from dagster_project.defs.results import clear_errors, lake_asset, result, table_specs
from longtail.embedding.lake_tables import compare_paraphrases, far_relations
from longtail.imports.answers import import_decisions
from longtail.questions.build import (
    CANDIDATES,
    PATTERNS,
    build_paraphrases,
    build_questions,
    describe_cloze_queries,
)
from longtail.questions.counts import count_questions
from longtail.reference.linking import describe_linking, import_reference_questions, link_reference_questions
from longtail.study.study import Study
from longtail.wikimedia.page_views import ingest_reference_page_views

questions = lake_asset(
    "questions", build_questions, group_name="questions", deps=[triples, entities, candidate_triples]
)


@dg.multi_asset(specs=table_specs((PATTERNS, CANDIDATES), "questions"))
def cloze_queries(study: StudyResource) -> Iterator[dg.MaterializeResult]:
    """The patterns and candidates of imported cloze queries; empty for other datasets."""
    with clear_errors():
        for outcome in describe_cloze_queries(study.study, study.lake, LOG):
            yield result(study.lake, [outcome], asset_key("lake", outcome.table))


paraphrases = lake_asset("paraphrases", build_paraphrases, group_name="questions", deps=[questions])
question_counts = lake_asset("question_counts", count_questions, group_name="questions", deps=[questions])
imported_decisions = lake_asset(
    "imported_decisions", import_decisions, group_name="questions", deps=[questions]
)
paraphrase_similarities = lake_asset(
    "paraphrase_similarities",
    compare_paraphrases,
    "torch",
    group_name="questions",
    deps=[questions, paraphrases],
    pool="gpu",
)


@dg.asset_check(asset=questions, blocking=True)
def every_relation_has_questions(study: StudyResource) -> dg.AssetCheckResult:
    """Each relation in a dataset of the source has a question; otherwise no later asset runs, except in a quick run."""
    missing = _relations_without_questions(study.study, study)
    why = (
        "; source.sample may keep none of its facts: see lake/candidate_triples"
        if study.study.source.sample
        else ""
    )
    return dg.AssetCheckResult(
        passed=not missing or study.study.is_quick,
        description=f"no question for: {', '.join(missing)}{why}"
        if missing
        else "every relation has questions",
        metadata={"n_relations_without_questions": len(missing)},
    )


@dg.asset_check(asset=paraphrase_similarities, blocking=True)
def paraphrases_keep_the_meaning(study: StudyResource) -> dg.AssetCheckResult:
    """Each relation's paraphrases are on average as similar to their questions as the study asks."""
    least = study.study.embeddings.least_paraphrase_cosine
    far = far_relations(study.study, study.lake)
    named = [
        f"{relation.dataset}/{relation.relation or 'no relation'} {relation.mean_cosine:.3f} ({relation.n_paraphrases})"
        for relation in far
    ]
    return dg.AssetCheckResult(
        passed=not far,
        description=f"paraphrases with a mean cosine below {least:g}: {', '.join(named)}; reword them, or set"
        " embeddings.least_paraphrase_cosine in the study"
        if far
        else f"the paraphrases of every relation have a mean cosine of at least {least:g}",
        metadata={"n_relations": len(far), "least_paraphrase_cosine": least},
    )


def _relations_without_questions(study: Study, resource: StudyResource) -> list[str]:
    rows = resource.lake.read("questions", columns=["dataset", "relation"]).to_pylist()
    present = {(row["dataset"], row["relation"]) for row in rows}
    return [
        f"{dataset.name}/{relation}"
        for dataset in study.datasets_of_source
        for relation in dataset.relations
        if (dataset.name, relation) not in present
    ]


reference_questions = lake_asset("reference_questions", import_reference_questions, group_name="reference")
reference_mentions = lake_asset(
    "reference_mentions",
    link_reference_questions,
    group_name="reference",
    deps=[reference_questions, entities],
)
reference_page_views = lake_asset(
    "reference_page_views",
    ingest_reference_page_views,
    "wikipedia",
    group_name="page_views",
    partitions_def=months,
    deps=[reference_mentions],
)
entity_linking = lake_asset(
    "entity_linking", describe_linking, group_name="questions", deps=[questions, entities, reference_mentions]
)
