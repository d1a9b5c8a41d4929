"""The screenshots of docs/reading_the_report.md and docs/operations.md, from the finished default study in <home>.

    python -m tools.pages.screenshots <home>

Make them again when a page that they show has changed, and look at them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from longtail.storage.home import PROJECT_ROOT
from tests.browser import chromium
from tests.journeys.commands import command, environment
from tests.journeys.test_ui import body_once, free_port, wait_for_address
from tests.longtail.report.browser import show, shown

_WIDTH = 1400


def main(home: Path) -> None:
    """Look at the report, an answer, and Dagster's graph; write a picture of each beside the pages."""
    published = home / "published"
    with (
        tempfile.TemporaryDirectory() as profile,
        chromium(Path(profile), "no screenshot was made", "--hide-scrollbars", logs="browser") as driver,
    ):
        show(driver, published / "report.html", _WIDTH, opens="")
        save(driver, "report")
        show(driver, published / "answers.html", _WIDTH, opens="")
        shown(driver, "tbody a").click()
        save(driver, "answers")
        with served(home, Path(profile, "ui.log")) as url:
            driver.get(f"{url}/asset-groups")
            body_once(driver, lambda text: "sandbox" in text and "fetching" not in text)
            save(driver, "dagster")


def save(driver: Any, name: str) -> None:
    """Write what the window shows as `docs/<name>.png`."""
    driver.save_screenshot(str(PROJECT_ROOT / "docs" / f"{name}.png"))


@contextlib.contextmanager
def served(home: Path, log: Path) -> Iterator[str]:
    """`make ui` of the home; its address."""
    port = free_port()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command("ui", "--port", str(port)),
            cwd=PROJECT_ROOT,
            env=environment(home),
            stdout=output,
            stderr=output,
        )
    try:
        wait_for_address(f"http://127.0.0.1:{port}", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main(Path(os.path.abspath(sys.argv[1])))
