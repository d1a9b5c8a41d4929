"""What `longtail doctor` does: says what this machine has, and what the study still needs. It computes nothing."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from importlib import metadata

from packaging.requirements import Requirement

from dagster_project.operations import check_owner, check_settings, error_line, is_for_the_user
from longtail.errors import LongtailError
from longtail.generation.engine.row_cache import DATABASE
from longtail.preflight import misses
from longtail.storage.home import study_file
from longtail.storage.object_store import STORE
from longtail.storage.ownership import only_one
from longtail.study.file import load_study
from longtail.study.study import Study
from longtail.threads import thread_count

_SHARED = (DATABASE, STORE, "LONGTAIL_RAY", "LONGTAIL_DAGSTER_YAML", "LONGTAIL_WAREHOUSE_MEMORY")
_OF_DEVELOPERS = {"bench", "bench-llama", "dev", "docs", "platform"}
_PASSWORD = re.compile(r"(?<=://).*@")


def main() -> int:
    """Print what is there and what is missing; return 1 if something is missing."""
    try:
        for name, said in _machine():
            print(f"{name:<10}{said}", flush=True)
        study = load_study(study_file())
        print(f"{'study':<10}{study.name} ({study.path})")
        missing = [*_of_home(study), *_of_operator(study)]
        free = shutil.disk_usage(study.home.root).free / 1e9
        print(f"{'home':<10}{study.home.root}, {free:,.0f} GB are free", flush=True)
        missing += misses(study)
    except Exception as error:
        if not is_for_the_user(error):
            raise
        missing = [error_line(error)]
    for line in missing:
        print(f"{'problem':<10}{line}")
    print("Fix these problems before a run." if missing else "Everything that the study needs is there.")
    return 1 if missing else 0


def _machine() -> Iterator[tuple[str, str]]:
    yield "longtail", f"{metadata.version('longtail')}, Python {platform.python_version()} in {sys.prefix}"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    yield (
        "machine",
        f"{platform.platform()}, {thread_count()} of {os.cpu_count()} cores, {memory:,.0f} GB of memory",
    )
    yield "GPUs", ", ".join(_devices()) or "none that PyTorch sees"
    yield "extras", ", ".join(_extras()) or "none"
    for variable in _SHARED:
        if value := os.environ.get(variable):
            yield "variable", f"{variable}={_PASSWORD.sub('…@', value)}"


def _devices() -> Iterator[str]:
    import torch

    for number in range(torch.cuda.device_count()):
        found = torch.cuda.get_device_properties(number)
        yield f"{found.name} ({found.total_memory / 1e9:,.0f} GB)"


def _extras() -> Iterator[str]:
    """The extras whose packages are all installed."""
    needed: dict[str, list[Requirement]] = {}
    for requirement in map(Requirement, metadata.requires("longtail") or ()):
        for extra in metadata.metadata("longtail").get_all("Provides-Extra") or ():
            if requirement.marker and requirement.marker.evaluate({"extra": extra}):
                needed.setdefault(extra, []).append(requirement)
    for extra, requirements in sorted(needed.items()):
        if extra not in _OF_DEVELOPERS and all(map(_is_installed, requirements)):
            yield extra


def _is_installed(requirement: Requirement) -> bool:
    try:
        return metadata.version(requirement.name) in requirement.specifier
    except metadata.PackageNotFoundError:
        return False


def _of_home(study: Study) -> Iterator[str]:
    """What is wrong with the place of the study's state."""
    root, lock = study.home.root, study.home.locks / "doctor.lock"
    busy = f"another doctor examines {root}"
    with only_one(lock, busy), contextlib.suppress(LongtailError), only_one(lock, "taken"):
        yield f"{root}: locks have no effect on this file system; two runs would write at once: use another home"
    lock.unlink(missing_ok=True)


def _of_operator(study: Study) -> Iterator[str]:
    """What would stop a run at once: the home is another study's, or Dagster refuses the user's own settings."""
    for check in (partial(check_owner, study), check_settings):
        try:
            check()
        except Exception as error:
            if not is_for_the_user(error):
                raise
            yield error_line(error)
