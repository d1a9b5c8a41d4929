"""The service over real HTTP: decisions, names, errors as JSON, other websites, newer versions while it serves."""

from __future__ import annotations

import logging
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import requests
import uvicorn
from hand_made import BM25, DENSE, write_marts

from longtail.commands.router import SERVED, application
from longtail.router import RouterError, load_router
from longtail.router.publish import publish_routers
from longtail.router.service import EVERY_S, LARGEST_BODY, MOST_QUESTIONS, NAMES, RouterStore
from longtail.study.study import Study
from tests.journeys.commands import PROJECT, command, environment
from tests.lakes import LakePlan, make_study

LOG = logging.getLogger(__name__)


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Client:
    """A served study: `publish` makes a newer version, `link` leads to the newest."""

    def __init__(self, study: Study, url: str, clock: Clock) -> None:
        self.study, self.url, self.clock = study, url, clock
        self.link = study.home.published_router

    def get(self, path: str, **keys: Any) -> requests.Response:
        return requests.get(f"{self.url}{path}", timeout=30, **keys)

    def post(self, path: str, body: Any, **keys: Any) -> requests.Response:
        return requests.post(f"{self.url}{path}", json=body, timeout=30, **keys)

    def health(self) -> dict[str, Any]:
        return dict(self.get("/healthz").json())

    def decide(self, **fields: Any) -> dict[str, Any]:
        return dict(self.post("/decide", {"router": BM25, **fields}).json())

    def publish(self, threshold: float) -> None:
        with duckdb.connect(str(self.study.home.published_warehouse)) as connection:
            connection.execute("update marts.publication set published_at = published_at + interval 1 second")
            connection.execute(
                "update marts.fct_adaptive_thresholds set threshold_popularity = ? where relation = 'composer' "
                "and decision = 'below'",
                [threshold],
            )
        publish_routers(self.study, LOG)


def published(folder: Path, patch: pytest.MonkeyPatch) -> Study:
    patch.setenv("LONGTAIL_HOME", str(folder / "home"))
    study = make_study(folder, LakePlan())
    write_marts(study.home.published_warehouse)
    publish_routers(study, LOG)
    return study


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with pytest.MonkeyPatch.context() as patch:
        study, clock = published(tmp_path_factory.mktemp("served"), patch), Clock()
        app = application(RouterStore(study.home.published_router, clock))
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()  # requests wait until the server accepts them
            server = uvicorn.Server(uvicorn.Config(app, **SERVED))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
            thread.start()
            try:
                yield Client(study, f"http://127.0.0.1:{listening.getsockname()[1]}", clock)
            finally:
                server.should_exit = True
                thread.join()


def test_it_decides_as_the_file_does(client: Client) -> None:
    router = load_router(client.link / f"{BM25}.json")
    risky = {"confidence": 0.5, "passage_confidence": 0.5, "greatest_risk": 0.2}
    assert router.decide(**risky).abstain
    for fields in (
        {"popularity": 3.9, "relation": "composer"},
        {"popularity": 4},
        {"relation": "x"},
        {},
        risky,
    ):
        decision = router.decide(**fields)
        assert client.decide(**fields) == {
            "retrieve": decision.retrieve, "accuracy_with": decision.accuracy_with,
            "accuracy_without": decision.accuracy_without, "n": decision.n, "why": decision.why,
            "abstain": decision.abstain,
        }  # fmt: skip


def test_a_batch_is_answered_in_its_order(client: Client) -> None:
    questions = [
        {"popularity": 1.0, "relation": "composer"},
        {"popularity": 1e9},
        {"relation": "capital"},
        {},
    ]
    answered = client.post("/decide_batch", {"router": BM25, "questions": questions})
    assert answered.json() == [client.decide(**question) for question in questions]
    assert client.post("/decide_batch", {"router": BM25, "questions": []}).json() == []


def test_names_have_candidates(client: Client) -> None:
    found = client.get("/lookup", params={"name": "PARIS"}).json()
    assert [one["entity_id"] for one in found["candidates"]] == ["Q1", "Q2", "Q3"]
    assert found["candidates"][0] == {
        "entity_id": "Q1", "label": "Paris", "description": "capital of France", "popularity": 9.5
    }  # fmt: skip
    assert client.get("/lookup", params={"name": "nobody"}).json() == {"name": "nobody", "candidates": []}


def test_health_lists_the_routers(client: Client) -> None:
    health = client.health()
    assert (health["status"], health["error"], health["names"]) == ("ok", None, 6)
    assert {name: router["policy"] for name, router in health["routers"].items()} == {
        BM25: "per_relation", DENSE: "always"
    }  # fmt: skip
    assert {*health["routers"][BM25]} == {"signal", "policy", "why", "features", "relations"}
    assert health["folder"] == client.link.resolve().name


def test_the_description_names_every_address(client: Client) -> None:
    description = client.get("/openapi.json").json()
    assert set(description["paths"]) == {"/decide", "/decide_batch", "/lookup", "/healthz"}
    refusals = {
        path: {*description["paths"][path]["post"]["responses"]} for path in ("/decide", "/decide_batch")
    }
    assert refusals == {path: {"200", "404", "413", "422"} for path in refusals}


@pytest.mark.parametrize(
    ("body", "field", "expected"),
    [
        ({"popularity": 1}, "body.router", "Field required"),
        ({"router": BM25, "popularity": -1}, "body.popularity", "greater than or equal to 0"),
        ({"router": BM25, "popularity": "12"}, "body.popularity", "valid number"),
        ({"router": BM25, "popularity": True}, "body.popularity", "valid number"),
        ({"router": BM25, "consistency": 1.01}, "body.consistency", "less than or equal to 1"),
        ({"router": BM25, "certainty": -1.01}, "body.certainty", "greater than or equal to -1"),
        ({"router": BM25, "relation": 7}, "body.relation", "valid string"),
        ({"router": BM25, "popularty": 7}, "body.popularty", "not permitted"),
        ([], "body", "valid dictionary"),
    ],
)
def test_values_that_do_not_fit_are_told_by_field(
    client: Client, body: Any, field: str, expected: str
) -> None:
    refused = client.post("/decide", body)
    assert refused.status_code == 422
    assert expected in refused.json()["expected"][field]


@pytest.mark.parametrize("popularity", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_json_does_not_have_are_told(client: Client, popularity: str) -> None:
    raw = f'{{"router": "{BM25}", "popularity": {popularity}}}'
    headers = {"Content-Type": "application/json"}
    refused = requests.post(f"{client.url}/decide", data=raw, headers=headers, timeout=30)
    assert refused.status_code == 422
    assert list(refused.json()["expected"]) == ["body.popularity"]


@pytest.mark.parametrize(
    ("raw", "kind"), [("{", "application/json"), ('{"router": "x"}', "text/plain"), ("", "")]
)
def test_a_body_that_is_no_json_is_told(client: Client, raw: str, kind: str) -> None:
    refused = requests.post(f"{client.url}/decide", data=raw, headers={"Content-Type": kind}, timeout=30)
    assert refused.status_code == 422
    assert refused.json()["error"] == "the request does not fit"
    assert ("curl --json" in str(refused.json()["expected"])) == (kind != "application/json")


def test_unknown_routers_and_addresses_are_told(client: Client) -> None:
    refused = client.post("/decide", {"router": "none"})
    assert refused.status_code == 404
    assert refused.json() == {"error": f"no router has this name; published are: {BM25}, {DENSE}"}
    assert client.get("/decide").status_code == 405
    assert client.get("/nothing").json() == {"error": "Not Found"}


def test_bodies_and_batches_have_a_limit(client: Client) -> None:
    most = {"router": BM25, "questions": [{}] * MOST_QUESTIONS}
    assert len(client.post("/decide_batch", most).json()) == MOST_QUESTIONS
    more = client.post("/decide_batch", {**most, "questions": [{}] * (MOST_QUESTIONS + 1)})
    assert more.status_code == 422
    assert "at most 1000 items" in more.json()["expected"]["body.questions"]
    large = client.post("/decide", {"router": "x" * LARGEST_BODY})
    assert large.status_code == 413
    assert large.json() == {"error": "the body has more than 1,000,000 bytes"}
    assert client.get("/lookup", params={"name": "x" * 1_001}).status_code == 422


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_other_websites_get_no_answers(client: Client, headers: dict[str, str]) -> None:
    refused = client.post("/decide", {"router": BM25}, headers=headers)
    assert refused.status_code == 403
    assert set(refused.json()) == {"error"}


def test_a_newer_version_is_served_within_a_second(client: Client) -> None:
    question = {"popularity": 6, "relation": "composer"}
    client.publish(7)
    assert client.decide(**question)["retrieve"] is False
    client.clock.seconds += EVERY_S
    assert client.decide(**question)["retrieve"] is True
    assert client.health()["folder"] == client.link.resolve().name
    client.publish(4)
    client.clock.seconds += EVERY_S
    assert client.decide(**question)["retrieve"] is False


@pytest.mark.parametrize("file", [f"{BM25}.json", NAMES])
@pytest.mark.parametrize("damage", ["cut", "of another version", "removed"])
def test_a_bad_version_is_told_and_the_last_good_one_keeps_serving(
    client: Client, file: str, damage: str
) -> None:
    before = client.decide(popularity=6, relation="composer"), client.health()["folder"]
    client.publish(5)
    path = client.link / file
    good = path.read_bytes()
    path.unlink()
    if damage != "removed":
        path.write_bytes(
            good[:300] if damage == "cut" else re.sub(rb'"version": \d', b'"version": 9', good, count=1)
        )
    client.clock.seconds += EVERY_S
    health = client.health()
    if damage == "removed" and file != NAMES:  # a folder may have fewer routers, or none
        assert (health["status"], list(health["routers"])) == ("ok", [DENSE])
    else:
        assert (health["status"], health["folder"]) == ("stale", before[1])
        assert file in health["error"]
        assert client.decide(popularity=6, relation="composer") == before[0]
    path.unlink(missing_ok=True)
    path.write_bytes(good)
    client.clock.seconds += EVERY_S
    assert (client.health()["status"], client.health()["folder"]) == ("ok", client.link.resolve().name)


@pytest.fixture
def changed(client: Client) -> Iterator[Path]:
    """A newer version to change; another one follows it."""
    client.publish(5)
    folder = client.link.resolve()
    yield folder
    client.publish(4)
    client.clock.seconds += EVERY_S
    assert client.health()["status"] == "ok"


def test_a_folder_without_routers_is_told_as_unhealthy(client: Client, changed: Path) -> None:
    for path in changed.glob("*.json"):
        path.unlink()
    client.clock.seconds += EVERY_S
    health = client.get("/healthz")
    assert (health.status_code, health.json()["status"], health.json()["routers"]) == (503, "empty", {})
    asked = client.post("/decide", {"router": BM25})
    assert (asked.status_code, asked.json()["error"]) == (
        404, "no router has this name; published are: none"
    )  # fmt: skip


def test_a_removed_publication_is_told_until_it_is_back(client: Client) -> None:
    moved = client.link.with_name("moved")
    client.link.rename(moved)
    client.clock.seconds += EVERY_S
    assert client.health()["status"] == "stale"
    assert "no routers are published" in client.health()["error"]
    assert "retrieve" in client.decide(popularity=1)
    moved.rename(client.link)
    client.clock.seconds += EVERY_S
    assert client.health()["status"] == "ok"


def test_without_a_good_version_the_service_does_not_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study = published(tmp_path, monkeypatch)
    path = study.home.published_router / f"{BM25}.json"
    path.unlink()
    path.write_bytes(b"")
    with pytest.raises(RouterError, match=f"{BM25}.json: is not a file of format"):
        RouterStore(study.home.published_router)
    shutil.rmtree(study.home.published / "routers")
    with pytest.raises(
        RouterError,
        match=r"no routers are published \(No such file or directory\); run `make run LONGTAIL_HOME=",
    ):
        RouterStore(study.home.published_router)


def test_make_router_serves_and_ends_on_ctrl_c(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    study = published(tmp_path, monkeypatch)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    process = subprocess.Popen(
        command("router", "--port", port), cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(tmp_path / "home", study.path),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"http://127.0.0.1:{port} serves 2 routers (Ctrl-C ends it)\n"
        assert _once_up(f"http://127.0.0.1:{port}/healthz", process)["status"] == "ok"
        taken = subprocess.run(
            command("router", "--port", port), cwd=PROJECT, capture_output=True, text=True, check=False,
            env=environment(tmp_path / "home", study.path),
        )  # fmt: skip
        assert (taken.returncode, taken.stderr.splitlines()) == (
            1,
            [
                f"error: port {port} is taken; choose another: make router STUDY={study.path}"
                f" LONGTAIL_HOME={tmp_path / 'home'} PORT={int(port) + 1}"
            ],
        )  # fmt: skip
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert "Traceback" not in said


def _once_up(url: str, process: subprocess.Popen[str]) -> dict[str, Any]:
    """The reply of a server that has just said it serves: its socket may listen a moment later."""
    while process.poll() is None:
        try:
            return dict(requests.get(url, timeout=30).json())
        except requests.ConnectionError:
            time.sleep(0.05)
    raise AssertionError("the service ended by itself")
