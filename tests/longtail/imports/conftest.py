"""Logs of Inspect for the tests of imports: one evaluation a test process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.inspect_logs import write_logs


@pytest.fixture(scope="session")
def inspect_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("inspect_ai", reason="extra inspect is not installed: logs of Inspect were NOT read")
    return write_logs(tmp_path_factory.mktemp("inspect"))
