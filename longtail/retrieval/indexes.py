"""Stored indexes: where they lie, when one fits, and how one appears whole or not at all.

An index lies in `<indexes>/<retriever>/<fingerprint>`. The fingerprint covers the passages' content, the retriever's
settings and its code: a folder of that name holds the right index, and without it the index must be built. While it is
built, it lies in `<indexes>/.staging`, where a killed build leaves its whole parts.

Checksums (`storage.checksums`) of an index, of the sorted passages and of the shared vectors are recorded when these are
written, and compared once per process before anything is mapped into memory.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from longtail.errors import IndexMissingError, LakeError
from longtail.methods import Method
from longtail.needs import Need, check_package
from longtail.retrieval.base import Context, Retriever, load_retriever
from longtail.retrieval.stored_passages import open_passages
from longtail.storage.checksums import CHANGED, differences, record
from longtail.storage.files import remove, sync
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Lake
from longtail.storage.ownership import only_one
from longtail.study.study import Study

_REPORT = "index.json"
_STAGING = ".staging"
_INSTALL = {"faiss": "[faiss-cpu]"}


@dataclass(frozen=True)
class Index:
    """The place of a retriever's index over given passages, whether or not it is built there.

    `made_of` holds what decides an index, by the name under which a person is told that it differs.
    """

    method: Method
    made_of: Mapping[str, str]
    folder: Path

    @classmethod
    def of(cls, method: Method, tool: Retriever, passages: str, indexes: Path) -> Index:
        """`tool` is the method's retriever, `passages` the content hash of the passages, `indexes` the study's folder."""
        code = code_version(type(tool).__module__)
        made_of = {"passages": passages, "library or encoder": tool.version(), "code": code}
        return cls(method, made_of, indexes / method.name / fingerprint(*made_of.values()))

    def require(self) -> None:
        """Errors: `IndexMissingError` that says what is wrong where the index must be built first."""
        if self.method.index is not None and (fault := _fault(self.folder, self.made_of)):
            name = self.method.name
            raise IndexMissingError(
                f"the {name} index {fault} ({self.folder}): materialise asset indexes/{name} first"
            )


@dataclass(frozen=True)
class IndexReport:
    """One index as it was built. `notes`: what people should know of it, by name (`Retriever.notes`)."""

    fingerprint: str
    path: Path
    n_passages: int
    n_bytes: int
    notes: Mapping[str, Any]
    was_current: bool


def needs_of_retrievers(study: Study) -> Iterator[Need]:
    """What the methods that retrieve need; a study of imported answers searches nothing."""
    if not study.generates:
        return
    for name in study.retrieval_methods:
        method = study.method(name)
        where, index = f"methods: {name}", method.index
        if index is not None:
            yield Need(where, partial(check_package, index, _INSTALL.get(index, index)))
        yield Need(where, load_retriever(method).check)


def build_index(study: Study, lake: Lake, retriever: str, log: logging.Logger) -> IndexReport:
    """Build the index of `retriever` over the lake's passages, unless it is there already.

    A build that was killed goes on with the parts that it finished; a damaged index is built again.
    Errors: `IndexMissingError` where the retriever is unknown or has no index, `LakeError` where it cannot be written,
    `LongtailError` where another process is building it.
    """
    if study.method(retriever).index is None:
        indexed = ", ".join(name for name in study.retrieval_methods if study.method(name).index)
        raise IndexMissingError(f"{retriever} has no index; these of the study have one: {indexed or 'none'}")
    method, home = study.method(retriever), study.home
    tool = load_retriever(method)
    index = Index.of(method, tool, lake.content("passages"), home.indexes)
    folder = index.folder
    if folder.is_dir():
        if fault := _damage(folder):
            log.warning("%s index: %s (%s): it is built again", retriever, fault, folder)
        else:
            report = _read_report(folder)
            built = {name: report[name] for name in ("n_passages", "n_bytes", "notes")}
            log.info("%s index: already there (%d passages)", retriever, built["n_passages"])
            return IndexReport(folder.name, folder, was_current=True, **built)
    lock = home.locks / "indexes" / f"{retriever}.lock"
    with only_one(lock, f"{folder}: another process is building this index; wait for it"):
        return _build(study, lake, index, tool, log)


def _build(study: Study, lake: Lake, index: Index, tool: Retriever, log: logging.Logger) -> IndexReport:
    started = time.perf_counter()
    retriever, folder = index.method.name, index.folder
    passages = open_passages(lake, study.home.indexes, log)
    staging = folder.parent.parent / _STAGING / f"{retriever}-{folder.name}"
    try:
        for other in (folder, *staging.parent.glob(f"{retriever}-*")):
            if other != staging:
                remove(other)
        staging.mkdir(parents=True, exist_ok=True)
        cache = study.home.cache / "indexes"
        _remove_damage(cache, log)
        tool.build(Context(passages, staging, cache, log, device=study.embeddings.device))
        for vectors in cache.glob("*"):
            record(vectors)
        for part in sorted(staging.rglob("*")):
            sync(part)
        built: dict[str, Any] = {
            "n_passages": len(passages),
            "n_bytes": sum(file.stat().st_size for file in staging.rglob("*") if file.is_file()),
            "notes": dict(tool.notes(staging)),
        }
        (staging / _REPORT).write_text(json.dumps({**built, "made_of": index.made_of}), encoding="utf-8")
        sync(staging / _REPORT)
        record(staging)
        sync(staging)
        folder.parent.mkdir(parents=True, exist_ok=True)
        os.rename(staging, folder)
        sync(folder.parent)
    except OSError as error:
        raise LakeError(f"{folder}: the index could not be written ({error.strerror or error})") from error
    for other in folder.parent.iterdir():
        if other != folder:
            remove(other)
    log.info(
        "%s index: built over %d passages in %.1f s", retriever, len(passages), time.perf_counter() - started
    )
    return IndexReport(folder.name, folder, was_current=False, **built)


def _remove_damage(cache: Path, log: logging.Logger) -> None:
    """Remove what is no longer as it was written of the parts that indexes share: whoever needs one makes it again."""
    for folder in cache.glob("*"):
        for name, fault in differences(folder).items():
            if fault == CHANGED:
                log.warning("%s %s: it is encoded again where it is needed", folder / name, fault)
                remove(folder / name)


def _fault(folder: Path, made_of: Mapping[str, str]) -> str | None:
    """What is wrong with an index; None where it can be searched."""
    if folder.is_dir():
        return _damage(folder)
    reports = map(_read_report, folder.parent.glob("*"))
    other = next((report["made_of"] for report in reports if "made_of" in report), made_of)
    for what, wanted in made_of.items():
        if other.get(what) != wanted:
            return f"is of other {what}" + (f": {other.get(what)}, not {wanted}" if " " in what else "")
    return "is missing"


def _damage(folder: Path) -> str | None:
    """What is wrong with the files of an index."""
    wrong = differences(folder) if _read_report(folder) else {_REPORT: "is missing or unreadable"}
    return next((f"is damaged: {name} {fault}" for name, fault in wrong.items()), None)


def _read_report(folder: Path) -> dict[str, Any]:
    """What an index says about itself; empty where it says nothing that can be read."""
    try:
        report: dict[str, Any] = json.loads((folder / _REPORT).read_text(encoding="utf-8"))
        return report
    except (OSError, ValueError):
        return {}
