"""`make ui`: serves on 127.0.0.1, shows the study's assets, and ends whole on one Ctrl-C."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.journeys.commands import PROJECT, command, environment, small_study

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("ui")]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def descendants(pid: int) -> set[int]:
    """Process ids below `pid`."""
    listing = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listing.splitlines()[1:]]
    found, waiting = set(), [pid]
    while waiting:
        parent = waiting.pop()
        children = [child for child, of in pairs if of == parent]
        found.update(children)
        waiting += children
    return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    folder = tmp_path_factory.mktemp("ui")
    port = free_port()
    study = small_study(folder, "fake:digest", facts=8)
    said = folder / "ui.log"
    with said.open("wb") as output:
        process = subprocess.Popen(
            command("dagster_project.ui"),
            cwd=PROJECT,
            env=environment(folder / "home", study, PORT=str(port)),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_loaded(url, process, said)
        yield url, process
    finally:
        process.terminate()  # it ends its children, which a kill would leave behind
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_loaded(url: str, process: subprocess.Popen[bytes], said: Path, seconds: float = 150) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the UI ended by itself: {said.read_text()[-2000:]}"
        try:
            if asset_keys(url):
                return
        except requests.RequestException:
            pass
        time.sleep(1)
    raise AssertionError(f"no assets at {url} after {seconds} s: {said.read_text()[-2000:]}")


def asset_keys(url: str) -> set[str]:
    query = "{ assetNodes { assetKey { path } } }"
    nodes = requests.post(f"{url}/graphql", json={"query": query}, timeout=30).json()["data"]["assetNodes"]
    return {"/".join(node["assetKey"]["path"]) for node in nodes}


def test_it_shows_the_assets_of_the_study(served: tuple[str, subprocess.Popen[bytes]]) -> None:
    keys = asset_keys(served[0])
    assert {"lake/triples", "lake/answers", "marts/fct_adaptive_accuracy", "published_warehouse"} <= keys
    assert "indexes/dense" not in keys


def test_a_real_browser_draws_the_asset_graph(
    served: tuple[str, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    browser = shutil.which("chromium")
    if browser is None or shutil.which("chromedriver") is None:
        pytest.skip(
            "no chromium and chromedriver on this machine: the asset graph was not looked at in a browser"
        )
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
                 "--disable-component-update", "--disable-sync", "--disable-quic",
                 f"--user-data-dir={tmp_path}"):  # fmt: skip
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        driver.set_window_size(1600, 1000)
        driver.get(f"{served[0]}/asset-groups")
        seen = WebDriverWait(driver, 60).until(
            lambda d: next(
                (
                    t
                    for t in [d.find_element(By.TAG_NAME, "body").text]
                    if "retrieved_passages" in t or "ingest" in t
                ),
                None,
            )
        )
    finally:
        driver.quit()
    assert "Something went wrong" not in seen


def test_ctrl_c_leaves_no_process_behind(served: tuple[str, subprocess.Popen[bytes]]) -> None:
    _, process = served
    below = descendants(process.pid)
    assert len(below) >= 2
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=40) == 0
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any(_alive(pid) for pid in below):
        time.sleep(0.2)
    assert not [pid for pid in below if _alive(pid)]


def _alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
