"""Whether what appears at a name is on the disk: a power cut can undo a rename, and the writing before it, unless both
are synced.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@contextlib.contextmanager
def renames_on_disk() -> Iterator[list[str]]:
    """Yield the names that appear by a rename; each must have been synced before, with all that a folder contains, and
    the folder of the new name afterwards."""
    synced: dict[tuple[int, int], tuple[int, int]] = {}
    unsynced: dict[tuple[int, int], str] = {}
    names: list[str] = []
    fsync = os.fsync

    def observed_fsync(descriptor: int) -> None:
        fsync(descriptor)
        found = os.fstat(descriptor)
        synced[found.st_dev, found.st_ino] = found.st_size, found.st_mtime_ns
        unsynced.pop((found.st_dev, found.st_ino), None)

    def observed(rename: Any) -> Any:
        def observe(source: Any, target: Any, **kwargs: Any) -> None:
            if "__pycache__" in Path(target).parts:  # what is made again by itself
                rename(source, target, **kwargs)
                return
            inside = [] if os.path.islink(source) else [Path(source), *Path(source).rglob("*")]
            for path in inside:
                found = path.stat()
                written = found.st_size, found.st_mtime_ns
                assert synced.get((found.st_dev, found.st_ino)) == written, (
                    f"{path.name} of {target} is not synced"
                )
            rename(source, target, **kwargs)
            folder = os.stat(Path(target).parent)
            unsynced[folder.st_dev, folder.st_ino] = f"the folder of {target} is not synced"
            names.append(Path(target).name)

        return observe

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", observed_fsync)
        for name in ("replace", "rename"):
            patch.setattr(os, name, observed(getattr(os, name)))
        yield names
    assert not unsynced, list(unsynced.values())
