"""dbt's manifest, from which Dagster knows the warehouse's assets. It is parsed again unless it is whole and current.

dbt writes the file in place, so that a full disk leaves it truncated, and another process may read a part of it. So dbt
writes it to a folder of its own, from which it is moved when dbt has succeeded. The file must load, and a note beside it
must name the project that it was parsed from.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from longtail.progress import Progress
from longtail.storage.files import STAGING, atomic_file, stage, sync
from longtail.storage.fingerprints import fingerprint
from longtail.storage.lake import Lake
from longtail.storage.ownership import only_one
from longtail.study.study import Study
from longtail.warehouse.build import dbt_environment, dbt_sources, require_dbt

_NOTE = "parsed_from"
_FILES = ("partial_parse.msgpack", "manifest.json")
"""Of what dbt writes when it parses, what dbt and Dagster read later."""
_LOG = logging.getLogger(__name__)


def prepare_manifest(study: Study) -> Path:
    """The path of the study's manifest. dbt writes it, unless it is whole and belongs to this project.

    One process does so, and others wait for it. Errors: `PublishError` with dbt's own words if the project does not
    parse, or if the disk is full.
    """
    project, target = project_version(study), Path(dbt_environment(study)["DBT_TARGET_PATH"])
    manifest = target / _FILES[-1]
    if _is_current(study, project, manifest):
        return manifest
    with only_one(study.home.locks / "manifest.lock", None):
        if not _is_current(study, project, manifest):
            Lake(study.home.lake).ensure_schemas()
            with Progress(_LOG, "dbt: reading the project"):
                _parse(study, target)
            note_parse(study, project)
    return manifest


def _is_current(study: Study, project: str, manifest: Path) -> bool:
    return _is_whole(manifest) and _text(_note(study)) == project


def _parse(study: Study, target: Path) -> None:
    with stage(target.parent / STAGING, target.name) as folder:
        folder.mkdir()
        with suppress(FileNotFoundError):  # what dbt has parsed before, and need not parse again
            shutil.copy(target / _FILES[0], folder)
        require_dbt(study, "parse", "--target-path", str(folder))
        target.mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            sync(folder / name)
            os.replace(folder / name, target / name)


def project_version(study: Study) -> str:
    """A fingerprint of what dbt parses for a study: the project, the study's places, dbt's versions."""
    packages = [version(package) for package in ("dbt-core", "dbt-duckdb")]
    return fingerprint(dbt_sources(), dbt_environment(study), packages)


def note_parse(study: Study, project: str) -> None:
    """Note that the study's manifest was parsed from that version of the project."""
    with atomic_file(_note(study)) as temporary:
        temporary.write_text(project, encoding="ascii")


def _note(study: Study) -> Path:
    return study.home.build / "dbt" / _NOTE


def _is_whole(manifest: Path) -> bool:
    try:
        return "nodes" in json.loads(manifest.read_bytes())
    except (OSError, ValueError, TypeError):
        return False


def _text(note: Path) -> str:
    try:
        return note.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
