"""What a study asks of its models' backends, and where its models are: checked before anything is computed.

What belongs here: from a study to capabilities. What does not: which backend has which (`backends.registry`), and what
is in the files.
"""

from __future__ import annotations

from dagster_project.core.generation.backends.registry import entry
from dagster_project.core.generation.tasks.registry import TASKS
from dagster_project.core.study.study import Study


def check_models(study: Study) -> None:
    """Look at every model of the study, at a cost that does not depend on their sizes.

    Errors: `BackendError` for the first model whose backend is unknown or cannot do what the study asks, or whose path
    names nothing that is there; `SourceError` where the files of imported answers are not.
    """
    capabilities = sorted({task.capability for task in TASKS.values() if task.is_asked(study)})
    for model in study.models:
        if not model.generates:
            for results in model.results:
                if not results.place.is_fetched(study.path):
                    results.place.find(study.path)
            continue
        for capability in capabilities:
            entry(model, capability).check_path(model)
