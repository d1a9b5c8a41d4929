"""The published routers and names that a running service decides by, and their newer versions as they appear."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from longtail.errors import RouterError
from longtail.router.decisions import Router, load_router
from longtail.router.names import Names, load_names
from longtail.storage.home import command

NAMES = "entities.names"
"""The file of names beside the routers."""
EVERY_S = 1.0

_Stamp = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True)
class Published:
    """One folder of routers, whole: all of its routers by name, and its names."""

    folder: Path
    routers: Mapping[str, Router]
    names: Names


class RouterStore:
    """The newest good folder behind the link `published/router`.

    `error`: why a newer folder is not used; None if the newest is. It is for one thread.
    """

    def __init__(self, link: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Errors: `RouterError` if nothing is published, or if a file of it is bad."""
        self._link, self._clock = link, clock
        self._looked_at = clock()
        self._stamp = _stamp(link)
        self._published = _read(link)
        self.error: str | None = None

    def current(self) -> Published:
        """The routers to decide by. It looks for newer ones at most once a second."""
        now = self._clock()
        if now - self._looked_at >= EVERY_S:
            self._looked_at = now
            self._look()
        return self._published

    def _look(self) -> None:
        """Read the folder if it changed. A bad one is not read again until it changes."""
        stamp: _Stamp = ()
        try:
            stamp = _stamp(self._link)
            if stamp != self._stamp:
                self._published, self.error = _read(self._link), None
        except RouterError as error:
            self.error = str(error)
        self._stamp = stamp


def _stamp(link: Path) -> _Stamp:
    """What changes when the folder or one of its files does."""
    try:
        folder = link.resolve(strict=True)
        with os.scandir(folder) as entries:
            found = sorted((entry.path, entry.stat()) for entry in entries)
    except OSError as error:
        raise RouterError(
            f"{link}: no routers are published ({error.strerror}); run `{command('run')}`"
        ) from error
    return tuple((path, stat.st_ino, stat.st_size, stat.st_mtime_ns) for path, stat in found)


def _read(link: Path) -> Published:
    folder = link.resolve()
    routers = {path.stem: load_router(path) for path in sorted(folder.glob("*.json"))}
    return Published(folder, routers, load_names(folder / NAMES))
