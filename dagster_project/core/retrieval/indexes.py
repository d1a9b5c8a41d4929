"""Stored indexes: where they lie, when one fits, and how one appears whole or not at all.

What belongs here: folders, fingerprints and the report of a build. What does not: what an index holds (the retriever's
own module). An index lies in `<indexes>/<retriever>/<fingerprint>`. The fingerprint covers the passages' content, the
retriever's settings and its code: a folder of that name holds the right index, and without it the index must be built.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dagster_project.core.errors import IndexMissingError, LakeError
from dagster_project.core.files import sync
from dagster_project.core.fingerprints import code_version, fingerprint
from dagster_project.core.lake import Lake
from dagster_project.core.methods import METHODS
from dagster_project.core.retrieval.base import Context, Passage, Retriever, load_retriever
from dagster_project.core.study.study import Study

_REPORT = "index.json"
_STAGING = ".staging"


@dataclass(frozen=True)
class IndexReport:
    """One index as it was built; `seconds` is the time of that build, also where the index was there already."""

    retriever: str
    fingerprint: str
    path: Path
    n_passages: int
    n_bytes: int
    seconds: float
    was_current: bool


def build_index(study: Study, lake: Lake, retriever: str, log: logging.Logger) -> IndexReport:
    """Build the index of `retriever` over the lake's passages, unless it is there already.

    Errors: `IndexMissingError` where the retriever is unknown or has no index, `LakeError` where it cannot be written.
    """
    tool = load_retriever(retriever)
    if METHODS[retriever].index is None:
        indexed = ", ".join(method.name for method in METHODS.values() if method.index)
        raise IndexMissingError(f"retriever {retriever} has no index; these have one: {indexed}")
    stamp = index_fingerprint(lake, tool)
    folder = study.home.indexes / retriever / stamp
    report = _report(folder)
    if report:
        log.info("%s index: already there (%d passages)", retriever, report.n_passages)
        return report
    started = time.perf_counter()
    passages = read_passages(lake)
    with _whole_folder(folder) as staging:
        tool.build(Context(passages, staging, log))
        seconds = round(time.perf_counter() - started, 3)
        n_bytes = _size(staging)
        built: dict[str, Any] = {"n_passages": len(passages), "n_bytes": n_bytes, "seconds": seconds}
        (staging / _REPORT).write_text(json.dumps(built), encoding="utf-8")
    _remove_others(folder)
    log.info("%s index: built over %d passages in %.1f s", retriever, len(passages), seconds)
    return IndexReport(retriever, stamp, folder, was_current=False, **built)


def index_folder(study: Study, lake: Lake, retriever: str, tool: Retriever) -> Path:
    """The folder of the index that fits the lake's passages; nothing lies there for a retriever without an index.

    Errors: `IndexMissingError` where the index must be built first.
    """
    parent = study.home.indexes / retriever
    folder = parent / index_fingerprint(lake, tool)
    if METHODS[retriever].index is None or _report(folder):
        return folder
    state = "is of other passages" if parent.is_dir() and any(parent.iterdir()) else "is missing"
    raise IndexMissingError(
        f"the {retriever} index {state} ({folder}): materialise asset indexes/{retriever} first"
    )


def index_fingerprint(lake: Lake, tool: Retriever) -> str:
    """A hash of all that decides an index of `tool` over the lake's passages."""
    return fingerprint(lake.content("passages"), tool.version(), code_version(type(tool).__module__))


def read_passages(lake: Lake) -> list[Passage]:
    """The lake's passages in the order of passage_id. Errors: `LakeError` where there are none."""
    columns = ["passage_id", "entity_id", "title", "position", "text"]
    passages = [Passage(**row) for row in lake.read("passages", columns=columns).to_pylist()]
    if not passages:
        raise LakeError(
            f"{lake.path('passages')}: holds no passage to search; check the study's source, or give its"
            " tables of questions a column with passages"
        )
    return sorted(passages, key=lambda passage: passage.passage_id)


def _report(folder: Path) -> IndexReport | None:
    """The report of the index in `folder`; None where there is no index, or its files have another size."""
    try:
        built = json.loads((folder / _REPORT).read_text(encoding="utf-8"))
        if _size(folder) != built["n_bytes"]:
            return None
        return IndexReport(folder.parent.name, folder.name, folder, was_current=True, **built)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if file.name != _REPORT)


@contextlib.contextmanager
def _whole_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty staging folder; on success flush it and rename it to `folder`."""
    staging_root = folder.parent.parent / _STAGING
    _remove_dead(staging_root)
    staging = staging_root / f"{os.getpid()}-{uuid.uuid4().hex}"
    try:
        staging.mkdir(parents=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        yield staging
        for file in staging.iterdir():
            sync(file)
        sync(staging)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(staging, folder)
        sync(folder.parent)
    except OSError as error:
        raise LakeError(f"{folder}: the index could not be written ({error.strerror or error})") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _remove_dead(staging_root: Path) -> None:
    """Remove the staging folders of builds that were killed: those whose process is gone."""
    for staging in staging_root.glob("*-*"):
        owner = staging.name.partition("-")[0]
        if not owner.isdigit() or not _is_alive(int(owner)):
            shutil.rmtree(staging, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _remove_others(folder: Path) -> None:
    for other in folder.parent.iterdir():
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
