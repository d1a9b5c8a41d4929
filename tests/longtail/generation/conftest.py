"""Tests of generation keep all state in their own folder."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`$LONGTAIL_HOME` below the test's own folder, and one thread."""
    folder = tmp_path / "home"
    monkeypatch.setenv("LONGTAIL_HOME", str(folder))
    monkeypatch.setenv("LONGTAIL_THREADS", "1")
    return folder
