"""No model, for tests: a script says what is answered."""

from __future__ import annotations

from longtail.study.backends import CAPABILITIES, LOCAL_KEYS, Backend

BACKEND = Backend(
    "longtail.generation.backends.fake:FakeBackend",
    CAPABILITIES,
    LOCAL_KEYS - {"device", "device_map", "quantisation"} | {"passages"},
    check="longtail.generation.backends.fake:read_script",
)
