"""Copies trained models to the place where the platform finds them, with their checksums.

What belongs here: copying, and the record. What does not: where that place is (`core.study.reference_models`), and
comparing a model with the record, whenever it is read (`core.models`).
"""

from __future__ import annotations

import shutil
from pathlib import Path

from dagster_project.core.storage.checksums import RECORD, file_checksum


def ship(folders: dict[str, Path], weights: Path) -> None:
    """Replace the models in `weights` by those in `folders` (size → folder) and write their checksums."""
    for size, folder in folders.items():
        target = weights / size
        staged = weights / f".{size}.new"
        shutil.rmtree(staged, ignore_errors=True)
        shutil.copytree(folder, staged)
        shutil.rmtree(target, ignore_errors=True)
        staged.rename(target)
    sums = [
        f"{file_checksum(path)}  {path.relative_to(weights).as_posix()}\n"
        for path in sorted(weights.glob("[a-z]/*"))
        if path.is_file()
    ]
    (weights / RECORD).write_text("".join(sums), encoding="utf-8")
