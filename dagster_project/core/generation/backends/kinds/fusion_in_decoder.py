"""Encoder-decoders in this machine's memory that read several passages (Fusion-in-Decoder)."""

from __future__ import annotations

from dagster_project.core.study.backends import (
    GENERATE,
    LOCAL_KEYS,
    MEASURE,
    PASSAGES,
    SAMPLE,
    SCORE,
    Backend,
)

BACKEND = Backend(
    "dagster_project.core.generation.backends.fusion_in_decoder:FusionInDecoder",
    frozenset({GENERATE, SAMPLE, SCORE, MEASURE, PASSAGES}),
    LOCAL_KEYS | {"passages", "passage_tokens"},
    check="dagster_project.core.generation.backends.fusion_in_decoder:check",
    passages=20,
)
