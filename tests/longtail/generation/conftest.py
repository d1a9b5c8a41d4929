"""Tests of generation keep all state in their own folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_models import save_tiny_model


class Folders(dict[str, Path]):
    """The folder of each tiny model, which no test changes; saved when it is first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __missing__(self, name: str) -> Path:
        self[name] = save_tiny_model(self.root / name, name)
        return self[name]


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return Folders(tmp_path_factory.mktemp("models"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`$LONGTAIL_HOME` below the test's own folder, and one thread."""
    folder = tmp_path / "home"
    monkeypatch.setenv("LONGTAIL_HOME", str(folder))
    monkeypatch.setenv("LONGTAIL_THREADS", "1")
    return folder
