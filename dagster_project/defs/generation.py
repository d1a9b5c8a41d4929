"""Answers of language models: one partition per model × method; a run loads each model once."""

from collections.abc import Callable
from functools import partial
from typing import Any

import dagster as dg

from dagster_project.defs.partitions import model_by_method, models, names_of
from dagster_project.defs.questions import paraphrases, questions
from dagster_project.defs.resources import LOG, StudyResource, model_session
from dagster_project.defs.results import clear_errors, markdown_table, result
from dagster_project.defs.retrieval import cited_passages, passages, retrieved_passages
from longtail.embedding.lake_tables import embed_answers
from longtail.entailment.answers import compare_answers
from longtail.generation.engine.partition import generate
from longtail.generation.latency.calibrate import calibrate_latency
from longtail.generation.provisional import tell_accuracy
from longtail.generation.tasks.audit import count_faults
from longtail.generation.tasks.registry import TASKS
from longtail.imports.answers import import_answers
from longtail.progress import Progress
from longtail.questions.paraphrases import CANDIDATES
from longtail.storage.lake import Outcome
from longtail.tables import TABLES

_BY_MODEL: dict[str, Any] = {
    "key_prefix": "lake",
    "group_name": "generation",
    "partitions_def": models,
    "backfill_policy": dg.BackfillPolicy.single_run(),
}
_GENERATED = {**_BY_MODEL, "kinds": {"parquet", "torch"}, "pool": "gpu"}


def _all_partitions(asset: dg.AssetsDefinition) -> dg.AssetDep:
    return dg.AssetDep(asset, partition_mapping=dg.AllPartitionMapping())


def _generate(
    context: dg.AssetExecutionContext, study: StudyResource, stage: Callable[..., Outcome]
) -> dg.MaterializeResult:
    """Run a stage of `longtail.generation` for each partition of the run; the model stays loaded in between.

    The accuracy of answers is told as soon as their partition is written, and again in the result.
    """
    keys = sorted(names_of(key) for key in context.partition_keys)
    with clear_errors(), model_session() as session:
        more = {"session": session, "run_id": context.run_id, "log": LOG}
        outcomes, accuracy = [], []
        with Progress(LOG, "partitions", len(keys), is_stage=True) as progress:
            for names in keys:
                outcomes.append(stage(study.study, study.lake, *names, **more))
                accuracy += tell_accuracy(study.lake, outcomes[-1], LOG)
                progress.add(1)
    made = result(study.lake, outcomes)
    more = {"accuracy": dg.MetadataValue.md(markdown_table(accuracy))} if accuracy else {}
    return made._replace(metadata={**(made.metadata or {}), **more})


def generated_table(table: str, *deps: Any, **options: Any) -> dg.AssetsDefinition:
    """The asset of a generated lake table: one line per table, all else follows from its task."""

    @dg.asset(name=table, description=TABLES[table].grain, deps=deps, **_GENERATED | options)
    def made(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
        return _generate(context, study, partial(generate, TASKS[table]))

    return made


@dg.asset(**_BY_MODEL, kinds={"parquet"}, deps=[questions])
def imported_answers(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
    """One row per (dataset, question, model, method, prompt) of an imported result file; empty for other models."""
    keys = sorted(context.partition_keys)
    with clear_errors():
        return result(study.lake, [import_answers(study.study, study.lake, model, LOG) for model in keys])


generated_passages = generated_table("generated_passages", questions, imported_answers)
answers = generated_table(
    "answers",
    questions,
    passages,
    cited_passages,
    *map(_all_partitions, (retrieved_passages, generated_passages, imported_answers)),
    partitions_def=model_by_method,
)
paraphrase_answers = generated_table("paraphrase_answers", paraphrases)
sampled_answers = generated_table("sampled_answers", questions)
_passages_in_front = (cited_passages, _all_partitions(retrieved_passages))
candidate_answers = generated_table(
    "candidate_answers",
    paraphrases,
    passages,
    dg.AssetKey(["lake", CANDIDATES]),
    *_passages_in_front,
    partitions_def=model_by_method,
)
grounded_answers = generated_table("grounded_answers", questions, *_passages_in_front)
grounded_generations = generated_table(
    "grounded_generations", questions, grounded_answers, imported_answers, *_passages_in_front
)


@dg.asset(**_GENERATED, deps=[_all_partitions(answers)])
def single_latencies(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
    """One row per (dataset, question, model, method, prompt) that was sent alone: the waiting time of a single user."""
    return _generate(context, study, calibrate_latency)


@dg.asset(**_GENERATED, deps=[paraphrase_answers, sampled_answers])
def answer_embeddings(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
    """One row per (model, distinct answer text of paraphrase_answers and sampled_answers)."""
    keys = sorted(context.partition_keys)
    with clear_errors():
        return result(study.lake, [embed_answers(study.study, study.lake, model, LOG) for model in keys])


@dg.asset(**_GENERATED, deps=[paraphrase_answers, sampled_answers])
def answer_entailments(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
    """One row per (asked, dataset, question, model, prompt): how far its answers entail each other (study key nli)."""
    keys = sorted(context.partition_keys)
    with clear_errors():
        return result(study.lake, [compare_answers(study.study, study.lake, model, LOG) for model in keys])


@dg.asset_check(asset=answers, blocking=True)
def answers_are_whole(context: dg.AssetCheckExecutionContext, study: StudyResource) -> dg.AssetCheckResult:
    """Every partition has each question at most once per prompt; rows of this run belong to today's questions.

    Partitions of earlier runs may have questions that no longer exist, until they are materialised again.
    """
    n_doubled, n_unknown = count_faults(study.lake, context.run.run_id)
    return dg.AssetCheckResult(
        passed=not n_doubled and not n_unknown,
        description=f"lake/answers: {n_doubled} doubled rows, {n_unknown} rows of this run for unknown questions"
        + ("; materialise the partitions again" if n_doubled or n_unknown else ""),
        metadata={"n_doubled": n_doubled, "n_of_questions_not_asked": n_unknown},
    )
