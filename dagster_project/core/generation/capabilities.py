"""What a study asks of its models' backends, told before anything is loaded.

What belongs here: from a study's keys to capabilities. What does not: which backend has which (`registry`).
"""

from __future__ import annotations

from dagster_project.core.generation.base import GENERATE, SAMPLE
from dagster_project.core.generation.registry import entry
from dagster_project.core.study import IMPORTED, Study


def asked_capabilities(study: Study) -> frozenset[str]:
    """What every model of the study must be able to do."""
    asked = {SAMPLE} if study.sample_prompts else set()
    if study.answer_prompts or study.paraphrase_prompts or "genread" in study.methods:
        asked.add(GENERATE)
    return frozenset(asked)


def check_capabilities(study: Study) -> None:
    """Errors: `BackendError` for the first model whose backend is unknown or cannot do what the study asks.

    Of a model whose answers are imported nothing is asked.
    """
    for model in study.models:
        if model.backend == IMPORTED:
            continue
        for capability in sorted(asked_capabilities(study)):
            entry(model, capability)
