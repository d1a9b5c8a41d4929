"""Copies trained models to the place where the platform finds them, with their checksums.

What belongs here: copying and checking. What does not: where that place is (`core.reference_models`).
"""

from __future__ import annotations

import shutil
from hashlib import sha256
from pathlib import Path

from dagster_project.core.errors import BackendError

SUMS = "SHA256SUMS"


def ship(folders: dict[str, Path], weights: Path) -> None:
    """Replace the models in `weights` by those in `folders` (size → folder) and write their checksums."""
    for size, folder in folders.items():
        target = weights / size
        staged = weights / f".{size}.new"
        shutil.rmtree(staged, ignore_errors=True)
        shutil.copytree(folder, staged)
        shutil.rmtree(target, ignore_errors=True)
        staged.rename(target)
    write_sums(weights)


def _model_files(weights: Path) -> list[Path]:
    return sorted(path for path in weights.glob("[a-z]/*") if path.is_file())


def write_sums(weights: Path) -> None:
    """Write `SHA256SUMS` of every model's files, in the format of `sha256sum`."""
    sums = [
        f"{sha256(path.read_bytes()).hexdigest()}  {path.relative_to(weights).as_posix()}\n"
        for path in _model_files(weights)
    ]
    (weights / SUMS).write_text("".join(sums), encoding="utf-8")


def check_sums(weights: Path) -> None:
    """Errors: `BackendError` unless the files of `weights` are exactly those in its `SHA256SUMS`."""
    lines = (weights / SUMS).read_text(encoding="utf-8").splitlines()
    expected = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    found = {path.relative_to(weights).as_posix(): path for path in _model_files(weights)}
    for name in sorted(expected.keys() | found.keys()):
        if name not in found or name not in expected:
            raise BackendError(
                f"{weights / name}: listed in {SUMS} or present, not both; restore the weights"
            )
        if sha256(found[name].read_bytes()).hexdigest() != expected[name]:
            raise BackendError(f"{weights / name}: its SHA-256 differs from {SUMS}; restore the weights")
