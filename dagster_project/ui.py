"""What `make ui` does: Dagster's webserver and daemon on 127.0.0.1; one Ctrl-C ends both.

`dagster dev` in the background does not end on SIGTERM, and several daemons on one instance fail silently. Therefore
this module starts and watches each process itself, and allows one `make ui` per study.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from types import FrameType

from dagster_project.core.preflight import misses
from dagster_project.core.storage.home import PROJECT_ROOT, command, study_file
from dagster_project.core.storage.ownership import only_one
from dagster_project.core.study.file import load_study
from dagster_project.operations import in_one_line, open_instance
from dagster_project.ports import check_free, chosen_port

_GRACE_S = 10.0


@in_one_line
def main() -> int:
    """Serve the UI until a signal; return the exit code."""
    port = chosen_port("ui", 3000)
    study = load_study(study_file())
    os.environ["LONGTAIL_STUDY"] = str(study.path.resolve())
    busy = f"another `{command('ui')}` serves study {study.name}; stop it first"
    with only_one(study.home.locks / "ui.lock", busy):
        check_free(port, "ui")
        with open_instance(study):
            for line in misses(study):
                print(f"missing: {line}", file=sys.stderr)
        return _serve(port)


def _serve(port: int) -> int:
    web = [sys.executable, "-m", "dagster_project.webserver", str(port)]
    daemon = [
        f"{os.path.dirname(sys.executable)}/dagster-daemon",
        "run",
        "-w",
        str(PROJECT_ROOT / "workspace.yaml"),
    ]
    commands = [web, daemon]
    stop_at: list[float] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stop_at.append(time.monotonic() + _GRACE_S)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    children = [subprocess.Popen(command, cwd=PROJECT_ROOT, start_new_session=True) for command in commands]
    print(
        f"http://127.0.0.1:{port} (Ctrl-C ends it); the report: http://127.0.0.1:{port}/published/report.html",
        flush=True,
    )
    while not stop_at and all(child.poll() is None for child in children):
        time.sleep(0.2)
    died = [child for child in children if child.poll() is not None]
    _end(children)
    if died and not stop_at:
        print(
            "error: the webserver or the daemon ended by itself; its last lines above say why",
            file=sys.stderr,
        )
        return 1
    print("ended", flush=True)
    return 0


def _end(children: list[subprocess.Popen[bytes]]) -> None:
    """End each child with its whole process group: SIGTERM first, SIGKILL after the grace period."""
    for child in children:
        _signal(child, signal.SIGINT)
    deadline = time.monotonic() + _GRACE_S
    while time.monotonic() < deadline and any(child.poll() is None for child in children):
        time.sleep(0.1)
    for child in children:
        _signal(child, signal.SIGKILL)
        child.wait()


def _signal(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, number)
