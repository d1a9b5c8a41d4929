"""Tests never touch a user's state: every process of the suite has a home of its own."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

import pytest

_HOME = tempfile.mkdtemp(prefix="longtail-tests-")
os.environ["LONGTAIL_HOME"] = _HOME
os.environ.pop("LONGTAIL_STUDY", None)
os.environ.setdefault("LONGTAIL_THREADS", "1")
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long journeys first: two workers then end at about the same time."""
    items.sort(key=lambda item: item.get_closest_marker("journey") is None)


@pytest.fixture(scope="session", autouse=True)
def _build_warehouses_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where several processes run the tests, they share what `tests.warehouses` builds."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        from tests import warehouses

        warehouses.shared_folder = tmp_path_factory.getbasetemp().parent
