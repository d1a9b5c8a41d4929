"""Tests of tuning share the models that training begins with."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_sweep import save_models, study_with_sweep

from longtail.study.study import Study


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folders of a reader and of an encoder."""
    return save_models(tmp_path_factory.mktemp("models"))


@pytest.fixture
def study(tmp_path: Path, models: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    return study_with_sweep(tmp_path, *models)
