"""The image and compose.yaml, as far as no Docker is needed: their instructions, and their commands in a plain folder."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from dagster._daemon.cli import create_dagster_daemon_cli

from tests.in_process_dbt import put_parsed
from tests.journeys.commands import PROJECT, environment
from tests.journeys.test_ui import free_port

COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "compose.yaml").read_text())
WORKSPACE = "deploy/workspace.yaml"
SERVERS = [entry["grpc_server"] for entry in yaml.safe_load((PROJECT / WORKSPACE).read_text())["load_from"]]


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (PROJECT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", "")
    pairs = (line.partition(" ") for line in text.splitlines() if line)
    return [(word, rest) for word, _, rest in pairs]


def test_the_image_is_pinned_and_runs_as_no_root() -> None:
    found = instructions()
    (base,) = (rest for word, rest in found if word == "FROM")
    assert re.fullmatch(r"[\w/]+:[\w.-]*\d[\w.-]*", base)
    assert [rest for word, rest in found if word == "USER"][-1] == "longtail"
    assert found.index(("USER", "longtail")) < found.index(("VOLUME", "/data"))
    for word, rest in found:
        *sources, _ = shlex.split(rest) or [""]
        assert word != "COPY" or all((PROJECT / source).exists() for source in sources), rest
        assert (
            word != "RUN"
            or "pip install" not in rest
            or {"--no-cache-dir", "constraints.txt"} <= {*rest.split()}
        )
        assert word not in ("ENTRYPOINT", "CMD") or json.loads(rest)
    extras = next(rest for word, rest in found if word == "ARG" and "EXTRAS" in rest).partition("=")[2]
    assert all(f"\n{extra} = [" in (PROJECT / "pyproject.toml").read_text() for extra in extras.split(","))


def test_each_server_of_the_workspace_is_a_service() -> None:
    """Ports and passwords of the services: `tests/test_project_files.py`."""
    for server in SERVERS:
        words = COMPOSE["services"][server["host"]]["command"]
        assert words[words.index("--location-name") + 1] == server["location_name"]
        assert words[words.index("--port") + 1] == str(server["port"])


def words_of(service: str, changes: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The command of a service and that of its health check, with other words in place of those in `changes`."""
    part = COMPOSE["services"][service]
    check = [
        re.sub("[34]000", lambda port: changes[port[0]], word) for word in part["healthcheck"]["test"][1:]
    ]
    return [changes.get(word, word) for word in part["command"]], check


def test_its_daemon_takes_its_options() -> None:
    """One runs in `tests/journeys/test_ui.py`."""
    for words in words_of("daemon", {}):
        program, name, *options = words
        assert program == "dagster-daemon"
        create_dagster_daemon_cli().commands[name].make_context(name, options)


def test_its_commands_serve_the_study_in_a_plain_folder(tmp_path: Path) -> None:
    """Code server and webserver, without Postgres and the store; the pages answer to localhost alone."""
    study, home, port, code_port = PROJECT / "study.yaml", tmp_path / "home", free_port(), free_port()
    put_parsed(home, study)
    servers = [{"grpc_server": {**SERVERS[0], "host": "127.0.0.1", "port": code_port}}]
    (tmp_path / "workspace.yaml").write_text(yaml.safe_dump({"load_from": servers}))
    changes = {
        "0.0.0.0": "127.0.0.1", "3000": str(port), "4000": str(code_port), WORKSPACE: str(tmp_path / "workspace.yaml"),
    }  # fmt: skip
    variables = environment(home, study, DAGSTER_HOME=str(home / "dagster"))
    binaries, children = Path(sys.executable).parent, list[subprocess.Popen[bytes]]()

    def serve(service: str, its_port: int) -> None:
        """Start a service; when its port is open, ask for its health."""
        words, check = words_of(service, changes)
        with (tmp_path / "log").open("ab") as log:
            run = [str(binaries / words[0]), *words[1:]]
            children.append(subprocess.Popen(run, cwd=PROJECT, env=variables, stdout=log, stderr=log))
        for _ in range(300):
            assert children[-1].poll() is None, (tmp_path / "log").read_text()[-3000:]
            with socket.socket() as probe:
                if (
                    not probe.connect_ex(("127.0.0.1", its_port))
                    and not subprocess.run(
                        [str(binaries / check[0]), *check[1:]], env=variables, capture_output=True
                    ).returncode
                ):
                    return
            time.sleep(1)
        pytest.fail(f"{service} is not healthy: {(tmp_path / 'log').read_text()[-3000:]}")

    try:
        serve("sandbox", code_port)
        serve("webserver", port)
        address, query = f"http://127.0.0.1:{port}/graphql", "{ assetNodes { assetKey { path } } }"
        nodes = requests.post(address, json={"query": query}, timeout=60).json()["data"]["assetNodes"]
        assert ["sandbox", "marts", "fct_accuracy"] in [node["assetKey"]["path"] for node in nodes]
        foreign = requests.post(
            address, json={"query": query}, headers={"Host": "longtail.example.org"}, timeout=60
        )
        assert foreign.status_code == 403
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait(60)
