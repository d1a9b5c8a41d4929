"""What a study needs and somebody else must provide: files, folders, models, keys, variables, packages."""

from __future__ import annotations

import functools
import importlib.util
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from longtail.errors import BackendError
from longtail.storage.home import IS_CLONE, PROJECT_ROOT, show_near

CLUSTER = "LONGTAIL_RAY"
"""The variable with the address of a Ray cluster."""


@dataclass(frozen=True)
class Need:
    """`where`: the key of study.yaml that asks for it. `check` raises a `LongtailError` where it is missing.

    A check reads little, computes nothing, and downloads nothing but a listing.
    """

    where: str
    check: Callable[[], object]


def needs_of_machines() -> Iterator[Need]:
    """The package ray for `$LONGTAIL_RAY`, and the store of `$LONGTAIL_OBJECT_STORE`, where they are set."""
    # Here, since backends import this module and work without pyarrow.
    from longtail.storage.object_store import STORE

    if os.environ.get(CLUSTER):
        yield Need(CLUSTER, partial(check_package, "ray", "[ray]"))
    if address := os.environ.get(STORE):
        yield Need(STORE, partial(_check_store, address))


@functools.cache  # a process asks once
def _check_store(address: str) -> None:
    from longtail.storage.object_store import check_store

    check_package("obstore", "[s3]")
    check_store(address)


def check_package(package: str, install: str) -> None:
    """Errors: `BackendError` where the Python module `package` is not installed; `install`: see `install_command`."""
    if importlib.util.find_spec(package) is None:
        raise BackendError(f"the package {package} is not installed; run: {install_command(install)}")


def install_command(what: str) -> str:
    """The command that installs a package, or an extra of this project (`[gguf]`), where this program runs.

    Paths below the present folder are shown from there: `.venv/bin/python -m pip install -e '.[gguf]'`.
    """
    project = (
        f"-e {shlex.quote(show_near(PROJECT_ROOT) + what)}" if IS_CLONE else shlex.quote(f"longtail{what}")
    )
    wanted = project if what.startswith("[") else shlex.quote(what)
    return f"{shlex.quote(show_near(Path(sys.executable)))} -m pip install {wanted}"
