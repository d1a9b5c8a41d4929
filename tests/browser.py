"""A real browser for tests that look at pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
    "--disable-component-update", "--disable-sync", "--disable-quic",
)  # fmt: skip


@contextmanager
def chromium(profile: Path, unseen: str, *flags: str, logs: str = "") -> Iterator[Any]:
    """Debian's chromium, driven by selenium, with an empty `profile`. `logs` names the kind of log that is kept.

    On a machine without it, the tests are skipped; the reason names what stays `unseen`.
    """
    browser, control = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or control is None:
        pytest.skip(f"no chromium and chromedriver on this machine: {unseen} in a browser")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(browser)
    for flag in (*_FLAGS, *flags, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    if logs:
        options.set_capability("goog:loggingPrefs", {logs: "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(control))
    try:
        yield driver
    finally:
        driver.quit()
