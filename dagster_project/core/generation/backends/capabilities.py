"""What a study asks of its models' backends, and where its models lie, told before anything is computed.

What belongs here: from a study's keys to capabilities. What does not: which backend has which (`registry`), and what
is in the files.
"""

from __future__ import annotations

from dagster_project.core.generation.backends.registry import entry
from dagster_project.core.study.backends import GENERATE, SAMPLE
from dagster_project.core.study.study import Study


def asked_capabilities(study: Study) -> frozenset[str]:
    """What every model of the study must be able to do."""
    asked = {SAMPLE} if study.sample_prompts else set()
    if study.answer_prompts or study.paraphrase_prompts or study.writes_background:
        asked.add(GENERATE)
    return frozenset(asked)


def check_models(study: Study) -> None:
    """Look at every model of the study, at a cost that does not depend on their sizes.

    Errors: `BackendError` for the first model whose backend is unknown or cannot do what the study asks, or whose path
    names nothing that is there; `SourceError` where the files of imported answers are not.
    """
    for model in study.models:
        if not model.generates:
            for results in model.results:
                results.place.find(study.path)
            continue
        for capability in sorted(asked_capabilities(study)):
            entry(model, capability).check_path(model)
