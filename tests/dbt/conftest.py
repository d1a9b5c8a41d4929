from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from longtail import open_warehouse
from longtail.study.study import Study
from tests.warehouses import AWKWARD, UNANSWERED, built_study, published_study


@pytest.fixture
def awkward(monkeypatch: pytest.MonkeyPatch) -> Study:
    return built_study(AWKWARD, monkeypatch)


@pytest.fixture
def unanswered(monkeypatch: pytest.MonkeyPatch) -> Study:
    return built_study(UNANSWERED, monkeypatch)


@pytest.fixture(scope="module")
def file() -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        yield published_study(AWKWARD, patch).home.published_warehouse


@pytest.fixture
def published(file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with open_warehouse(file) as connection:
        yield connection
