"""Language models of the Hugging Face format, in this machine's memory."""

from __future__ import annotations

from dagster_project.core.study.backends import GENERATE, LOCAL_KEYS, MEASURE, SAMPLE, SCORE, Backend

BACKEND = Backend(
    "dagster_project.core.generation.backends.hf:TransformersBackend",
    frozenset({GENERATE, SAMPLE, SCORE, MEASURE}),
    LOCAL_KEYS,
    check="dagster_project.core.models.weights:check_folder",
)
