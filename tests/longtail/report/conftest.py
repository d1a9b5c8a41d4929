"""One browser for all tests of the page; where the machine has none, they are skipped and say so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser import chromium


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    profile = tmp_path_factory.mktemp("browser")
    with chromium(
        profile, "the report was not looked at", "--force-prefers-reduced-motion", logs="browser"
    ) as driver:
        yield driver
