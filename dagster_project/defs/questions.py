"""Questions and paraphrases from facts."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from dagster_project.defs.ingest import candidate_triples, entities, triples
from dagster_project.defs.resources import LOG, StudyResource
from dagster_project.defs.results import clear_errors, result
from longtail.embedding.lake_tables import compare_paraphrases, far_relations
from longtail.imports.decisions import import_decisions
from longtail.questions.build import build_questions
from longtail.questions.counts import count_questions
from longtail.questions.paraphrases import CANDIDATES, PATTERNS, build_paraphrases, describe_cloze_queries
from longtail.study.study import Study
from longtail.tables import TABLES


@dg.asset(
    key_prefix="lake", group_name="questions", kinds={"parquet"}, deps=[triples, entities, candidate_triples]
)
def questions(study: StudyResource) -> dg.MaterializeResult:
    """One row per (dataset, question): one question per (subject, relation), with every gold answer."""
    with clear_errors():
        return result(study.lake, [build_questions(study.study, study.lake, LOG)])


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            ["lake", table], description=TABLES[table].grain, group_name="questions", kinds={"parquet"}
        )
        for table in (PATTERNS, CANDIDATES)
    ]
)
def cloze_queries(study: StudyResource) -> Iterator[dg.MaterializeResult]:
    """The patterns and candidates of imported cloze queries; empty for other datasets."""
    with clear_errors():
        for outcome in describe_cloze_queries(study.study, study.lake, LOG):
            yield result(study.lake, [outcome], dg.AssetKey(["lake", outcome.table]))


@dg.asset(key_prefix="lake", group_name="questions", kinds={"parquet"}, deps=[questions])
def paraphrases(study: StudyResource) -> dg.MaterializeResult:
    """One row per (dataset, question, paraphrase); paraphrase 0 is the question itself."""
    with clear_errors():
        return result(study.lake, [build_paraphrases(study.study, study.lake, LOG)])


@dg.asset(key_prefix="lake", group_name="questions", kinds={"parquet"}, deps=[questions])
def question_counts(study: StudyResource) -> dg.MaterializeResult:
    """One row per (dataset, question, count_measure): counts in texts; empty without key counts."""
    with clear_errors():
        return result(study.lake, [count_questions(study.study, study.lake, LOG)])


@dg.asset(key_prefix="lake", group_name="questions", kinds={"parquet"}, deps=[questions])
def imported_decisions(study: StudyResource) -> dg.MaterializeResult:
    """One row per (dataset, policy, question): decisions of others; empty without any."""
    with clear_errors():
        return result(study.lake, [import_decisions(study.study, study.lake, LOG)])


@dg.asset(
    key_prefix="lake",
    group_name="questions",
    kinds={"parquet", "torch"},
    pool="gpu",
    deps=[questions, paraphrases],
)
def paraphrase_similarities(study: StudyResource) -> dg.MaterializeResult:
    """One row per (dataset, question, paraphrase) in a sample of questions: how similar a wording is to the question."""
    with clear_errors():
        return result(study.lake, [compare_paraphrases(study.study, study.lake, LOG)])


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
        f"{one.dataset}/{one.relation or 'no relation'} {one.mean_cosine:.3f} ({one.n_paraphrases})"
        for one in far
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
