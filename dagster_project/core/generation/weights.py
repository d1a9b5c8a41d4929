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
_TOKENIZER_FILES = ("tokenizer*", "tekken.json", "vocab.*", "spiece.model", "*.bpe.model")
"""One of them every tokenizer has."""


@dataclass(frozen=True)
class Weights:
    """A folder in Hugging Face's layout, and its revision: hub commit, or SHA-256 of the files."""

    folder: Path
    revision: str


def find_weights(model: Model) -> Weights:
    """The files of a model; a hub model is downloaded once, and then stays at that commit.

    Errors: `BackendError`, in one line, where there are none or they are not safetensors.
    """
    folder = _local_folder(model)
    return _hub(model) if folder is None else _folder(model, folder)


def check_folder(model: Model) -> None:
    """Whether a model's folder is there, told in no time; a hub id may be of a model that is yet to be downloaded.

    Errors: `BackendError`, in one line.
    """
    folder = _local_folder(model)
    if folder is not None and not (folder / "config.json").is_file():
        raise BackendError(
            f"model {model.name}: {folder} lacks config.json, which every model's folder holds"
        )


def _local_folder(model: Model) -> Path | None:
    """The folder that a model's path names; None of a hub id."""
    if model.path.startswith(_SANDBOX):
        from dagster_project.core.sandbox.models import reference_model_path

        try:
            return reference_model_path(model.path.removeprefix(_SANDBOX))
        except BackendError as error:
            raise BackendError(f"model {model.name}: {error}") from None
    try:
        folder = Path(model.path).expanduser()
        if folder.is_dir():
            return folder.resolve()
    except (OSError, RuntimeError) as error:  # a name too long, the home of nobody
        raise BackendError(f"model {model.name}: {model.path} names no folder ({error})") from None
    if not _HUB_ID.fullmatch(model.path):
        raise BackendError(
            f"model {model.name}: there is no folder {model.path}, and no hub id looks like it"
        )
    return None


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
    try:
        folder = _snapshot(model, local=True)
        if _missing(folder) or not has_tokenizer(folder):
            folder = _snapshot(model, local=False)
    except (OSError, ValueError):
        try:
            folder = _snapshot(model, local=False)
        except (OSError, ValueError) as error:
            raise BackendError(f"model {model.name}: {_why_not(model, error)}") from None
    _check(model, folder)
    return Weights(folder, folder.name if _COMMIT.fullmatch(folder.name) else _folder(model, folder).revision)


def _snapshot(model: Model, *, local: bool) -> Path:
    from huggingface_hub import snapshot_download

    found = snapshot_download(
        model.path,
        revision=model.revision,
        local_files_only=local,
        allow_patterns=list(_PATTERNS),
        ignore_patterns=["*/*", "consolidated*"],  # the same weights once more, in another layout
    )
    return Path(found)


def _why_not(model: Model, error: Exception) -> str:
    """Why a hub model cannot be had, in one line."""
    from huggingface_hub import errors

    if isinstance(error, errors.RevisionNotFoundError):
        return (
            f"hub model {model.path} has no revision {model.revision}; name a branch, a tag or a full commit"
        )
    if isinstance(error, errors.GatedRepoError):
        return f"hub model {model.path} wants its terms accepted on its page, and a login: run hf auth login"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"there is no folder {model.path}, and no hub model of this name that this login may see"
    at = f" at revision {model.revision}" if model.revision else ""
    cached = _cached_revisions(model)
    there = f", which holds {', '.join(cached)}" if cached else ""
    return (
        f"{model.path}{at} is no folder, not in the local hub cache{there}, and cannot be downloaded "
        f"({type(error).__name__}); check name, revision and network, or HF_HUB_OFFLINE"
    )


def _cached_revisions(model: Model) -> list[str]:
    """Branches, tags and commits of a hub model that the local cache names or holds."""
    from huggingface_hub import constants

    folder = Path(constants.HF_HUB_CACHE) / f"models--{model.path.replace('/', '--')}"
    return sorted(path.name for kind in ("refs", "snapshots") for path in folder.glob(f"{kind}/*"))


def has_tokenizer(folder: Path) -> bool:
    """Whether a model's folder holds any of the files that tokenizers are read from."""
    return any(any(folder.glob(pattern)) for pattern in _TOKENIZER_FILES)


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
    return "" if (folder / "model.safetensors").is_file() else "model.safetensors"
