"""Answers of language models, what of them stands in the corpus, and fine-tuned readers.

A partition is a model × method, or a setting of the sweep; a run loads each model once.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import dagster as dg

from dagster_project.defs.questions import paraphrases, questions
from dagster_project.defs.resources import (
    LOG,
    StudyResource,
    asset_key,
    by_method,
    chosen_study,
    models_of,
    settings,
)
from dagster_project.defs.results import (
    clear_errors,
    lake_asset,
    markdown_table,
    of_each,
    result,
    table_specs,
)
from dagster_project.defs.retrieval import cited_passages, passages, retrieved_passages
from longtail.embedding.lake_tables import embed_answers
from longtail.entailment.answers import compare_answers
from longtail.generation.engine.partition import generate
from longtail.generation.engine.session import ModelSession
from longtail.generation.latency import calibrate_latency
from longtail.generation.tasks.registry import TASKS, tell_accuracy
from longtail.grounding.cooccurrences import count_cooccurrences
from longtail.grounding.corpus import build_portrait
from longtail.grounding.quip import score_generations
from longtail.imports.answers import import_answers
from longtail.progress import Progress
from longtail.questions.build import CANDIDATES
from longtail.storage.lake import Outcome
from longtail.tables import TABLES
from longtail.tuning.sweep import ANSWERS, MODELS, tune

_BY_MODEL: dict[str, Any] = {
    "key_prefix": asset_key("lake").path,
    "group_name": "generation",
    "backfill_policy": dg.BackfillPolicy.single_run(),
}
_GENERATED = {**_BY_MODEL, "kinds": {"parquet", "torch"}, "pool": "gpu"}


def _all_partitions(asset: dg.AssetsDefinition) -> dg.AssetDep:
    return dg.AssetDep(asset, partition_mapping=dg.AllPartitionMapping())


def generation_asset(
    table: str, *deps: Any, stage: Callable[..., Outcome] | None = None, **options: Any
) -> dg.AssetsDefinition:
    """The asset of a generated lake table: one line per table, all else follows from its task, or from another `stage`.

    The stage is called for each partition of the run; the model stays loaded in between. The accuracy of answers is told
    as soon as their partition is written, and again in the result.
    """
    make = stage or partial(generate, TASKS[table])
    options = {"partitions_def": models_of(table), **options}

    @dg.asset(name=table, description=TABLES[table].grain, deps=deps, **_GENERATED | options)
    def materialize(context: dg.AssetExecutionContext, study: StudyResource) -> dg.MaterializeResult:
        # In Dagster's keys, a bar joins the dimensions in alphabetical order: method|model.
        keys = sorted(tuple(reversed(key.split("|"))) for key in context.partition_keys)
        with clear_errors(), ModelSession(LOG, lambda name: dg.EnvVar(name).get_value()) as session:
            more = {"session": session, "run_id": context.run_id, "log": LOG}
            outcomes, accuracy = [], []
            with Progress(LOG, "partitions", len(keys)) as progress:
                for names in keys:
                    outcomes.append(make(study.study, study.lake, *names, **more))
                    accuracy += tell_accuracy(study.lake, outcomes[-1], LOG)
                    progress.add(1)
        made = result(study.lake, outcomes)
        more = {"accuracy": dg.MetadataValue.md(markdown_table(accuracy))} if accuracy else {}
        return made._replace(metadata={**(made.metadata or {}), **more})

    return materialize


imported_answers = lake_asset(
    "imported_answers",
    of_each(import_answers),
    deps=[questions],
    partitions_def=models_of("imported_answers"),
    **_BY_MODEL,
)
generated_passages = generation_asset("generated_passages", questions, imported_answers)
answers = generation_asset(
    "answers",
    questions,
    passages,
    cited_passages,
    *map(_all_partitions, (retrieved_passages, generated_passages, imported_answers)),
    partitions_def=by_method("answers"),
)
paraphrase_answers = generation_asset("paraphrase_answers", paraphrases)
sampled_answers = generation_asset("sampled_answers", questions)
_passages_in_front = (cited_passages, _all_partitions(retrieved_passages))
candidate_answers = generation_asset(
    "candidate_answers",
    paraphrases,
    passages,
    asset_key("lake", CANDIDATES),
    *_passages_in_front,
    partitions_def=by_method("candidate_answers"),
)
grounded_answers = generation_asset("grounded_answers", questions, *_passages_in_front)
grounded_generations = generation_asset(
    "grounded_generations", questions, grounded_answers, imported_answers, *_passages_in_front
)
single_latencies = generation_asset("single_latencies", _all_partitions(answers), stage=calibrate_latency)
answer_embeddings = lake_asset(
    "answer_embeddings",
    of_each(embed_answers),
    deps=[paraphrase_answers, sampled_answers],
    partitions_def=models_of("answer_embeddings"),
    **_GENERATED,
)
answer_entailments = lake_asset(
    "answer_entailments",
    of_each(compare_answers),
    deps=[paraphrase_answers, sampled_answers],
    partitions_def=models_of("answer_entailments"),
    **_GENERATED,
)


@dg.asset(key_prefix=asset_key("indexes").path, group_name="grounding", kinds={"numba"}, deps=[passages])
def portrait(study: StudyResource) -> dg.MaterializeResult:
    """The data portrait of the corpus: a Bloom filter of its 25-grams, reused until the passages change."""
    with clear_errors():
        report = build_portrait(study.study, study.lake, LOG)
    plan = report.portrait.plan
    return dg.MaterializeResult(
        metadata={
            "n_grams": plan.n_grams,
            "n_bytes": plan.n_bytes,
            "false_positive_rate": plan.rate,
            "was_current": report.was_current,
            "path": dg.MetadataValue.path(report.path),
        },
        data_version=dg.DataVersion(report.fingerprint),
    )


entity_cooccurrences = lake_asset(
    "entity_cooccurrences", count_cooccurrences, group_name="grounding", deps=[questions, passages]
)
quip_scores = lake_asset(
    "quip_scores",
    of_each(score_generations),
    "numba",
    group_name="grounding",
    deps=[portrait, generated_passages, grounded_generations, _all_partitions(answers)],
    partitions_def=models_of("quip_scores"),
)


_SWEEP = chosen_study().sweep
_READ: list[Any] = [questions, paraphrases, passages, asset_key("lake", CANDIDATES)]
_INDEX = [asset_key("indexes", _SWEEP.retriever)] if _SWEEP else []


@dg.multi_asset(
    specs=table_specs((MODELS, ANSWERS), "tuning", "torch", deps=[*_READ, *_INDEX], partitions_def=settings),
    pool="gpu",
    backfill_policy=dg.BackfillPolicy.single_run(),
)
def tuned(context: dg.AssetExecutionContext, study: StudyResource) -> Iterator[dg.MaterializeResult]:
    """Train and judge the reader of each setting; a killed run goes on after its last checkpoint."""
    with clear_errors():
        by_setting = [tune(study.study, study.lake, key, LOG) for key in sorted(context.partition_keys)]
    for outcomes in zip(*by_setting, strict=True):
        yield result(study.lake, outcomes, asset_key("lake", outcomes[0].table))
