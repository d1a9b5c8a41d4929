"""Tests of study files write one and load it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from longtail.study.file import load_study
from longtail.study.study import Study


@pytest.fixture
def load(tmp_path: Path) -> Callable[[object], Study]:
    def write_and_load(raw: object) -> Study:
        path = tmp_path / "study.yaml"
        path.write_text(raw if isinstance(raw, str) else yaml.safe_dump(raw), encoding="utf-8")
        return load_study(path)

    return write_and_load
