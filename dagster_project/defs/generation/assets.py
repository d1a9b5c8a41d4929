"""Answers of language models: one partition per model × method, the model loaded once a run."""

import dagster as dg

from dagster_project.core.embedding.answers import embed_answers
from dagster_project.core.generation.calibrate import calibrate_latency
from dagster_project.core.generation.run import (
    answer_paraphrases,
    answer_questions,
    generate_passages,
    sample_answers,
)
from dagster_project.core.imports.answers import import_answers
from dagster_project.core.lake import Lake
from dagster_project.defs.partitions import model_and_method, model_by_method, models
from dagster_project.defs.questions.assets import paraphrases, questions
from dagster_project.defs.resources import LOG, StudyResource, model_session
from dagster_project.defs.results import clear_errors, result
from dagster_project.defs.retrieval.assets import passages, retrieved_passages


@dg.asset(
    key_prefix="lake",
    group_name="generation",
    kinds={"parquet"},
    partitions_def=models,
    backfill_policy=dg.BackfillPolicy.single_run(),
    deps=[questions],
)
def imported_answers(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
    """One row per (dataset, question, model, method, prompt) of an imported result file; of other models none."""
    keys = sorted(context.partition_keys)
    with clear_errors():
        return result(study.lake, [import_answers(study.study, study.lake, model, LOG) for model in keys])


@dg.asset(
    key_prefix="lake",
    group_name="generation",
    kinds={"parquet", "torch"},
    partitions_def=models,
    backfill_policy=dg.BackfillPolicy.single_run(),
    pool="gpu",
    deps=[questions, imported_answers],
)
def generated_passages(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
    """One row per (dataset, question, model): the background text that stands before a question of method genread."""
    keys = sorted(context.partition_keys)
    with clear_errors(), model_session() as session:
        outcomes = [
            generate_passages(study.study, study.lake, model, session=session, run_id=context.run_id, log=LOG)
            for model in keys
        ]
    return result(study.lake, outcomes)


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
        dg.AssetDep(generated_passages, partition_mapping=dg.AllPartitionMapping()),
        dg.AssetDep(imported_answers, partition_mapping=dg.AllPartitionMapping()),
    ],
)
def answers(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
    """One row per (dataset, question, model, method, prompt)."""
    keys = sorted(model_and_method(key) for key in context.partition_keys)
    with clear_errors(), model_session() as session:
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
    with clear_errors(), model_session() as session:
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
    partitions_def=models,
    backfill_policy=dg.BackfillPolicy.single_run(),
    pool="gpu",
    deps=[questions],
)
def sampled_answers(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
    """One row per (dataset, question, sample, model, prompt), answered closed-book at a temperature."""
    keys = sorted(context.partition_keys)
    with clear_errors(), model_session() as session:
        outcomes = [
            sample_answers(study.study, study.lake, model, session=session, run_id=context.run_id, log=LOG)
            for model in keys
        ]
    return result(study.lake, outcomes)


@dg.asset(
    key_prefix="lake",
    group_name="generation",
    kinds={"parquet", "torch"},
    partitions_def=model_by_method,
    backfill_policy=dg.BackfillPolicy.single_run(),
    pool="gpu",
    deps=[answers],
)
def latency_calibrations(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
    """One row per (model, method, prompt): one user waiting, from questions asked one at a time."""
    keys = sorted(model_and_method(key) for key in context.partition_keys)
    with clear_errors(), model_session() as session:
        outcomes = [
            calibrate_latency(
                study.study, study.lake, model, method, session=session, run_id=context.run_id, log=LOG
            )
            for model, method in keys
        ]
    return result(study.lake, outcomes)


@dg.asset(
    key_prefix="lake",
    group_name="generation",
    kinds={"parquet", "torch"},
    deps=[
        dg.AssetDep(paraphrase_answers, partition_mapping=dg.AllPartitionMapping()),
        dg.AssetDep(sampled_answers, partition_mapping=dg.AllPartitionMapping()),
    ],
)
def answer_embeddings(study: StudyResource) -> dg.MaterializeResult:
    """One row per distinct answer text of paraphrase_answers and sampled_answers."""
    with clear_errors():
        return result(study.lake, [embed_answers(study.study, study.lake, LOG)])


@dg.asset_check(asset=answers, blocking=True)
def answers_are_whole(context: dg.AssetCheckExecutionContext, study: StudyResource) -> dg.AssetCheckResult:
    """Every partition holds each question at most once a prompt; one that this run wrote, only questions of today.

    Partitions of earlier runs may hold questions no longer asked, until they are materialised again.
    """
    n_doubled, n_unknown = count_faults(study.lake, context.run.run_id)
    return dg.AssetCheckResult(
        passed=not n_doubled and not n_unknown,
        description=f"lake/answers: {n_doubled} doubled rows, {n_unknown} rows of this run to questions not asked"
        + ("; materialise the partitions again" if n_doubled or n_unknown else ""),
        metadata={"n_doubled": n_doubled, "n_of_questions_not_asked": n_unknown},
    )


def count_faults(lake: Lake, run_id: str) -> tuple[int, int]:
    """Doubled rows of all answers, and rows that run `run_id` wrote for questions that are not in the lake."""
    asked = {
        (row["dataset"], row["question_id"])
        for row in lake.read("questions", columns=["dataset", "question_id"]).to_pylist()
    }
    n_doubled, n_unknown = 0, 0
    for partition in lake.partitions("answers"):
        columns = ["dataset", "question_id", "prompt", "run_id"]
        rows = lake.read("answers", partition, columns).to_pylist()
        n_doubled += len(rows) - len({(row["dataset"], row["question_id"], row["prompt"]) for row in rows})
        n_unknown += sum(
            row["run_id"] == run_id and (row["dataset"], row["question_id"]) not in asked for row in rows
        )
    return n_doubled, n_unknown
