"""What tests of the service backend share: its models, policies, and time that passes only when slept through."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from longtail.generation.backends.base import Decoding
from longtail.generation.backends.openai import OpenAIBackend
from longtail.study.models import Model, Service
from longtail.transfer.http import Clock, RetryPolicy

QUICK = RetryPolicy(attempts=8, base_s=0.01, cap_s=0.05, longest_wait_s=10.0, connect_s=2.0, read_s=5.0)
GREEDY = Decoding(15)
WARM = Decoding(15, 0.5)
Open = Callable[..., OpenAIBackend]
PROMPTS = [f"Q: Who wrote book {i}? A:" for i in range(40)]
NAMES = [f"row {i}" for i in range(40)]
PRICES = {"prompt_usd_per_million": 1.5, "completion_usd_per_million": 2.0}


class FakeTime:
    """Time that passes only when somebody sleeps; between threads."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.naps: list[float] = []
        self._lock = threading.Lock()

    def read(self) -> float:
        with self._lock:
            return self.seconds

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.naps.append(seconds)
            self.seconds += seconds

    def clock(self) -> Clock:
        return Clock(monotonic=self.read, now=self.read, sleep=self.sleep)


def service_model(
    base_url: str, *, path: str = "some-model", revision: str | None = None, **keys: Any
) -> Model:
    return Model("served", path, "openai", revision=revision, service=Service(base_url, **keys))
