"""Where a model's files are, and which exact ones, without loading them or importing torch."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from longtail.errors import BackendError
from longtail.models.gguf_models import convert
from longtail.models.model_files import PATTERNS, Weights, find_files
from longtail.study.model_files import find_gguf, folder_of, place_of, read_header, reference_model_path
from longtail.study.models import Model

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SANDBOX = "sandbox:"
_HUB_TIMEOUT_S = 8.0
_TOKENIZER_FILES = ("tokenizer*", "tekken.json", "vocab.*", "spiece.model", "*.bpe.model")
"""Every tokenizer has one of these files."""


def find_weights(model: Model, *, is_read: bool = False) -> Weights:
    """The files of a model; a hub model is downloaded once, and then stays at that commit. `is_read`: see `convert`.

    Errors: `BackendError`, in one line, where there are none or they are not safetensors.
    """
    if model.is_gguf:
        return convert(model, is_read=is_read)
    folder = _local_folder(model)
    if folder is None:
        return _hub(model)
    files = find_files(model.name, folder)
    return Weights(files, files.digest())


def check_folder(model: Model) -> None:
    """Look at once whether a model is there: its folder, a whole GGUF file, or a hub id in the cache or on the hub.

    Errors: `BackendError`, in one line.
    """
    if model.is_gguf:
        read_header(model, find_gguf(model))
        return
    folder = _local_folder(model)
    if folder is None:
        _check_hub(model)
    elif not (folder / "config.json").is_file():
        raise BackendError(
            f"model {model.name}: {folder} lacks config.json, which every model's folder holds"
        )


def _local_folder(model: Model) -> Path | None:
    """The folder that a model's path names; None for a hub id."""
    if model.path.startswith(_SANDBOX):
        try:
            return reference_model_path(model.path.removeprefix(_SANDBOX))
        except BackendError as error:
            raise BackendError(f"model {model.name}: {error}") from None
    return folder_of(model)


def _hub(model: Model) -> Weights:
    folder = _find_in_cache(model)
    if folder is None:
        try:
            folder = _snapshot(model, local=False)
        except (OSError, ValueError) as error:
            raise BackendError(f"model {model.name}: {_reason(model, error)}") from None
    files = find_files(model.name, folder)
    return Weights(files, folder.name if _COMMIT.fullmatch(folder.name) else files.digest())


def _find_in_cache(model: Model) -> Path | None:
    """The folder in the hub's cache that holds all of a model; None where something is not there yet."""
    with contextlib.suppress(OSError, ValueError, BackendError):
        folder = _snapshot(model, local=True)
        find_files(model.name, folder)
        return folder if has_tokenizer(folder) else None
    return None


def _check_hub(model: Model) -> None:
    """A model that the cache does not hold whole is on the hub, which is asked for its page alone."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import OfflineModeIsEnabled

    if _find_in_cache(model) is not None:
        return
    try:
        if constants.HF_HUB_OFFLINE:
            raise OfflineModeIsEnabled
        HfApi().model_info(model.path, revision=model.revision, timeout=_HUB_TIMEOUT_S)
    except Exception as error:  # the hub's library passes on errors of more than one HTTP library
        raise BackendError(f"model {model.name}: {_reason(model, error)}") from None


def _snapshot(model: Model, *, local: bool) -> Path:
    from huggingface_hub import snapshot_download

    folder = snapshot_download(
        model.path,
        revision=model.revision,
        local_files_only=local,
        allow_patterns=list(PATTERNS),
        ignore_patterns=["*/*", "consolidated*"],  # the same weights in another layout
    )
    return Path(folder)


def _reason(model: Model, error: Exception) -> str:
    """Why a hub model cannot be had, in one line."""
    from huggingface_hub import constants, errors

    here = place_of(model.path, model.study_folder)
    if isinstance(error, errors.RevisionNotFoundError):
        return (
            f"hub model {model.path} has no revision {model.revision}; name a branch, a tag or a full commit"
        )
    if isinstance(error, errors.GatedRepoError):
        return f"hub model {model.path} wants its terms accepted on its page, and a login: run hf auth login"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"there is no folder {here}, and no hub model of this name that this login may see"
    at = f" at revision {model.revision}" if model.revision else ""
    folder = Path(constants.HF_HUB_CACHE) / f"models--{model.path.replace('/', '--')}"
    cached = sorted(path.name for kind in ("refs", "snapshots") for path in folder.glob(f"{kind}/*"))
    there = f", which holds {', '.join(cached)}" if cached else ""
    return (
        f"{model.path}{at} is no folder, not in the local hub cache{there}, and cannot be downloaded "
        f"({type(error).__name__}); check name, revision and network, or HF_HUB_OFFLINE; as a folder it would be {here}"
    )


def has_tokenizer(folder: Path) -> bool:
    """Whether a model's folder holds any of the files that tokenizers are read from."""
    return any(any(folder.glob(pattern)) for pattern in _TOKENIZER_FILES)
