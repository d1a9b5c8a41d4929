"""Where the path of a model in a study file leads: to a place on this machine, or to a hub.

A folder that is there wins. A path that cannot be a hub id (`./tiny`, `~/tiny`, `a/b/c`) must be a folder.
"""

from __future__ import annotations

import re
from pathlib import Path

from longtail.errors import BackendError
from longtail.study.models import Model

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")


def place_of(path: str, study_folder: Path | None) -> Path:
    """The absolute place that a path names, whether anything is there or not. Errors: `OSError`, `RuntimeError`."""
    return ((study_folder or Path()) / Path(path).expanduser()).resolve()


def folder_of(model: Model) -> Path | None:
    """The folder that a model's path names; None for what may be a hub id. Errors: `BackendError`, in one line."""
    try:
        folder = place_of(model.path, model.study_folder)
        if folder.is_dir():
            return folder
    except (OSError, RuntimeError) as error:  # a name that is too long, or the home of an unknown user
        raise BackendError(f"model {model.name}: {model.path} names no folder ({error})") from None
    if not _HUB_ID.fullmatch(model.path):
        more = f"; {model.obtain}" if model.obtain else ""
        raise BackendError(
            f"model {model.name}: there is no folder {folder}, and no hub id looks like it{more}"
        )
    return None
