"""Answers of language models: one partition per model × method, the model loaded once a run."""

import dagster as dg

from dagster_project.core.embedding.answers import embed_answers
from dagster_project.core.generation.run import answer_paraphrases, answer_questions
from dagster_project.core.generation.session import ModelSession
from dagster_project.defs.partitions import model_and_method, model_by_method, models
from dagster_project.defs.questions.assets import paraphrases, questions
from dagster_project.defs.resources import LOG, StudyResource
from dagster_project.defs.results import clear_errors, result
from dagster_project.defs.retrieval.assets import passages, retrieved_passages


@dg.asset(
    key_prefix="lake",
    group_name="generation",
    kinds={"parquet", "torch"},
    partitions_def=model_by_method,
    backfill_policy=dg.BackfillPolicy.single_run(),
    pool="gpu",
    deps=[
        questions,
        passages,
        dg.AssetDep(retrieved_passages, partition_mapping=dg.AllPartitionMapping()),
    ],
)
def answers(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
    """One row per (dataset, question, model, method, prompt)."""
    keys = sorted(model_and_method(key) for key in context.partition_keys)
    with clear_errors(), ModelSession(LOG) as session:
        outcomes = [
            answer_questions(
                study.study, study.lake, model, method, session=session, run_id=context.run_id, log=LOG
            )
            for model, method in keys
        ]
    return result(study.lake, outcomes)


@dg.asset(
    key_prefix="lake",
    group_name="generation",
    kinds={"parquet", "torch"},
    partitions_def=models,
    backfill_policy=dg.BackfillPolicy.single_run(),
    pool="gpu",
    deps=[paraphrases],
)
def paraphrase_answers(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
    """One row per (dataset, question, paraphrase, model, prompt), answered closed-book."""
    keys = sorted(context.partition_keys)
    with clear_errors(), ModelSession(LOG) as session:
        outcomes = [
            answer_paraphrases(
                study.study, study.lake, model, session=session, run_id=context.run_id, log=LOG
            )
            for model in keys
        ]
    return result(study.lake, outcomes)


@dg.asset(
    key_prefix="lake",
    group_name="generation",
    kinds={"parquet", "torch"},
    deps=[dg.AssetDep(paraphrase_answers, partition_mapping=dg.AllPartitionMapping())],
)
def answer_embeddings(study: StudyResource) -> dg.MaterializeResult:
    """One row per distinct answer text of paraphrase_answers."""
    with clear_errors():
        return result(study.lake, [embed_answers(study.study, study.lake, LOG)])


@dg.asset_check(asset=answers, blocking=True)
def answers_are_whole(study: StudyResource) -> dg.AssetCheckResult:
    """Each finished partition holds each question at most once a prompt, and only questions of today's lake."""
    known = _keys(study, "questions", ["dataset", "question_id"])
    doubled, unknown = 0, 0
    for partition in study.lake.partitions("answers"):
        rows = study.lake.read("answers", partition, ["dataset", "question_id", "prompt"]).to_pylist()
        keys = [(row["dataset"], row["question_id"], row["prompt"]) for row in rows]
        doubled += len(keys) - len(set(keys))
        if partition in _declared(study):
            unknown += sum((dataset, question) not in known for dataset, question, _ in keys)
    return dg.AssetCheckResult(
        passed=not doubled,
        metadata={"n_doubled": doubled, "n_of_questions_no_longer_asked": unknown},
    )


def _declared(study: StudyResource) -> set[str]:
    return {f"{model.name}|{method}" for model in study.study.models for method in study.study.methods}


def _keys(study: StudyResource, table: str, columns: list[str]) -> set[tuple[str, ...]]:
    return {tuple(row.values()) for row in study.lake.read(table, columns=columns).to_pylist()}
