"""dbt's manifest, from which Dagster knows the warehouse's assets. It is parsed again unless it is whole and current.

What belongs here: the conditions for using it. What does not: running dbt (`build`), reading assets from it (`defs`).

dbt writes the file in place, so that a full disk leaves it truncated. Its date is therefore not enough: the file must
load, and a note beside it must name the project that it was parsed from. The note is written after dbt has succeeded.
"""

from __future__ import annotations

import json
import logging
from importlib.metadata import version
from pathlib import Path

from dagster_project.core.progress import Progress
from dagster_project.core.storage.files import atomic_file
from dagster_project.core.storage.fingerprints import fingerprint
from dagster_project.core.storage.lake import Lake
from dagster_project.core.study.study import Study
from dagster_project.core.warehouse.build import dbt_environment, dbt_sources, require_dbt

_NOTE = "parsed_from"
_LOG = logging.getLogger(__name__)


def ensure_manifest(study: Study, manifest: Path) -> None:
    """Let dbt write `manifest`, unless it is whole and belongs to this project.

    Errors: `PublishError` with dbt's own words if the project does not parse, or if the disk is full.
    """
    project = project_version(study)
    if _is_whole(manifest) and _text(_note(study)) == project:
        return
    Lake(study.home.lake).ensure_schemas()
    with Progress(_LOG, "dbt: reading the project"):
        require_dbt(study, "parse")
    note_parse(study, project)


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
