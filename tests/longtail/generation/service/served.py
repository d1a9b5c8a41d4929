"""What tests of the service backend share: its models and policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from longtail.generation.backends.base import Decoding
from longtail.generation.backends.openai import OpenAIBackend
from longtail.study.models import Model, Service
from longtail.transfer.http import RetryPolicy

QUICK = RetryPolicy(attempts=8, base_s=0.01, cap_s=0.05, longest_wait_s=10.0, connect_s=2.0, read_s=5.0)
GREEDY = Decoding(15)
WARM = Decoding(15, 0.5)
Open = Callable[..., OpenAIBackend]
PROMPTS = [f"Q: Who wrote book {i}? A:" for i in range(40)]
NAMES = [f"row {i}" for i in range(40)]
PRICES = {"prompt_usd_per_million": 1.5, "completion_usd_per_million": 2.0}


def service_model(
    base_url: str, *, path: str = "some-model", revision: str | None = None, **keys: Any
) -> Model:
    return Model("served", path, "openai", revision=revision, service=Service(base_url, **keys))
