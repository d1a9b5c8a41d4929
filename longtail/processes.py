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
_INTERRUPTED = 128 + signal.SIGINT
_IS_LINUX = sys.platform == "linux"


def end_with_parent() -> None:
    """From now on the kernel kills this process when the thread that started it ends."""
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)


def supervise(
    program: Callable[[], int], stopped: str, *, serves: bool = False, takes_interrupts: bool = False
) -> int:
    """Run `program` in a child process; return its exit code, or 128 and the number of the signal that ended it.

    SIGINT, SIGTERM and SIGHUP reach the child as SIGINT. Of what it has started, nothing survives: neither its own end,
    nor `GRACE_S` after a signal, nor a second SIGINT. Then this process writes the line `stopped` to standard error. It
    does nothing else, so it also answers where the child computes and sees no signal, and as process 1 of a container,
    for which the kernel does nothing by default.

    `serves`: nothing but a signal ends the program, and the exit code is then 0. `takes_interrupts`: SIGINT does not end
    it; the other signals reach it as `SystemExit`.
    """
    if not _IS_LINUX:
        code, received = _run(program), None
    else:
        ignored = {one for one in (signal.SIGHUP,) if signal.getsignal(one) == signal.SIG_IGN}  # nohup
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
                signal.signal(number, _exit if takes_interrupts else _interrupt)
            if takes_interrupts:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            code = _run(program)
            if code == _INTERRUPTED:
                with contextlib.suppress(OSError, SystemExit):
                    sys.stdout.flush()
                os._exit(
                    code
                )  # nothing else needs a good end, and Python takes long to take large libraries apart
            return code
        code, received = _wait(child, ending, takes_interrupts)
        _end_children()
    if received is None and 0 <= code != _INTERRUPTED:
        return code
    if received and not code:  # it was done just then
        return 0
    number = received or signal.Signals(-code if code < 0 else signal.SIGINT)
    why = f"signal {number.name} ended it; " if code < 0 and not received else ""
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(f"{why}{stopped}", file=sys.stderr, flush=True)
    return 0 if serves and not why else 128 + number


def _run(program: Callable[[], int]) -> int:
    try:
        return program()
    except BaseException as error:
        if not _is_interrupt(error):
            raise
        return _INTERRUPTED


def _interrupt(_number: int, _frame: object) -> None:
    """Raise `KeyboardInterrupt` for the first signal alone: whoever signals a whole group sends two.

    The second may have come already. With `SIG_IGN` for it, Python would report a race to the terminal.
    """
    for number in _ENDING:
        signal.signal(number, lambda _number, _frame: None)
    raise KeyboardInterrupt


def _exit(number: int, _frame: object) -> None:
    sys.exit(128 + number)


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C is the error or its cause: a library may make another error of it."""
    return error is not None and (
        isinstance(error, KeyboardInterrupt) or _is_interrupt(error.__cause__ or error.__context__)
    )


def _wait(
    child: int, ending: set[signal.Signals], takes_interrupts: bool
) -> tuple[int, signal.Signals | None]:
    """How the child ended (its exit code, or a signal's negative number), and the signal that was received, if any."""
    received: signal.Signals | None = None
    deadline = 0.0
    while True:
        left = deadline - time.monotonic() if received else 3600.0
        info = signal.sigtimedwait({*ending, signal.SIGCHLD}, max(0.0, left))
        if info is None and received:
            os.kill(child, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), received
        if info is not None and info.si_signo != signal.SIGCHLD:
            number = signal.Signals(info.si_signo)
            is_by_terminal = number == signal.SIGINT and info.si_code > 0  # the child has got it, too
            if not (is_by_terminal or received):
                os.kill(child, number if takes_interrupts else signal.SIGINT)
            if not (takes_interrupts and number == signal.SIGINT):
                if received is None:
                    received, deadline = number, time.monotonic() + GRACE_S
                elif number == signal.SIGINT:
                    deadline = 0.0
        for pid, status in _wait_for_ended():
            if pid == child:
                return status, received


def _wait_for_ended() -> Iterator[tuple[int, int]]:
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
