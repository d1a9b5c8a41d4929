"""Tests of study files write one and load it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from longtail.errors import StudyError
from longtail.study.file import load_study
from longtail.study.study import Study


@pytest.fixture
def load(tmp_path: Path) -> Callable[[object], Study]:
    def write_and_load(raw: object) -> Study:
        path = tmp_path / "study.yaml"
        path.write_text(raw if isinstance(raw, str) else yaml.safe_dump(raw), encoding="utf-8")
        return load_study(path)

    return write_and_load


@pytest.fixture
def refusal(load: Callable[[object], Study]) -> Callable[[object], str]:
    """The message for a study file that is refused: one line, which names the file."""

    def refuse(raw: object) -> str:
        with pytest.raises(StudyError) as caught:
            load(raw)
        message = str(caught.value)
        assert "study.yaml: " in message
        assert "\n" not in message
        return message

    return refuse
