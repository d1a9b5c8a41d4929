"""Fine-tuned readers: one partition per setting of the study's sweep."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from dagster_project.defs.partitions import chosen_study, settings
from dagster_project.defs.questions import paraphrases, questions
from dagster_project.defs.resources import LOG, StudyResource
from dagster_project.defs.results import clear_errors, result
from dagster_project.defs.retrieval import passages
from longtail.questions.paraphrases import CANDIDATES
from longtail.tables import TABLES
from longtail.tuning.sweep import ANSWERS, MODELS, tune

_SWEEP = chosen_study().sweep
_READ: list[Any] = [questions, paraphrases, passages, dg.AssetKey(["lake", CANDIDATES])]
_INDEX = [dg.AssetKey(["indexes", _SWEEP.retriever])] if _SWEEP else []


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            ["lake", table],
            deps=[*_READ, *_INDEX],
            description=TABLES[table].grain,
            group_name="tuning",
            kinds={"parquet", "torch"},
            partitions_def=settings,
        )
        for table in (MODELS, ANSWERS)
    ],
    pool="gpu",
    backfill_policy=dg.BackfillPolicy.single_run(),
)
def tuned(context: dg.AssetExecutionContext, study: StudyResource) -> Iterator[dg.MaterializeResult]:
    """Train and judge the reader of each setting; a killed run goes on after its last checkpoint."""
    with clear_errors():
        found = [tune(study.study, study.lake, key, LOG) for key in sorted(context.partition_keys)]
    for outcomes in zip(*found, strict=True):
        yield result(study.lake, outcomes, dg.AssetKey(["lake", outcomes[0].table]))
