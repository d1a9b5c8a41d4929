"""Language models of the Hugging Face format, in this machine's memory."""

from __future__ import annotations

from longtail.study.backends import GENERATE, LOCAL_KEYS, MEASURE, SAMPLE, SCORE, Backend

BACKEND = Backend(
    "longtail.generation.backends.hf:TransformersBackend",
    frozenset({GENERATE, SAMPLE, SCORE, MEASURE}),
    LOCAL_KEYS,
    check="longtail.models.weights:check_folder",
)
