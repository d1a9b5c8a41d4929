"""GGUF files, converted once to a folder of safetensors in the home's cache.

The folder's name is the file's SHA-256, which is the model's revision. Below it is a folder per number format and
version of the converters. Weights are dequantised, so the answers are those of the file's rounded weights, computed in
the study's `dtype`. A process of its own gives the memory of the conversion back, and a damaged file harms it alone.
"""

from __future__ import annotations

import functools
import importlib.metadata
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from longtail.errors import BackendError
from longtail.models.model_files import Weights, find_files
from longtail.processes import end_with_parent
from longtail.storage.checksums import differences, file_checksum, record
from longtail.storage.files import full_disk, has_no_room, is_disk_full, whole
from longtail.storage.home import longtail_home
from longtail.storage.ownership import only_one
from longtail.study.model_files import GgufHeader, find_gguf, read_header
from longtail.study.models import Model

_LOG = logging.getLogger(__name__)
_VERSION = 1
"""Raised when the same file ought to become another folder."""
_SHOWN = 300
_SINGLE_DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
"""Names of ways to split a text as GPT-2, but each digit alone; transformers splits such files as GPT-2."""
_AS_GPT2 = ("", "default", "gpt-2", "phi-2", "mpt", "olmo", "jais")


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
    name = "-".join((model.dtype, *converters, str(_VERSION)))
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
        raise BackendError(f"model {model.name}: {path} {_reason(done, folder)}")
    for warning in done.stdout.splitlines():
        _LOG.warning("%s: %s", model.name, warning)
    record(folder)


def _reason(done: subprocess.CompletedProcess[str], folder: Path) -> str:
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
