from __future__ import annotations

import pytest

from longtail.study.study import Study
from tests.warehouses import AWKWARD, UNANSWERED, built_study


@pytest.fixture
def awkward(monkeypatch: pytest.MonkeyPatch) -> Study:
    return built_study(AWKWARD, monkeypatch)


@pytest.fixture
def unanswered(monkeypatch: pytest.MonkeyPatch) -> Study:
    return built_study(UNANSWERED, monkeypatch)
