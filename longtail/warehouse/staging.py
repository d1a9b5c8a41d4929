"""The folder in which published files are made before they appear: on the same file system, for one process at a time."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from longtail.errors import PublishError
from longtail.storage.checksums import RECORD, compare_files, record
from longtail.storage.files import sync
from longtail.storage.fingerprints import code_version, fingerprint, folder_version
from longtail.storage.ownership import only_one
from longtail.warehouse.publication import Publication

KEPT_FOLDERS = 2


@contextmanager
def staging_beside(published: Path, name: str) -> Iterator[Path]:
    """A new folder for the future `published / name`. Removes what a killed process left of the same."""
    staging = published / f".staging-{name}"
    with only_one(published / f".lock-{name}", None):
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


def next_version(folder: Path, identity: str) -> str:
    """The name of the next version in `folder`, whose content `identity` tells from any other.

    It begins with a number that counts publications, so that versions sorted by name are in the order of publication: no
    clock decides which one is the newest.
    """
    numbers = (path.name.partition("-")[0] for path in folder.glob("*-*"))
    number = max((int(number) for number in numbers if number.isdecimal()), default=0) + 1
    return f"{number:06d}-{identity}"


def find_version(folder: Path, identity: str) -> Path | None:
    """The newest version in `folder` with this identity whose files all are as they were recorded."""
    same = sorted(folder.glob(f"*-{identity}"))
    return same[-1] if same and not compare_files(same[-1] / RECORD) else None


def identity_of(publication: Publication, package: str, *settings: object) -> str:
    """What a version is made from: a publication, the code of `package` and of its imports, `settings`."""
    made_from = (publication.invocation_id, publication.published_at.isoformat())
    return fingerprint(made_from, folder_version(package), code_version(package), settings)[:16]


def move_folder(new: Path, folder: Path) -> None:
    """Give a finished folder its place among the versions; its files are recorded and on the disk first."""
    record(new)
    (new / RECORD).chmod(0o444)
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
    others = sorted(other for other in folder.parent.iterdir() if other != folder)
    for old in others[: max(0, len(others) - KEPT_FOLDERS + 1)]:
        shutil.rmtree(old, ignore_errors=True)
