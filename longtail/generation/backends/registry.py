"""The backend of a model: looked up, identified, loaded."""

from __future__ import annotations

import os

from longtail.errors import BackendError
from longtail.generation.backends import base
from longtail.generation.backends.base import Identity, Secret
from longtail.study.backends import BACKENDS, GENERATE, Backend
from longtail.study.models import Model


def entry(model: Model, capability: str = GENERATE) -> Backend:
    """The record of a model's backend. Errors: `BackendError` where it is unknown or lacks the capability."""
    found = BACKENDS.get(model.backend)
    if found is None:
        known = ", ".join(sorted(name for name, one in BACKENDS.items() if one.generates))
        raise BackendError(f"model {model.name}: unknown backend {model.backend!r}; use one of: {known}")
    if not found.generates:
        raise BackendError(
            f"model {model.name}: its answers are imported (results); it cannot {capability} any"
        )
    if capability not in found.capabilities:
        able = ", ".join(sorted(n for n, one in BACKENDS.items() if capability in one.capabilities)) or "none"
        raise BackendError(
            f"model {model.name}: backend {model.backend} cannot {capability}; backends that can: {able}"
        )
    return found


def identify(model: Model) -> Identity:
    """The identity of a model's weights, without loading them. Errors: `BackendError`."""
    identity: Identity = entry(model).load().identify(model)
    return identity


def load_backend(model: Model, secret: Secret = os.environ.get) -> base.Backend:
    """Load a model. Errors: `BackendError`, in one line."""
    backend: base.Backend = entry(model).load()(model, secret)
    return backend
