"""Where a model's files are, and which exact ones, without loading them or importing torch.

A GGUF file is converted once to a folder of safetensors in the home's cache. The folder's name is the file's SHA-256,
which is the model's revision. Below it is a folder per number format and version of the converters. Weights are
dequantised, so the answers are those of the file's rounded weights, computed in the study's `dtype`. A process of its
own gives the memory of the conversion back, and a damaged file harms it alone.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from longtail.errors import BackendError
from longtail.models.model_files import PATTERNS, Weights, find_files
from longtail.processes import end_with_parent
from longtail.storage.checksums import differences, file_checksum, record
from longtail.storage.files import full_disk, has_no_room, is_disk_full, whole
from longtail.storage.home import longtail_home
from longtail.storage.ownership import only_one
from longtail.study.model_files import (
    GgufHeader,
    find_gguf,
    folder_of,
    place_of,
    read_header,
    reference_model_path,
)
from longtail.study.models import Model

_LOG = logging.getLogger(__name__)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SANDBOX = "sandbox:"
_HUB_TIMEOUT_S = 8.0
_TOKENIZER_FILES = ("tokenizer*", "tekken.json", "vocab.*", "spiece.model", "*.bpe.model")
"""Every tokenizer has one of these files."""
_GGUF_VERSION = 1
"""Raised when the same file ought to become another folder."""
_SHOWN = 300
_SINGLE_DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
"""Names of ways to split a text as GPT-2, but each digit alone; transformers splits such files as GPT-2."""
_AS_GPT2 = ("", "default", "gpt-2", "phi-2", "mpt", "olmo", "jais")


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


def convert(model: Model, *, is_read: bool = False) -> Weights:
    """The converted file of a model; only the first call converts it, and others wait meanwhile.

    `is_read`: its weights are about to be read. It is converted again where a file of it does not match its checksum.

    Errors: `BackendError`, in one line, where the file is missing, cut, or of an architecture that transformers does not
    convert.
    """
    path = find_gguf(model)
    header = read_header(model, path)
    revision = file_checksum(path)
    if model.revision not in (None, revision):
        raise BackendError(
            f"model {model.name}: {path} has the SHA-256 {revision}, and the study asks for revision {model.revision}"
        )
    converters = (f"{package}-{importlib.metadata.version(package)}" for package in ("transformers", "gguf"))
    name = "-".join((model.dtype, *converters, str(_GGUF_VERSION)))
    folder = longtail_home() / "cache" / "gguf" / revision / name
    if not _is_whole(folder, model, is_read):
        with only_one(folder.parent / f"{name}.lock", None):
            if not _is_whole(folder, model, is_read):
                _LOG.info("%s: converting %s (%s), once", model.name, path, header.quantisation)
                with whole(folder) as unfinished:
                    _write(model, path, header, unfinished)
    return Weights(find_files(model.name, folder), revision, header.quantisation)


def _is_whole(folder: Path, model: Model, is_read: bool) -> bool:
    if not folder.is_dir():
        return False
    for name, fault in differences(folder).items() if is_read else ():
        _LOG.warning("%s: %s %s: the GGUF file is converted again", model.name, folder / name, fault)
        return False
    return True


def _write(model: Model, path: Path, header: GgufHeader, folder: Path) -> None:
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(path), str(folder), model.dtype, header.splitting],
        capture_output=True, text=True, errors="replace", check=False,
        env={**os.environ, "TQDM_DISABLE": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    if done.returncode:
        raise BackendError(f"model {model.name}: {path} {_failure(done, folder)}")
    for warning in done.stdout.splitlines():
        _LOG.warning("%s: %s", model.name, warning)
    record(folder)


def _failure(done: subprocess.CompletedProcess[str], folder: Path) -> str:
    if is_disk_full(done.stderr) or has_no_room(folder):
        return f"cannot be converted: {full_disk(folder.parent)}"
    if done.returncode < 0:
        return f"cannot be converted: signal {-done.returncode} ended it; is there too little memory?"
    version = importlib.metadata.version("transformers")
    reason = next(iter(done.stderr.strip().splitlines()[-1:]), "no reason was given")
    return (
        f"cannot be converted by transformers {version}: {reason[:_SHOWN]}; fetch another file of the model, or serve"
        " this one by llama.cpp and name the service (backend: openai)"
    )


def _convert(path: Path, folder: Path, dtype: str, splitting: str) -> None:
    """Write configuration, weights, tokenizer, chat template and generation settings."""
    import gguf
    import torch
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForSeq2SeqLM,
        AutoTokenizer,
        GgufConfig,
    )

    # transformers would read the file's long lists of tokens once for each of the following parts
    vars(gguf)["GGUFReader"] = functools.cache(gguf.GGUFReader)
    config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
    auto = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    _split(tokenizer.backend_tokenizer, splitting)
    tokenizer.save_pretrained(folder)
    load: Any = auto.from_pretrained
    model, report = load(
        path.parent,
        gguf_file=path.name,
        config=config,
        dtype=getattr(torch, dtype),
        quantization_config=GgufConfig(dequantize=True),
        output_loading_info=True,
    )
    if report["missing_keys"]:
        raise ValueError(
            f"weights of the model are missing, as {', '.join(sorted(report['missing_keys'])[:3])}"
        )
    if not all(bool(torch.isfinite(weight).all()) for weight in model.parameters()):
        raise ValueError("some of its weights are no finite numbers; it is damaged")
    model.save_pretrained(folder)


def _split(tokenizer: Any, splitting: str) -> None:
    """Split texts as the file's tokenizer does, where transformers would not; print a warning where nobody knows how."""
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
    from transformers.integrations.gguf import gguf_tokenizer_mapping

    if splitting in _SINGLE_DIGITS:
        tokenizer.pre_tokenizer = Sequence(
            [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
        )
    elif isinstance(tokenizer.pre_tokenizer, ByteLevel) and splitting not in (
        *_AS_GPT2, *gguf_tokenizer_mapping.GGUF_PRE_TOKENIZER_SPLITS
    ):  # fmt: skip
        print(f"its tokenizer splits texts by rules named {splitting!r}; transformers takes GPT-2's for it")


if __name__ == "__main__":
    end_with_parent()
    try:
        _convert(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4])
    except Exception as error:  # whatever transformers raises on what it does not know
        first = " ".join(str(error).split()) or "no reason was given"
        if "ignore_mismatched_sizes" in first:
            first = "its weights have other sizes than its header says"
        named = isinstance(error, (ValueError, OSError, ImportError, RuntimeError))
        print(first if named else f"{type(error).__name__}: {first}", file=sys.stderr)
        sys.exit(1)
