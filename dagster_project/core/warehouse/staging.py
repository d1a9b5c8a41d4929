"""The folder in which published files are made before they appear: on the same file system, for one process at a time.

What belongs here: the lock, the cleaning, and how a whole folder appears. What does not: making the files (`publish`,
`export`).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from dagster_project.core.errors import PublishError
from dagster_project.core.storage.files import sync
from dagster_project.core.storage.fingerprints import code_version, fingerprint, folder_version

KEPT_FOLDERS = 2


@contextmanager
def staging_beside(published: Path, name: str) -> Iterator[Path]:
    """A new folder for the future `published / name`. Removes what a killed process left of the same."""
    staging = published / f".staging-{name}"
    published.mkdir(parents=True, exist_ok=True)
    with (published / f".lock-{name}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(staging, ignore_errors=True)
        folder = staging / uuid.uuid4().hex
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def check_link(target: Path, to: str, again: str) -> None:
    """Errors: `PublishError` if something else than a link `to` versions is at `target`, which must not be replaced."""
    if target.exists() and not target.is_symlink():
        raise PublishError(f"{target}: is not a link to {to}; move it away, then {again} again")


def version_name(published_at: datetime, package: str, *settings: object) -> str:
    """The name of a version's folder: another one for other `settings`, or other code of `package` or its imports."""
    code = folder_version(package), code_version(package)
    return f"{published_at:%Y%m%dT%H%M%S%fZ}-{fingerprint(code, settings)[:8]}"


def move_folder(new: Path, folder: Path) -> None:
    """Give a finished folder its place among the versions; its files are on the disk first."""
    for path in (*new.rglob("*"), new):
        sync(path)
    folder.parent.mkdir(parents=True, exist_ok=True)
    os.replace(new, folder)
    sync(folder.parent)


def point_to(target: Path, folder: Path, staging: Path) -> None:
    """Make `target` a link to `folder` in one step, and delete older versions except the previous one."""
    link = staging / "link"
    link.symlink_to(folder.relative_to(target.parent))
    os.replace(link, target)
    sync(target.parent)
    # Folder names of one publication differ by a hash, which has no order in time. The newest is `folder`.
    others = sorted(other for other in folder.parent.iterdir() if other != folder)
    for old in others[: max(0, len(others) - KEPT_FOLDERS + 1)]:
        shutil.rmtree(old, ignore_errors=True)
