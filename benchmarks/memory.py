"""Memory of a process and its children while work is done: Linux alone tells it.

`getrusage` says the wrong thing about children: one that was started by fork and exec counts the memory of its parent,
and one that was not waited for does not count at all.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

_EVERY_S = 0.2
_PROC = Path("/proc")


class Memory:
    """Looks at this process and its children five times a second. `of_a_child`: the most memory of one of them, MB;
    `of_all`: the most of all at one time, MB, in which pages that processes share count for each."""

    def __init__(self) -> None:
        self.of_a_child = self.of_all = 0.0
        self._is_over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self._is_over.set()
        self._watcher.join()

    def _watch(self) -> None:
        own = os.getpid()
        while not self._is_over.wait(_EVERY_S):
            found = {pid: _status(pid) for pid in map(int, filter(str.isdigit, os.listdir(_PROC)))}
            children = [one for one in found.values() if one.get("PPid") == own]
            self.of_a_child = max([self.of_a_child, *(one.get("VmHWM", 0) / 1024 for one in children)])
            together = sum(one.get("VmRSS", 0) for one in (found[own], *children))
            self.of_all = max(self.of_all, together / 1024)


def _status(pid: int) -> dict[str, int]:
    """A process's parent, and its memory in KiB; empty where it has ended."""
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in lines if line.startswith(("PPid:", "VmHWM:", "VmRSS:")))
    return {name: int(value.split()[0]) for name, value in pairs}
