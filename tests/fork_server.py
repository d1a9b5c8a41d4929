"""Starts the project's commands as forks of one process that has imported the large libraries already.

Only libraries are imported beforehand: each command imports the project itself, in a session, an environment and a
folder of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import runpy
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import IO, Any

PROJECT = Path(__file__).resolve().parents[1]
LIBRARIES = (
    "dagster", "dagster_dbt", "networkx", "sqlalchemy.orm", "alembic.command", "duckdb", "pandas", "pyarrow.parquet",
    "torch", "bm25s",
)  # fmt: skip
"""Not transformers: its hub reads the environment while it is imported, and a run sets that."""


@dataclass
class Started:
    """A command that was started. `stdout` is what it prints, where it was started with a pipe."""

    pid: int
    connection: socket.socket
    stdout: IO[str] | None = None
    returncode: int | None = field(default=None, init=False)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; the exit code, negative for a signal. Errors: `subprocess.TimeoutExpired`."""
        if self.returncode is None:
            self.connection.settimeout(timeout)
            try:
                ended = json.loads(_line(self.connection))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0) from None
            self.returncode = int(ended["code"])
            _count(ended["seconds"])
            self.connection.close()
        return self.returncode

    def poll(self) -> int | None:
        """The exit code, or None while the command runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def kill(self) -> bool:
        """Kill it and all that it started, and wait; whether it was still running."""
        alive = self.poll() is None
        with contextlib.suppress(ProcessLookupError):  # where it ended by itself, and nothing is left of it
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()
        if self.stdout is not None:
            self.stdout.close()
        return alive


_server: tuple[subprocess.Popen[bytes], str] | None = None
_counted = 0.0


def seconds() -> float:
    """Processor seconds of the commands that have ended, as long as the server runs; it takes them with it."""
    return _counted


def start(arguments: Sequence[str], cwd: Path, env: Mapping[str, str], out: IO[str], err: IO[str]) -> Started:
    """Start `python` with `arguments` (`-m module …`, `-c code …` or `file …`), in a session of its own."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(_address())
    request = json.dumps({"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}).encode()
    socket.send_fds(connection, [len(request).to_bytes(4, "big")], [out.fileno(), err.fileno()])
    connection.sendall(request)
    return Started(json.loads(_line(connection))["pid"], connection)


def start_piped(arguments: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Started:
    """The same; both of its outputs come as one, in `stdout`."""
    reads, writes = os.pipe()
    with os.fdopen(writes, "w") as out:
        process = start(arguments, cwd, env, out, out)
    process.stdout = os.fdopen(reads)
    return process


def run(
    arguments: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` with captured text. A command that takes too long is killed with all that it started."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = start(arguments, cwd, env, out, err)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(list(arguments), code, out.read(), err.read())


def close() -> None:
    """End the server; from then on its processor seconds are those of a child."""
    global _server, _counted
    if _server is not None:
        process, _ = _server
        _server, _counted = None, 0.0
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


atexit.register(close)


def _count(more: float) -> None:
    global _counted
    _counted += more


def _address() -> str:
    """Where the server listens; the first call starts it."""
    global _server
    if _server is None:
        address = str(Path(tempfile.mkdtemp(prefix="longtail-forks-")) / "socket")
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fork_server", address],
            cwd=PROJECT,
            env={**os.environ, "PYTHONPATH": str(PROJECT), "OMP_WAIT_POLICY": "PASSIVE"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        _server = process, address
    return _server[1]


def _line(connection: socket.socket) -> bytes:
    """One line that the server sent, no byte more."""
    line = b""
    while not line.endswith(b"\n"):
        line += connection.recv(1) or b"\n"
    return line


def _serve(address: str) -> dict[str, list[str]]:
    """Fork for each request until standard input ends; returns, in the fork, what it shall run."""
    for library in LIBRARIES:
        import_module(library)
    _begin_histories_as_copies()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    print("ready", flush=True)
    gc.freeze()  # no fork looks through the libraries' objects
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            Path(address).unlink()
            Path(address).parent.rmdir()
            with contextlib.suppress(ChildProcessError):
                while True:
                    os.wait()  # its seconds become this process's
            sys.exit()
        connection, _ = listener.accept()
        if not os.fork():
            listener.close()
            return _watched(connection)
        connection.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _begin_histories_as_copies() -> None:
    """From now on, the database of each Dagster run begins as a copy of one that Dagster made, in this process and in its
    forks: a copy takes a fifth of a study's start."""
    from dagster._core.storage.event_log import SqliteEventLogStorage
    from sqlalchemy import text

    begun, make = _first_history(SqliteEventLogStorage), SqliteEventLogStorage._initdb

    def copy(storage: Any, engine: Any, for_index_shard: bool = False) -> None:
        with engine.connect() as connection:
            empty = not connection.execute(text("select count(*) from sqlite_master")).scalar_one()
            if empty and not for_index_shard:
                begun.backup(connection.connection.driver_connection)
                connection.execute(text("pragma journal_mode = wal"))
                return
        make(storage, engine, for_index_shard)

    SqliteEventLogStorage._initdb = copy  # type: ignore[method-assign, assignment]


def _first_history(storage_class: Any) -> sqlite3.Connection:
    """The database that Dagster makes for a run, in memory."""
    begun = sqlite3.connect(":memory:", check_same_thread=False)
    with tempfile.TemporaryDirectory() as folder:
        storage = storage_class(folder)
        with storage.run_connection("run"):
            pass
        with contextlib.closing(sqlite3.connect(Path(folder) / "run.db")) as made:
            made.execute("pragma journal_mode = delete")  # a log beside it cannot be copied
            made.backup(begun)
    return begun


def _watched(connection: socket.socket) -> dict[str, list[str]]:
    """Fork again: this process tells how the command ended; returns, in the command, what it shall run."""
    head, files, _, _ = socket.recv_fds(connection, 4, 2)
    size, request = int.from_bytes(head, "big"), b""
    while len(request) < size:
        request += connection.recv(size - len(request))
    asked: dict[str, list[str]] = json.loads(request)
    pid = os.fork()
    if pid:
        for file in files:
            os.close(file)
        connection.sendall(json.dumps({"pid": pid}).encode() + b"\n")
        _, status, usage = os.wait4(pid, 0)
        ended = {"code": os.waitstatus_to_exitcode(status), "seconds": usage.ru_utime + usage.ru_stime}
        with contextlib.suppress(BrokenPipeError):
            connection.sendall(json.dumps(ended).encode() + b"\n")
        os._exit(0)
    connection.close()
    os.setsid()
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for file, target in zip(files, (1, 2), strict=True):
        os.dup2(file, target)
        os.close(file)
    return asked


def _become(asked: dict[str, list[str]]) -> None:
    """Run what was asked for, as `python` would, and end without taking the libraries apart."""
    code = 1
    try:
        _run(asked)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run(asked: dict[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    sys.path[:0] = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    kind, *sys.argv = asked["arguments"]
    if kind == "-m":
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        code, sys.argv[0] = sys.argv[0], "-c"
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv.insert(0, kind)
        sys.path.insert(0, str(Path(kind).parent))
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    _become(_serve(sys.argv[1]))
