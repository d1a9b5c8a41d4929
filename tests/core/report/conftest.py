"""One browser for all tests of the page; where the machine has none, they are skipped and say so."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    browser, control = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or control is None:
        pytest.skip("no chromium and chromedriver on this machine: the report was not looked at in a browser")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
                 "--disable-component-update", "--disable-sync", "--disable-quic", "--force-prefers-reduced-motion",
                 f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):  # fmt: skip
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(control))
    yield driver
    driver.quit()
