"""The RDF file that a study's source names."""

from __future__ import annotations

import os
from pathlib import Path

from longtail.errors import SourceError
from longtail.study.source import Source


def rdf_path(source: Source) -> Path:
    """The file in the study's environment variable. Errors: `SourceError` that says what to set."""
    named = os.environ.get(source.path_env, "").strip()
    if not named:
        raise SourceError(
            f"environment variable {source.path_env} is not set; set it to an N-Triples file (.nt, .nt.gz or .nt.bz2)"
        )
    path = Path(named).expanduser()
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise SourceError(
            f"{path}: {what}; {source.path_env} must name an N-Triples file (.nt, .nt.gz or .nt.bz2)"
        )
    return path
