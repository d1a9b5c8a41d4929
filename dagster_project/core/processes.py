"""Processes that end together: a command with all that it started, and a child with its parent.

Only Linux has what this needs; elsewhere a command runs in the process that started it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator

GRACE_S = 7.0
"""How long an interrupted command may take to end by itself; the kernel then ends it."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
_IS_LINUX = sys.platform == "linux"


def end_with_parent() -> None:
    """From now on the kernel kills this process when the thread that started it ends."""
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)


def supervised(program: Callable[[], int], stopped: str, *, takes_interrupts: bool = False) -> int:
    """Run `program` in a child process; return its exit code, or 128 and the number of the signal that ended it.

    SIGINT, SIGTERM and SIGHUP reach the child as SIGINT. Of what it has started, nothing survives: neither its own end,
    nor `GRACE_S` after a signal, nor a second SIGINT. Then this process writes the line `stopped` to standard error. It
    does nothing else, so it also answers where the child computes and sees no signal, and as process 1 of a container,
    for which the kernel does nothing by default. `takes_interrupts`: SIGINT does not end the program; the others reach it
    as `SystemExit`.
    """
    if not _IS_LINUX:
        return _run(program, stopped)
    ignored = {number for number in (signal.SIGHUP,) if signal.getsignal(number) == signal.SIG_IGN}  # nohup
    ending = {*_ENDING} - ignored
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*ending, signal.SIGCHLD})
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whoever started this process may ignore it
    _prctl(_SET_CHILD_SUBREAPER, 1)
    parent, child = os.getpid(), os.fork()
    if not child:
        end_with_parent()
        if os.getppid() != parent:  # it died before the kernel knew
            os._exit(1)
        for number in ending:
            signal.signal(number, _exit if takes_interrupts else signal.default_int_handler)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return _run(program)
    received, status = _wait(child, ending, takes_interrupts)
    _end_children()
    if received is None and status >= 0:
        return status
    number = received or signal.Signals(-status)
    if status != 0:
        why = "" if received else f"signal {number.name} ended it; "
        with contextlib.suppress(OSError):  # the terminal may be gone
            print(f"{why}{stopped}", file=sys.stderr, flush=True)
    return 128 + number if status else 0


def _run(program: Callable[[], int], stopped: str = "") -> int:
    try:
        return program()
    except BaseException as error:
        if not _is_interrupt(error):
            raise
        print(stopped, end="\n" if stopped else "", file=sys.stderr, flush=True)
        return 128 + signal.SIGINT


def _exit(number: int, _frame: object) -> None:
    sys.exit(128 + number)


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C is the error or its cause: a library may make another error of it."""
    return error is not None and (
        isinstance(error, KeyboardInterrupt) or _is_interrupt(error.__cause__ or error.__context__)
    )


def _wait(
    child: int, ending: set[signal.Signals], takes_interrupts: bool
) -> tuple[signal.Signals | None, int]:
    """The signal that was received, if any, and how the child ended: its exit code, or a signal's negative number."""
    received: signal.Signals | None = None
    deadline = 0.0
    while True:
        left = deadline - time.monotonic() if received else 3600.0
        info = signal.sigtimedwait({*ending, signal.SIGCHLD}, max(0.0, left))
        for pid, status in _ended():
            if pid == child:
                return received, status
        if info is None:
            if received:
                os.kill(child, signal.SIGKILL)
                return received, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        elif info.si_signo != signal.SIGCHLD:
            number = signal.Signals(info.si_signo)
            is_by_terminal = number == signal.SIGINT and info.si_code > 0  # the child has got it, too
            if not (is_by_terminal or received):
                os.kill(child, number if takes_interrupts else signal.SIGINT)
            if takes_interrupts and number == signal.SIGINT:
                continue
            if received is None:
                received, deadline = number, time.monotonic() + GRACE_S
            elif number == signal.SIGINT:
                deadline = 0.0


def _ended() -> Iterator[tuple[int, int]]:
    """The children that have ended; those of others, whose parents are gone, are among them."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended[0], os.waitstatus_to_exitcode(ended[1])


def _end_children() -> None:
    """Kill what the child has left: its children are this process's children now, and theirs follow."""
    with contextlib.suppress(ChildProcessError):
        while True:
            for pid in _children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)


def _children() -> Iterator[int]:
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                yield int(name)


def _prctl(option: int, value: int) -> None:
    if _IS_LINUX:
        ctypes.CDLL(None).prctl(option, value)
