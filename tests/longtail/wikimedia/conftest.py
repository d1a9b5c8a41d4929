"""A small world, served over real HTTP, and a client whose waits take no time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from longtail.sandbox.world import World
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.study.study import Study
from longtail.transfer.client import HttpClient
from longtail.transfer.http import RetryPolicy
from longtail.wikimedia import services
from tests.fake_time import FakeTime
from tests.faults import FaultyServer

LOG = logging.getLogger("test")


@pytest.fixture(autouse=True)
def no_contact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LONGTAIL_CONTACT", raising=False)


@pytest.fixture
def make_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Study]:
    """Load a study with this source, these datasets and this measure of popularity, as they stand in study.yaml.

    `LONGTAIL_HOME` then points to folder `home` of the test.
    """

    def make(
        source: str,
        datasets: str = "[{name: all}]",
        measure: str = "page_views",
        name: str = "a_study",
        home: str = "home",
    ) -> Study:
        monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / home))
        path = tmp_path / f"{home}_{name}.yaml"
        path.write_text(
            f"name: {name}\ndescription: for tests\nsource: {{{source}}}\ndatasets: {datasets}\n"
            "prompts: [{name: zero_shot}]\nmodels: [{name: m, path: fake, backend: fake}]\n"
            f"popularity: {{measure: {measure}}}\n",
            encoding="utf-8",
        )
        return load_study(path)

    return make


def empty_lake(study: Study) -> Lake:
    """The lake of a study, with the schema of every table."""
    lake = Lake(study.home.lake)
    lake.ensure_schemas()
    return lake


@pytest.fixture(scope="session")
def world() -> World:
    return World(seed=3, facts_per_relation=24)


@pytest.fixture
def server(world: World) -> Iterator[FaultyServer]:
    with FaultyServer(world) as running:
        yield running


@pytest.fixture
def fake_time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def client(fake_time: FakeTime) -> Iterator[HttpClient]:
    policy = RetryPolicy(attempts=4, connect_s=2, read_s=5)
    with HttpClient(policy=policy, clock=fake_time.clock()) as open_client:
        yield open_client


@pytest.fixture
def patient_client(fake_time: FakeTime) -> Iterator[HttpClient]:
    """A client for faults that any of three threads may meet, in any order."""
    with HttpClient(policy=RetryPolicy(attempts=12), clock=fake_time.clock()) as open_client:
        yield open_client


@pytest.fixture
def log() -> logging.Logger:
    return LOG


LIVE = {
    "_SPARQL": "/sparql",
    "_ENTITIES": "/w/api.php",
    "_TITLES": "/en/w/api.php",
    "_METRICS": "",
    "_DUMPS": "",
}


@pytest.fixture
def serve_live(monkeypatch: pytest.MonkeyPatch) -> Callable[[FaultyServer], None]:
    """A local server's addresses replace Wikimedia's; everything else is as for the live source."""

    def serve(server: FaultyServer) -> None:
        for name, path in LIVE.items():
            monkeypatch.setattr(services, name, server.base_url + path)
        monkeypatch.setenv("LONGTAIL_CONTACT", "mailto:someone@example.org")

    return serve


class RdfServers:
    """Starts a server for lines of N-Triples."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.running: list[FaultyServer] = []

    def __call__(self, *lines: str) -> FaultyServer:
        path = self._folder / f"{len(self.running)}.nt"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        self.running.append(FaultyServer(path))
        return self.running[-1].__enter__()


@pytest.fixture
def serve_rdf(tmp_path: Path) -> Iterator[RdfServers]:
    servers = RdfServers(tmp_path)
    yield servers
    for server in servers.running:
        server.__exit__(None, None, None)
