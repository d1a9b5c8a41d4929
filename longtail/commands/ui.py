"""What `make ui` does: Dagster's webserver and daemon on 127.0.0.1; one Ctrl-C ends both.

`dagster dev` in the background does not end on SIGTERM, and several daemons on one instance fail silently. Therefore
this module starts and watches each process itself, and allows one `make ui` per home. Each study that has run in the home
has a code server, which loads its assets for both.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import yaml

from dagster_project.operations import in_one_line, open_instance, studies_of_home
from longtail.commands import free_port
from longtail.errors import LongtailError
from longtail.preflight import misses
from longtail.processes import end_with_parent
from longtail.storage.files import atomic_file, temporary_folder
from longtail.storage.home import PROJECT_ROOT, study_file
from longtail.storage.ownership import only_one
from longtail.study.file import load_study
from longtail.warehouse.build import prepare_manifest

MODULE = "dagster_project.definitions"
"""What a code server loads; Dagster's name for it is the study's."""
_GRACE_S = 2.5
_HEARTBEAT_S = 120
"""A code server ends if it was not asked for so long: a machine under load needs a while."""


@in_one_line
def main(port: str = "3000") -> int:
    """Serve the UI until a signal: the chosen study, and all that have run in this home."""
    study = load_study(study_file())
    os.environ["LONGTAIL_STUDY"] = str(study.path.resolve())
    busy = f"another web interface serves {study.home.home}; stop it first"
    with only_one(study.home.home / "locks" / "ui.lock", busy), temporary_folder("ui") as folder:
        number = free_port(port, "ui")
        with open_instance(study):
            for line in misses(study):
                print(f"missing: {line}", file=sys.stderr)
        print("starting; the address follows", flush=True)
        prepare_manifest(study)
        with _short(folder) as short:
            _serve(number, short, {**studies_of_home(), study.name: study.path.resolve()})
        return 0


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[Path]:
    """A path of few plain characters to a folder, for this process and those below it.

    The path of a socket has at most 107 characters, and Dagster decodes a % in it.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        short = Path(f"/proc/{os.getpid()}/fd/{descriptor}")
        yield short if short.exists() else folder
    finally:
        os.close(descriptor)


def _serve(port: int, folder: Path, studies: Mapping[str, Path]) -> None:
    """Serve `studies`, files by their names, until a signal or an error. `folder`: for the sockets and temporary files of
    Dagster."""
    programs, workspace = Path(sys.executable).parent, folder / "workspace.yaml"
    sockets = {name: folder / f"code{number}" for number, name in enumerate(studies)}
    children: list[subprocess.Popen[bytes]] = []

    def start(*arguments: object, **more: str) -> None:
        children.append(
            subprocess.Popen(
                [str(one) for one in arguments],
                cwd=PROJECT_ROOT,
                env={**os.environ, "TMPDIR": str(folder), **more},
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        )

    def wait_for(is_there: Callable[[], bool]) -> None:
        while not is_there():
            if any(child.poll() is not None for child in children):
                raise LongtailError(
                    "a process of the web interface ended by itself; its last lines above say why"
                )
            time.sleep(0.2)

    try:
        for name, file in studies.items():
            start(
                *(
                    programs / "dagster",
                    "code-server",
                    "start",
                    "--module-name",
                    MODULE,
                    "--location-name",
                    name,
                ),
                *("--heartbeat-ttl", _HEARTBEAT_S, "--socket", sockets[name], "--log-level", "warning"),
                LONGTAIL_STUDY=str(file),
            )
        start(sys.executable, "-m", "dagster_project.webserver", port, workspace)
        wait_for(lambda: all(socket.exists() for socket in sockets.values()))
        with atomic_file(workspace, staging=folder) as temporary:
            servers = [{"socket": str(socket), "location_name": name} for name, socket in sockets.items()]
            load_from = [{"grpc_server": server} for server in servers]
            temporary.write_text(yaml.safe_dump({"load_from": load_from}), encoding="utf-8")
        wait_for(lambda: _answers(port))
        start(programs / "dagster-daemon", "run", "-w", workspace)
        address = f"http://127.0.0.1:{port}"
        print(f"{address} (Ctrl-C ends it); the report: {address}/published/report.html", flush=True)
        wait_for(lambda: False)
    finally:
        _end(children)


def _answers(port: int) -> bool:
    """Whether the webserver answers; it does so when it has read all assets."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/server_info")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _end(children: list[subprocess.Popen[bytes]]) -> None:
    """End each child with its whole process group: SIGTERM first, SIGKILL after the grace period."""
    for child in children:
        _signal(child, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_S
    while time.monotonic() < deadline and any(child.poll() is None for child in children):
        time.sleep(0.1)
    for child in children:
        _signal(child, signal.SIGKILL)
        child.wait()


def _signal(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, number)
