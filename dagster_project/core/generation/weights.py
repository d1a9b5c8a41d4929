"""Where a model's files are, and which exact ones: known without loading them, and without importing torch.

What belongs here: sandbox models, folders and hub ids, resolved to a folder and a revision. What does not:
loading.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from dagster_project.core.errors import BackendError
from dagster_project.core.study import Model

_PATTERNS = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SANDBOX = "sandbox:"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Weights:
    """A folder in Hugging Face's layout, and its revision: hub commit, or SHA-256 of the files."""

    folder: Path
    revision: str


def find_weights(model: Model) -> Weights:
    """The files of a model; a hub model is downloaded once, and then stays at that commit.

    Errors: `BackendError`, in one line, where there are none or they are not safetensors.
    """
    if model.path.startswith(_SANDBOX):
        from dagster_project.core.sandbox.models import reference_model_path

        return _folder(model, reference_model_path(model.path.removeprefix(_SANDBOX)))
    folder = Path(model.path).expanduser()
    if folder.is_dir():
        return _folder(model, folder.resolve())
    if not _HUB_ID.fullmatch(model.path):
        raise BackendError(
            f"model {model.name}: there is no folder {model.path}, and no hub id looks like it"
        )
    return _hub(model)


def _folder(model: Model, folder: Path) -> Weights:
    _check(model, folder)
    files = tuple(path for path in sorted(folder.iterdir()) if any(path.match(p) for p in _PATTERNS))
    stats = [path.stat() for path in files]
    return Weights(folder, _digest(files, tuple((s.st_size, s.st_mtime_ns) for s in stats)))


@functools.lru_cache(maxsize=64)
def _digest(files: tuple[Path, ...], _stats: tuple[tuple[int, int], ...]) -> str:
    """SHA-256 over names and contents; `_stats` only makes a changed file a new key of the memory."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            own = hashlib.sha256()
            while chunk := file.read(_CHUNK):
                own.update(chunk)
        digest.update(f"{path.name}\n{own.hexdigest()}\n".encode())
    return digest.hexdigest()


def _hub(model: Model) -> Weights:
    from huggingface_hub import snapshot_download

    def snapshot(local: bool) -> Path:
        found = snapshot_download(
            model.path,
            revision=model.revision,
            local_files_only=local,
            allow_patterns=list(_PATTERNS),
            ignore_patterns=["*/*"],
        )
        return Path(found)

    try:
        folder = snapshot(local=True)
        if _missing(folder):
            folder = snapshot(local=False)
    except (OSError, ValueError):
        try:
            folder = snapshot(local=False)
        except (OSError, ValueError) as error:
            at = f" at revision {model.revision}" if model.revision else ""
            raise BackendError(
                f"model {model.name}: {model.path}{at} is no folder, not in the local hub cache, and cannot "
                f"be downloaded ({type(error).__name__}); check the name and the network, or HF_HUB_OFFLINE"
            ) from None
    _check(model, folder)
    return Weights(folder, folder.name if _COMMIT.fullmatch(folder.name) else _folder(model, folder).revision)


def _check(model: Model, folder: Path) -> None:
    missing = _missing(folder)
    if missing:
        raise BackendError(
            f"model {model.name}: {folder} lacks {missing}; only safetensors weights are loaded"
        )


def _missing(folder: Path) -> str:
    """The first file that a model folder ought to have and has not; empty where it is complete."""
    if not (folder / "config.json").is_file():
        return "config.json"
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            shards = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        except (OSError, ValueError, KeyError, AttributeError):
            return f"a readable {index.name}"
        return next((name for name in shards if not (folder / name).is_file()), "")
    return "" if any(folder.glob("*.safetensors")) else "model.safetensors"
