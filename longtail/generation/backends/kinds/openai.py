"""A service: any server with an OpenAI-compatible HTTP API."""

from __future__ import annotations

from longtail.study.backends import DTYPES, GENERATE, QUANTISATIONS, SAMPLE, STREAM, UNKNOWN, Backend

BACKEND = Backend(
    "longtail.generation.backends.openai:OpenAIBackend",
    frozenset({GENERATE, SAMPLE, STREAM}),
    frozenset({"path", "revision", "dtype", "quantisation", "thinking_tokens", "service"}),
    check="longtail.generation.backends.openai:check_key",
    needs="service",
    because="says where its server is (base_url)",
    dtypes=(*DTYPES, UNKNOWN),
    quantisations=(*QUANTISATIONS, UNKNOWN),
    dtype=UNKNOWN,
    quantisation=UNKNOWN,
)
