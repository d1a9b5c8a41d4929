"""Encoder-decoders in this machine's memory that read several passages (Fusion-in-Decoder)."""

from __future__ import annotations

from longtail.study.backends import GENERATE, LOCAL_KEYS, MEASURE, PASSAGES, SAMPLE, SCORE, Backend

BACKEND = Backend(
    "longtail.generation.backends.hf:FusionInDecoder",
    frozenset({GENERATE, SAMPLE, SCORE, MEASURE, PASSAGES}),
    LOCAL_KEYS | {"passages", "passage_tokens"},
    check="longtail.generation.backends.hf:check",
    passages=20,
)
