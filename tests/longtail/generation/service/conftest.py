"""A service's model, and a backend whose waits take no time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from served import QUICK, service_model

from longtail.generation.backends.openai import OpenAIBackend
from tests.fake_time import FakeTime


@pytest.fixture
def fake_time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def open_backend(fake_time: FakeTime) -> Iterator[Callable[..., OpenAIBackend]]:
    """A backend for a base URL and the keys of a service; closed at the end."""
    opened: list[OpenAIBackend] = []

    def make(base_url: str, environment: dict[str, str] | None = None, **keys: Any) -> OpenAIBackend:
        policy = keys.pop("policy", QUICK)
        model = service_model(base_url, **keys)
        backend = OpenAIBackend(model, (environment or {}).get, policy=policy, clock=fake_time.clock())
        opened.append(backend)
        return backend

    yield make
    for backend in opened:
        backend.close()
