"""A command ends with all that it started, whatever its program does, and says so in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
WORST_S = 60.0
"""A guard: nothing here waits for it."""
PROGRAM = """
import os, signal, subprocess, sys, time
from longtail import processes
from longtail.processes import end_with_parent, supervise

processes.GRACE_S = SECONDS
SLEEPER = (
    "import signal, time\\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\\nprint('child', flush=True)\\n"
    "time.sleep(1000)"
)

def program():
    child = subprocess.Popen(
        [sys.executable, "-c", SLEEPER], start_new_session=True, preexec_fn=PREEXEC, stdout=subprocess.PIPE
    )
    child.stdout.readline()
    READY
    while True: time.sleep(1000)

sys.exit(supervise(program, "stopped", OPTIONS))
"""
READY = "print('ready', flush=True)"
DEAF = f"signal.pthread_sigmask(signal.SIG_BLOCK, (1, 2, 15)); {READY}"
"""As where a compiled loop lets Python see no signal."""


@contextmanager
def started(
    ready: str = READY, *before: str, preexec: str = "None", grace: float = 0.2, options: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """A supervise program that has started a process which heeds no signal, and is `ready`."""
    code = PROGRAM.replace("READY", ready).replace("PREEXEC", preexec).replace("SECONDS", str(grace))
    code = code.replace("OPTIONS", options)
    with subprocess.Popen(
        [*before, sys.executable, "-c", code], cwd=PROJECT, env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code and what it wrote as errors, once no process holds its outputs: all have ended."""
    out, err = process.communicate(timeout=WORST_S)
    assert out == ""
    return process.returncode, err


@pytest.mark.parametrize("ready", [READY, DEAF], ids=["heeds it", "deaf"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_a_signal_ends_the_program_and_all_that_it_started(number: signal.Signals, ready: str) -> None:
    with started(ready) as process:
        process.send_signal(number)
        assert ended(process) == (128 + number, "stopped\n")


def test_a_signal_to_all_processes_at_once_is_told_once() -> None:
    """As `timeout` and a service manager send it."""
    with started() as process:
        os.killpg(process.pid, signal.SIGTERM)
        assert ended(process) == (128 + signal.SIGTERM, "stopped\n")


def test_a_second_interrupt_ends_a_program_at_once() -> None:
    heard = "signal.signal(2, lambda *_: print('heard', flush=True))"
    with started(f"{heard}; {READY}", grace=1e6) as process:
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.readline() == "heard\n"
        process.send_signal(signal.SIGINT)
        assert ended(process) == (128 + signal.SIGINT, "stopped\n")


def test_what_kills_the_program_is_named() -> None:
    with started(f"{READY}; os.kill(os.getpid(), signal.SIGKILL)") as process:
        assert ended(process) == (128 + signal.SIGKILL, "signal SIGKILL ended it; stopped\n")


@pytest.mark.parametrize("code", [0, 3])
def test_what_a_program_leaves_behind_ends_with_it(code: int) -> None:
    with started(f"{READY}; return {code}") as process:
        assert ended(process) == (code, "")


def test_a_program_that_ends_as_asked_has_its_own_exit_code() -> None:
    """A server."""
    with started(f"signal.signal(2, lambda *_: sys.exit(0)); {READY}", grace=1e6) as process:
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (0, "")


@pytest.mark.parametrize("ready", [READY, DEAF], ids=["heeds it", "deaf"])
def test_a_server_that_a_signal_ends_has_not_failed(ready: str) -> None:
    with started(ready, options="serves=True") as process:
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (0, "stopped\n")


def test_ctrl_c_does_not_end_a_program_that_takes_it() -> None:
    heard = "signal.signal(2, lambda *_: print('heard', flush=True))"
    with started(f"{heard}; {READY}", options="takes_interrupts=True") as process:
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            assert process.stdout is not None
            assert process.stdout.readline() == "heard\n"
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (128 + signal.SIGTERM, "stopped\n")


def test_an_error_that_a_library_makes_of_an_interrupt_shows_no_trace() -> None:
    """DuckDB's way."""
    with started(
        f"{READY}\n    try: time.sleep(1000)\n    except BaseException as e: raise RuntimeError from e"
    ) as process:
        process.send_signal(signal.SIGINT)
        assert ended(process) == (128 + signal.SIGINT, "stopped\n")


def test_an_error_keeps_its_trace() -> None:
    with started(f"{READY}; raise ValueError('mine')") as process:
        code, said = ended(process)
    assert (code, "ValueError: mine" in said) == (1, True)


def test_a_killed_command_takes_its_processes_along() -> None:
    with started(preexec="end_with_parent") as process:
        process.kill()
        assert ended(process) == (-signal.SIGKILL, "")


def test_a_program_under_nohup_outlives_its_terminal() -> None:
    with started(READY, "nohup") as process:
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 128 + signal.SIGTERM


def test_process_1_of_a_container_ends_too() -> None:
    """The kernel ends such a process by no signal for which it has no handler."""
    container = ("unshare", "--user", "--map-root-user", "--fork", "--pid", "--mount-proc", "--kill-child")
    if subprocess.run([*container, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets nobody make a container")
    with started(READY, *container) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)
        assert ended(process) == (128 + signal.SIGTERM, "stopped\n")
