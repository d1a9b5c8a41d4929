"""`make ui` serves on 127.0.0.1, shows the study's assets, and ends completely on one Ctrl-C."""

from __future__ import annotations

import contextlib
import http.server
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import requests

from tests.browser import chromium
from tests.in_process_dbt import put_parsed
from tests.journeys.commands import PROJECT, command, environment, small_study

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("ui")]


@dataclass(frozen=True)
class Served:
    """`make ui` of a small study: its address, its process, its home, and what it posted to LONGTAIL_WEBHOOK."""

    url: str
    process: subprocess.Popen[bytes]
    home: Path
    told: list[bytes]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def descendants(pid: int) -> set[int]:
    """The ids of all processes below `pid`."""
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
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("ui")
    port = free_port()
    study = small_study(folder, "fake:digest", facts=8)
    put_parsed(folder / "home", study)
    (folder / "other").mkdir()
    other = small_study(
        folder / "other", "fake:digest", facts=8, edit={"name: small\ndesc": "name: other\ndesc"}
    )
    put_parsed(folder / "home", other)
    (folder / "home/other/study_file").write_text(f"{other}\n")
    said, told = folder / "ui.log", list[bytes]()

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    webhook = f"http://127.0.0.1:{receiver.server_port}/"
    with said.open("wb") as output:
        process = subprocess.Popen(
            command("ui", "--port", str(port)),
            cwd=PROJECT,
            env=environment(folder / "home", study, LONGTAIL_WEBHOOK=webhook),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for_address(url, process, said)
        yield Served(url, process, folder / "home", told)
    finally:
        receiver.shutdown()
        process.terminate()  # it ends its children
        process.wait(60)


def wait_for_address(url: str, process: subprocess.Popen[bytes], said: Path, seconds: float = 150) -> None:
    deadline = time.monotonic() + seconds
    while url not in said.read_text():
        assert process.poll() is None, f"the UI ended by itself: {said.read_text()[-2000:]}"
        assert time.monotonic() < deadline, f"no address after {seconds} s: {said.read_text()[-2000:]}"
        time.sleep(0.2)


def asset_keys(url: str) -> set[str]:
    query = "{ assetNodes { assetKey { path } } }"
    nodes = requests.post(f"{url}/graphql", json={"query": query}, timeout=30).json()["data"]["assetNodes"]
    return {"/".join(node["assetKey"]["path"]) for node in nodes}


def test_it_shows_the_assets_of_the_study_and_of_another_that_ran_in_the_home(served: Served) -> None:
    """The first test: it asks as soon as the address is printed."""
    keys = asset_keys(served.url)
    shown = ("lake/triples", "lake/answers", "marts/fct_adaptive_accuracy", "published_warehouse")
    assert {f"{study}/{key}" for study in ("small", "other") for key in shown} <= keys
    assert "small/indexes/dense" not in keys


def test_it_serves_the_report_and_its_answers(served: Served) -> None:
    published = served.home / "small" / "published"
    published.mkdir()
    for name in ("answers.html", "docs.html"):
        (published / name).write_text(f"this is {name}", encoding="utf-8")
    found = requests.get(f"{served.url}/published/answers.html", timeout=30)
    assert (found.status_code, found.text) == (200, "this is answers.html")
    for name in ("docs.html", "report.html"):
        assert requests.get(f"{served.url}/published/{name}", timeout=30).status_code == 404
    stranger = requests.get(
        f"{served.url}/published/answers.html", headers={"Host": "example.org"}, timeout=30
    )
    assert stranger.status_code == 403


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium with evil.example as a name of this machine, as after DNS rebinding."""
    profile = tmp_path_factory.mktemp("chromium")
    rebinding = "--host-resolver-rules=MAP evil.example 127.0.0.1"
    with chromium(profile, "nothing was looked at", rebinding) as driver:
        driver.set_window_size(1600, 1000)
        yield driver


def body_once(browser: Any, is_there: Callable[[str], bool], seconds: float = 60) -> str:
    """The text of the browser's page as soon as `is_there` is true for it."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    def text(driver: Any) -> str | None:
        found = driver.find_element(By.TAG_NAME, "body").text
        return found if is_there(found) else None

    return str(WebDriverWait(browser, seconds).until(text))


@pytest.fixture
def runs(served: Served) -> Iterator[tuple[dg.DagsterInstance, list[str]]]:
    """The served instance with a run for each attack of a website."""
    with dg.DagsterInstance.from_config(str(served.home / "dagster")) as instance:
        made = [instance.create_run_for_job(_job, status=dg.DagsterRunStatus.SUCCESS) for _ in range(3)]
        yield instance, [run.run_id for run in made]
        for run in made:
            instance.delete_run(run.run_id)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_another_website_changes_nothing_and_reads_nothing(
    served: Served, browser: Any, runs: tuple[dg.DagsterInstance, list[str]], name: str
) -> None:
    """A page of another port or name tries everything that a browser allows without asking the user."""
    instance, run_ids = runs
    with website(ATTACKS % (served.url, run_ids)) as port:
        browser.get(f"http://{name}:{port}/")
        tried = body_once(browser, lambda text: text.count("=") >= 5)
    assert {run_id for run_id in run_ids if instance.has_run(run_id)} == set(run_ids), tried
    assert not instance.get_latest_materialization_event(dg.AssetKey("attacked")), tried
    assert "websocket=refused" in tried


def test_a_foreign_name_of_this_machine_is_refused(served: Served, browser: Any) -> None:
    browser.get(served.url.replace("127.0.0.1", "evil.example"))
    assert "only the names 127.0.0.1 and localhost" in body_once(browser, bool)


def test_a_link_on_another_website_opens_the_ui_and_the_browser_draws_it(
    served: Served, browser: Any
) -> None:
    with website(f"<a href='{served.url}/asset-groups'>the study</a>") as port:
        browser.get(f"http://localhost:{port}/")
        browser.execute_script("document.querySelector('a').click()")
        assert "Something went wrong" not in body_once(
            browser, lambda text: "small" in text and "other" in text
        )


def test_local_programs_may_change_things(served: Served, runs: tuple[dg.DagsterInstance, list[str]]) -> None:
    instance, (run_id, *_) = runs
    mutation = f'mutation {{ deletePipelineRun(runId: "{run_id}") {{ __typename }} }}'
    asked = requests.get(f"{served.url}/graphql", params={"query": mutation}, timeout=30)
    assert (asked.status_code, instance.has_run(run_id)) == (403, True)
    requests.post(f"{served.url}/graphql", json={"query": mutation}, timeout=30).raise_for_status()
    assert not instance.has_run(run_id)


ATTACKS = """<body><script>
const ui = "%s", runs = %r, tried = text => document.body.append(text + " ");
const url = i => ui + "/graphql?query=" + encodeURIComponent(
    `mutation { deletePipelineRun(runId: "${runs[i]}") { __typename } }`);
const image = new Image();
image.onload = image.onerror = () => tried("image=sent");
image.src = url(0);
fetch(url(1), {method: "POST", mode: "no-cors", body: "x"}).then(() => tried("fetch=sent"), () => tried("fetch=failed"));
fetch(ui + "/report_asset_materialization/attacked", {method: "POST", mode: "no-cors"})
    .then(() => tried("report=sent"), () => tried("report=failed"));
const target = document.createElement("iframe");
target.name = "target";
document.body.append(target);
const form = document.createElement("form");
Object.assign(form, {method: "post", target: "target", action: url(2)});
document.body.append(form);
target.onload = () => { target.onload = null; tried("form=sent"); };
form.submit();
const socket = new WebSocket(ui.replace("http", "ws") + "/graphql", "graphql-ws");
socket.onopen = () => tried("websocket=open");
socket.onerror = () => tried("websocket=refused");
</script></body>"""


@contextlib.contextmanager
def website(page: str) -> Iterator[int]:
    """The port of a server on this machine with one HTML page."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *arguments: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@dg.op
def _nothing() -> None: ...


@dg.job
def _job() -> None:
    _nothing()


def test_a_failed_run_of_make_run_is_told_too(served: Served) -> None:
    """Such a run belongs to no code location. A sensor hears only of what fails after its first look, which
    it has had during the tests before."""
    deadline, failed = time.monotonic() + 150, []
    with dg.DagsterInstance.from_config(str(served.home / "dagster")) as instance:
        while not served.told and time.monotonic() < deadline:
            failed.append(_failing.execute_in_process(instance=instance, raise_on_error=False).run_id)
            time.sleep(5)
    assert served.told
    assert any(run_id.encode() in served.told[0] for run_id in failed)


def test_ctrl_c_leaves_no_process_behind(served: Served) -> None:
    process = served.process
    below = descendants(process.pid)
    assert len(below) >= 7  # a code server of each study with what that started, the webserver, the daemon
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 0
    assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]
    assert not list((served.home / "cache" / ".staging").iterdir())  # sockets and temporary files


@dg.op
def _fails() -> None:
    raise ValueError("as asked")


@dg.job
def _failing() -> None:
    _fails()
