"""No model, for tests: a script says what is answered."""

from __future__ import annotations

from dagster_project.core.study.backends import CAPABILITIES, LOCAL_KEYS, Backend

BACKEND = Backend(
    "dagster_project.core.generation.backends.fake:FakeBackend",
    CAPABILITIES,
    LOCAL_KEYS - {"device", "device_map", "quantisation"} | {"passages"},
    check="dagster_project.core.generation.backends.fake_script:read_script",
)
