"""Two machines of a team, as processes here, whose processes are killed: docs/deployment.md has what was seen.

    python -m tools.team_trial <empty folder>

Each machine has a home and a code server with a study. They share a history and a row cache in Postgres and a lake in
an S3 store; a webserver and a daemon run on the first. "Materialize all" of both studies is launched at once. Then a
run's process, the daemon, Postgres and a code server are killed with -9, one after the other, and what has failed is
launched again, until all is there.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
import yaml

from benchmarks.cluster import postgres_server
from benchmarks.harness import say
from tests.in_process_dbt import put_parsed
from tests.journeys.commands import ANSWERS_ALONE, PROJECT, environment, run_study, small_study
from tests.journeys.test_ui import free_port
from tests.object_stores import s3_server

_LAUNCH = """
mutation launch($chosen: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $chosen) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
_BACKFILL = """
query backfill($id: String!) {
  partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status error { message } } }
  runsOrError(filter: {tags: [{key: "dagster/backfill", value: $id}]}) {
    ... on Runs { results { runId status assetSelection { path } } }
  }
}
"""
_SLOTS = (
    "{ instance { poolConfig { defaultPoolLimit } concurrencyLimits { concurrencyKey activeSlotCount } } }"
)
_ENDED = {"COMPLETED_SUCCESS", "COMPLETED_FAILED", "COMPLETED", "FAILED", "CANCELED"}
_RUNNING = {"STARTED", "STARTING"}


@dataclass
class Machine:
    """A home with a code server for its study."""

    study: Path
    home: Path
    port: int
    variables: dict[str, str]

    @property
    def name(self) -> str:
        """The study's."""
        return self.study.stem

    def run_process(self, run_id: str) -> int | None:
        """The process that holds the lock of a run."""
        lock = self.home / "locks/runs" / f"{run_id}.lock"
        with contextlib.suppress(FileNotFoundError):
            inode = f":{lock.stat().st_ino} "
            for line in Path("/proc/locks").read_text().splitlines():
                if inode in line:
                    return int(line.split()[4])
        return None


@dataclass
class Team:
    """All processes: what starts each of them again, and its present process."""

    folder: Path
    machines: list[Machine]
    url: str
    starts: dict[str, Callable[[], subprocess.Popen[bytes]]] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start a process."""
        self.processes[name] = self.starts[name]()

    def kill(self, name: str) -> None:
        """Kill a process of the team with -9, but not what it has started."""
        self.processes[name].kill()
        self.processes[name].wait()

    def ask(self, query: str, **variables: Any) -> Any:
        """The webserver's answer; None while it cannot answer, since its database is away."""
        with contextlib.suppress(requests.RequestException, ValueError):
            reply = requests.post(self.url, json={"query": query, "variables": variables}, timeout=120).json()
            return reply.get("data")
        return None

    def materialize_all(self, machine: Machine) -> str:
        """Launch what the button "Materialize all" launches; the backfill's id."""
        nodes = self.wait_for(
            lambda: self.ask("{ assetNodes { assetKey { path } isMaterializable } }"), "the assets"
        )
        paths = [node["assetKey"]["path"] for node in nodes["assetNodes"] if node["isMaterializable"]]
        chosen = {
            "assetSelection": [{"path": path} for path in paths if path[0] == machine.name],
            "allPartitions": True, "tags": [], "title": f"all of {machine.name}",
        }  # fmt: skip
        launched = self.ask(_LAUNCH, chosen=chosen)["launchPartitionBackfill"]
        if "backfillId" not in (launched or ()):
            raise SystemExit(f"error: {machine.name}: {launched}")
        return str(launched["backfillId"])

    def state(self, backfill: str) -> tuple[str, list[dict[str, Any]]]:
        """A backfill's status, and its runs."""

        def read() -> tuple[str, list[dict[str, Any]]] | None:
            with contextlib.suppress(LookupError, TypeError):  # errors while the database is away
                answer = self.ask(_BACKFILL, id=backfill)
                return answer["partitionBackfillOrError"]["status"], answer["runsOrError"]["results"]
            return None

        state: tuple[str, list[dict[str, Any]]] = self.wait_for(read, "the webserver")
        return state

    def wait_for(self, read: Callable[[], Any], what: str, seconds: float = 1_500) -> Any:
        """What `read` gives once it gives something. Processes that have ended are started again, as compose does."""
        until = time.monotonic() + seconds
        while not (value := read()):
            for name, process in self.processes.items():
                if process.poll() is not None:
                    say(f"       {name} has ended with {process.returncode}; it is started again")
                    self.start(name)
                    break
            if time.monotonic() > until:
                raise SystemExit(f"error: waited {seconds:.0f} s for {what}; logs are in {self.folder}")
            time.sleep(1)
        return value

    def running(self, machine: Machine, backfill: str, table: str = "") -> tuple[str, int] | None:
        """A run under way of a backfill, of a table where one is named, and its process."""
        for run in self.state(backfill)[1]:
            names = {path["path"][-1] for path in run["assetSelection"] or ()}
            process = machine.run_process(run["runId"])
            if run["status"] in _RUNNING and process and (not table or table in names):
                return run["runId"], process
        return None


@contextlib.contextmanager
def team_of(folder: Path) -> Iterator[tuple[Team, Callable[[str], None], int]]:
    """The processes, all of them healthy; what controls Postgres, and its port."""
    with postgres_server() as (address, control), s3_server() as store:
        settings = yaml.safe_load((PROJECT / "deploy/dagster.yaml").read_text())
        (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
        shared = {
            "LONGTAIL_DAGSTER_YAML": str(folder / "settings.yaml"),
            "LONGTAIL_HISTORY": address.replace("://", "+psycopg2://"),
            "LONGTAIL_ROW_CACHE": address,
            "DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR": "1",  # as in compose.yaml
            **store.environment,
        }
        machines = []
        for name in ("alpha", "beta"):
            (folder / name).mkdir(parents=True)
            study = write_study(folder / name, name)
            home = folder / name / "home"
            put_parsed(home, study)
            variables = environment(home, study, **shared, DAGSTER_HOME=str(home / "dagster"))
            machines.append(Machine(study, home, free_port(), variables))
        team, port, first = Team(folder, machines, ""), free_port(), machines[0]
        team.url = f"http://127.0.0.1:{port}/graphql"
        servers = [
            {"grpc_server": {"host": "127.0.0.1", "port": machine.port, "location_name": machine.name}}
            for machine in machines
        ]
        workspace = folder / "workspace.yaml"
        workspace.write_text(yaml.safe_dump({"load_from": servers}))

        def starter(
            name: str, variables: dict[str, str], *words: str
        ) -> Callable[[], subprocess.Popen[bytes]]:
            def start() -> subprocess.Popen[bytes]:
                with (folder / f"{name}.log").open("ab") as log:
                    return subprocess.Popen(
                        [sys.executable, "-m", *words], cwd=PROJECT, env=variables, stdout=log, stderr=log
                    )

            return start

        for machine in machines:
            serve = (
                "-m",
                "dagster_project.definitions",
                "--location-name",
                machine.name,
                "--host",
                "127.0.0.1",
            )
            # as Dagster's settings come into a home: by a command of Longtail there
            prepare = subprocess.run(
                [sys.executable, "-c", _PREPARE],
                cwd=PROJECT,
                env=machine.variables,
                capture_output=True,
                text=True,
            )
            if prepare.returncode:
                raise SystemExit(f"error: {prepare.stderr}")
            team.starts[machine.name] = starter(
                machine.name,
                machine.variables,
                "dagster",
                "code-server",
                "start",
                *serve,
                "--port",
                str(machine.port),
            )
        team.starts["webserver"] = starter(
            "webserver", first.variables, "dagster_project.webserver", str(port), str(workspace)
        )
        team.starts["daemon"] = starter(
            "daemon", first.variables, "dagster._daemon", "run", "-w", str(workspace)
        )
        try:
            for name in team.starts:
                team.start(name)
                if name != "beta":
                    time.sleep(2)
            count = "{ assetNodes { assetKey { path } } }"

            def all_loaded() -> bool:
                nodes = (team.ask(count) or {}).get("assetNodes", ())
                return {node["assetKey"]["path"][0] for node in nodes} == {"alpha", "beta"}

            team.wait_for(all_loaded, "both code servers")
            yield team, control, int(address.rpartition(":")[2].partition("/")[0])
        finally:
            for process in team.processes.values():
                process.terminate()
            for process in team.processes.values():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(60)
                process.kill()


_PREPARE = """
from dagster_project.operations import open_instance
from longtail.storage.home import study_file
from longtail.study.file import load_study
with open_instance(load_study(study_file())):
    pass
"""


def write_study(folder: Path, name: str) -> Path:
    """A small study of this name."""
    path = small_study(
        folder, "fake:digest", facts=8, edit={**ANSWERS_ALONE, "name: small\nd": f"name: {name}\nd"}
    )
    return path.rename(folder / f"{name}.yaml")


def main() -> None:
    """Run the trial; print what happened after each fault, and whether the rows are those of a machine alone."""
    parser = argparse.ArgumentParser(description="two machines of a team whose processes are killed")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.resolve()
    began = time.monotonic()

    def tell(text: str) -> None:
        say(f"{time.monotonic() - began:5.0f} s: {text}")

    with team_of(folder) as (team, control, postgres_port):
        alpha, beta = team.machines
        tell("webserver, daemon and both code servers answer")
        backfills = {machine.name: team.materialize_all(machine) for machine in team.machines}
        tell("launched: all of alpha, all of beta")

        run_id, process = team.wait_for(
            lambda: team.running(alpha, backfills["alpha"], "answers"), "alpha's answers"
        )
        os.kill(process, signal.SIGKILL)
        tell(f"killed the process of run {run_id[:8]} (answers of alpha)")
        team.wait_for(lambda: status_of(team, backfills["alpha"], run_id) == "FAILURE", "the run's failure")
        tell("its run is marked as failed")

        team.wait_for(lambda: team.running(beta, backfills["beta"]), "a run of beta")
        team.kill("daemon")
        tell("killed the daemon, with a run of beta under way")
        time.sleep(15)
        team.start("daemon")
        tell("started the daemon again")
        tell(f"all of alpha ended: {end_of(team, backfills['alpha'])}")
        backfills["alpha"] = team.materialize_all(alpha)
        tell("launched again: all of alpha")

        run_id, _ = team.wait_for(lambda: team.running(alpha, backfills["alpha"]), "a run of alpha")
        kill_postgres(postgres_port)
        tell(f"killed Postgres, with run {run_id[:8]} of alpha under way")
        start_postgres(control)
        tell("started Postgres again")
        for machine in team.machines:
            tell(f"all of {machine.name} ended: {end_of(team, backfills[machine.name])}")

        backfills = {machine.name: team.materialize_all(machine) for machine in team.machines}
        tell("launched again: both")
        run_id, _ = team.wait_for(lambda: team.running(beta, backfills["beta"]), "a run of beta")
        team.kill("beta")
        tell(f"killed the code server of beta, with run {run_id[:8]} under way")
        team.start("beta")
        for machine in team.machines:
            for _ in range(4):
                ended = end_of(team, backfills[machine.name])
                tell(f"all of {machine.name} ended: {ended}")
                if ended.startswith("COMPLETED_SUCCESS"):
                    break
                backfills[machine.name] = team.materialize_all(machine)
                tell(f"launched again: all of {machine.name}")
        slots = team.wait_for(lambda: team.ask(_SLOTS), "the pools")
        tell(f"pools: {slots['instance']['concurrencyLimits']}")
    for machine in (alpha, beta):
        alone = folder / f"{machine.name}_alone"
        done = run_study(alone, machine.study)
        tell(
            f"`make run` of {machine.name} alone: exit code {done.returncode}; compare {machine.home} and {alone}"
        )


def status_of(team: Team, backfill: str, run_id: str) -> str:
    """The status of a backfill's run."""
    return next((run["status"] for run in team.state(backfill)[1] if run["runId"] == run_id), "")


def end_of(team: Team, backfill: str) -> str:
    """How a backfill and its runs have ended."""

    def ended() -> tuple[str, list[dict[str, Any]]] | None:
        status, runs = team.state(backfill)
        return (status, runs) if status in _ENDED else None

    status, runs = team.wait_for(ended, "the end of a backfill")
    statuses = [run["status"] for run in runs]
    return f"{status}, runs: " + ", ".join(f"{statuses.count(one)} {one}" for one in sorted({*statuses}))


def kill_postgres(port: int) -> None:
    """Kill the server's first process with -9; its others end by themselves."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"postgres") and str(port).encode() in words:
                os.kill(int(folder.name), signal.SIGKILL)
                return
    raise SystemExit("error: no process of Postgres")


def start_postgres(control: Callable[[str], None]) -> None:
    """Start the server when the last process of the killed one has ended, as Postgres asks for."""
    for _ in range(20):
        time.sleep(5)
        with contextlib.suppress(subprocess.CalledProcessError):
            control("start")
            return
    raise SystemExit("error: Postgres did not start")


if __name__ == "__main__":
    main()
