"""What a study needs and somebody else must provide: files, folders, models, keys, variables, packages.

What belongs here: a need with its check. What does not: the needs themselves, which the modules that use a thing declare
beside the code that reads it, and looking for all of them (`preflight`).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

from dagster_project.core.errors import BackendError


@dataclass(frozen=True)
class Need:
    """`where`: the key of study.yaml that asks for it. `check` raises a `LongtailError` where it is missing.

    A check reads little, computes nothing, and downloads nothing but a listing.
    """

    where: str
    check: Callable[[], object]


def check_package(package: str, install: str) -> None:
    """Errors: `BackendError` where the Python module `package` is not installed; `install` is what pip installs."""
    if importlib.util.find_spec(package) is None:
        raise BackendError(f"the package {package} is not installed; run: pip install {install}")
