"""The finished default study, for every test that reads it: run once, or named by LONGTAIL_FINISHED_HOME (as CI does)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.journeys.commands import run_study


@pytest.fixture(scope="session")
def finished_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home where `make run` of the default study has ended. Its tests share xdist's group `default_study`."""
    finished = os.environ.get("LONGTAIL_FINISHED_HOME")
    if finished:
        return Path(finished)
    home = tmp_path_factory.mktemp("default")
    done = run_study(home, timeout=1_500)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return home


@pytest.fixture(scope="session")
def marts(finished_home: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The published marts of the default study."""
    with duckdb.connect(str(finished_home / "published/warehouse.duckdb"), read_only=True) as connection:
        connection.execute("set search_path = 'marts'")
        yield connection
