"""The files of a model's folder that may be read, all of them hashed: nothing else reaches an engine.

A file is read where it stands at the top of the folder and matches `PATTERNS`. It lies in the folder itself; a
snapshot of the Hugging Face hub's cache may link to that cache's blobs. Weights are safetensors, as an index names
them too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.errors import BackendError
from longtail.storage.checksums import CHANGED, file_checksum, is_as_named, read_checksums
from longtail.storage.files import temporary_folder

PATTERNS = (
    "*.safetensors", "*.json", "*.txt", "*.model", "*.jinja", "*.spm", "*.codes", "*.tokenizer"
)  # fmt: skip
"""Weights, settings, and all that tokenizers are read from."""
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
CONFIG = "config.json"
GENERATION = "generation_config.json"
_TOKENIZER_SETTINGS = "tokenizer_config.json"
_ADAPTER = "adapter_config.json"
_SETTINGS = (CONFIG, GENERATION, _TOKENIZER_SETTINGS, INDEX)
_OUTSIDE = ("vocab", "merges", "gguf_file")
"""The names under which a tokenizer's settings may point to files anywhere."""
_HASH = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
"""A file's name in the hub's cache."""


@dataclass(frozen=True)
class ModelFiles:
    """Names in a model's folder, and the regular files behind them."""

    model: str
    folder: Path
    paths: tuple[tuple[str, Path], ...]

    def digest(self) -> str:
        """SHA-256 over names and contents. Errors: `BackendError` where a file cannot be read."""
        try:
            lines = [f"{name}\n{file_checksum(path)}\n" for name, path in self.paths]
        except OSError as error:
            raise self.refusal(f"{error.filename} cannot be read ({error.strerror})") from None
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def settings(self, name: str) -> dict[str, Any]:
        """A JSON file of settings; empty where there is none. Errors: `BackendError` where it is no object."""
        path = dict(self.paths).get(name)
        if path is None:
            return {}
        try:
            settings = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise self.refusal(f"{name} cannot be read ({error.strerror})") from None
        except (ValueError, RecursionError):
            raise self.refusal(f"{name} is not a valid JSON file") from None
        if not isinstance(settings, dict):
            raise self.refusal(f"{name} holds no JSON object")
        return settings

    @contextlib.contextmanager
    def as_folder(self) -> Iterator[Path]:
        """A folder that holds links to these files and nothing else, for as long as an engine reads.

        Errors: `BackendError` where a file does not match its checksum: in the `SHA256SUMS` of the folder or of the one
        around it, if there is one, or by the file's name in the hub's cache.
        """
        around = read_checksums(self.folder.parent)
        recorded = {name: around.get(f"{self.folder.name}/{name}") for name, _ in self.paths}
        recorded |= read_checksums(self.folder)
        for name, path in self.paths:
            is_cached = path.parent.name == "blobs" and _HASH.fullmatch(path.name)
            if not (is_as_named(path) if is_cached else recorded.get(name) in (None, file_checksum(path))):
                raise self.refusal(
                    f"{path} {CHANGED}; delete it, or the folder, and let it be made or downloaded again"
                )
        with temporary_folder("model") as folder:
            for name, path in self.paths:
                (folder / name).symlink_to(path)
            yield folder

    def refusal(self, reason: str) -> BackendError:
        return BackendError(f"model {self.model}: {self.folder} cannot be loaded: {reason}")


@dataclass(frozen=True)
class Weights:
    """The files of a model in Hugging Face's layout, and its revision.

    The revision is the SHA-256 over the names and contents of all files that are read. For a hub model it is the commit,
    git's hash of the whole repository; the files in the hub's cache are not hashed again. For a GGUF file it is the
    SHA-256 of that file, and `quantisation` says how it stored its weights.
    """

    files: ModelFiles
    revision: str
    quantisation: str | None = None


def find_files(model: str, folder: Path) -> ModelFiles:
    """The files of a complete model's folder. Errors: `BackendError`, in one line, where one is missing or unsafe."""
    files = ModelFiles(model, folder, _regular_files(model, folder))
    settings = {name: files.settings(name) for name in _SETTINGS}
    missing = _missing(files, settings[INDEX])
    if missing:
        raise BackendError(f"model {model}: {folder} lacks {missing}; only safetensors weights are loaded")
    if _ADAPTER in dict(files.paths):
        raise files.refusal(f"{_ADAPTER} belongs to an adapter; merge it into the weights and delete it")
    for name in _OUTSIDE:
        if isinstance(settings[_TOKENIZER_SETTINGS].get(name), str):
            raise files.refusal(f"{_TOKENIZER_SETTINGS} names a file of its own ({name}); delete that key")
    return files


def _regular_files(model: str, folder: Path) -> tuple[tuple[str, Path], ...]:
    none_yet = ModelFiles(model, folder, ())
    roots = _roots(folder)
    files = []
    try:
        for path in sorted(folder.iterdir()):
            if not any(path.match(pattern) for pattern in PATTERNS) or path.is_dir():
                continue
            real = path.resolve()
            if not any(real.is_relative_to(root) for root in roots):
                raise none_yet.refusal(f"{path.name} is a link that leaves the folder; copy the file into it")
            if not real.is_file():
                raise none_yet.refusal(f"{path.name} is no regular file")
            files.append((path.name, real))
    except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError
        raise none_yet.refusal(f"its files cannot be listed ({error})") from None
    return tuple(files)


def _roots(folder: Path) -> list[Path]:
    """Where files may lie: in the folder, or among the model's and the shared blobs of the hub's cache."""
    real = folder.resolve()
    repository = real.parent.parent
    if real.parent.name == "snapshots" and repository.name.startswith("models--"):
        return [real, (repository / "blobs").resolve(), (repository.parent / "blobs").resolve()]
    return [real]


def _missing(files: ModelFiles, index: Mapping[str, Any]) -> str:
    """The first file that a model's folder lacks; empty where the folder is complete.

    Errors: `BackendError` where the index names anything but a safetensors file in the folder.
    """
    there = dict(files.paths)
    if CONFIG not in there:
        return CONFIG
    if INDEX not in there:
        return "" if WEIGHTS in there else WEIGHTS
    shards = index.get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(name, str) for name in shards.values()):
        raise files.refusal(f"{INDEX} has no weight_map from weights to file names")
    for name in sorted(set(shards.values())):
        if name != Path(name).name or not name.endswith(".safetensors"):
            raise files.refusal(
                f"{INDEX} names {name[:80]!r}; weights are safetensors files that lie beside their index"
            )
        if name not in there:
            return name
    return ""
