"""Published Atlas checkpoints (Izacard et al., 2022), converted once to folders of safetensors: a reader, a retriever.

    python -m longtail.models.atlas_models <checkpoint> <folder>

A checkpoint is a pickle, `model.pth.tar`. This process reads it, and no run does. PyTorch's own reader of weights takes
tensors, plain values and `argparse.Namespace` (the options of the training) out of it, and refuses all else. A
checkpoint holds neither configuration nor tokenizer. They are those of the models that the training began with, which
its options name: a T5 and a Contriever, each a folder or a hub id.
"""

from __future__ import annotations

import argparse
import pickle
import re
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longtail.errors import BackendError
from longtail.models.limits import first_line
from longtail.storage.files import whole

FILE = "model.pth.tar"
READER, RETRIEVER = "reader", "retriever"
_BEGAN_WITH = {READER: "reader_model_type", RETRIEVER: "retriever_model_path"}
"""The options that name the models."""
_PART = re.compile(rf"({READER}|{RETRIEVER})\.(?:module\.)?(.+)")
"""The name of a weight; `module.` stands in those of models that were trained on several machines."""
_ENCODER = re.compile(r"((?:query_|passage_)?contriever)\.(.+)")
_NOT_LOADED = {
    "embeddings.position_ids",  # a range of numbers, which earlier versions of transformers stored
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",  # T5 has none there
}
_POOLINGS = {"average": "mean", "cls": "cls"}

Weights = Mapping[str, Any]


def convert(checkpoint: Path, folder: Path, reader: str | None = None, retriever: str | None = None) -> str:
    """Write `folder`, which appears whole or not at all; return the lines of a study that declare its models.

    `checkpoint`: the file, or the folder that holds it. `reader` and `retriever`: the models that the training began
    with, where its options do not name them. Errors: `BackendError`, in one line.
    """
    if folder.exists():
        raise BackendError(f"{folder}: is there already; name another folder, or remove it")
    weights, began_with = _read(checkpoint / FILE if checkpoint.is_dir() else checkpoint)
    chosen = {READER: reader, RETRIEVER: retriever}
    for part, option in _BEGAN_WITH.items():
        chosen[part] = chosen[part] or began_with.get(option)
        if not chosen[part]:
            raise BackendError(f"{checkpoint}: names no {option}; say which model it is with --{part}")
    from transformers import T5ForConditionalGeneration

    try:
        with whole(folder) as unfinished:
            t5 = str(chosen[READER])
            _write(T5ForConditionalGeneration, _config(t5), weights[READER], t5, unfinished / READER)
            pooling = _write_retriever(weights[RETRIEVER], str(chosen[RETRIEVER]), unfinished / RETRIEVER)
    except OSError as error:
        raise BackendError(f"{folder}: could not be written ({first_line(error)})") from None
    return (
        "models:\n"
        f"  - {{name: atlas, path: {folder / READER}, backend: fusion_in_decoder, encoder_decoder: true}}\n"
        "retrievers:\n"
        f"  - {{name: atlas_retriever, kind: dense, path: {folder / RETRIEVER}, pooling: {pooling}, normalise: false}}"
    )


def _read(file: Path) -> tuple[dict[str, Weights], dict[str, Any]]:
    """The weights of both parts, and the training's options."""
    import torch

    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            held = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    except pickle.UnpicklingError:
        raise BackendError(
            f"{file}: holds more than weights and options, or is damaged; nothing else is unpickled"
        ) from None
    except (OSError, RuntimeError, ValueError, EOFError) as error:
        raise BackendError(f"{file}: cannot be read ({first_line(error)})") from None
    parts: dict[str, dict[str, Any]] = {READER: {}, RETRIEVER: {}}
    names = held.get("model") if isinstance(held, dict) else None
    for name, tensor in names.items() if isinstance(names, dict) else ():
        match = _PART.fullmatch(str(name))
        if match is None:
            raise BackendError(f"{file}: weight {name} belongs neither to a reader nor to a retriever")
        parts[match[1]][match[2]] = tensor
    for part, tensors in parts.items():
        if not tensors:
            raise BackendError(f"{file}: is no checkpoint of Atlas: it has no weights of a {part}")
    return {**parts}, vars(held.get("opt") or argparse.Namespace())


def _write_retriever(weights: Weights, began_with: str, folder: Path) -> str:
    """Write the encoder; return how it pools."""
    from transformers import BertModel

    config = _config(began_with)
    pooling = _POOLINGS.get(getattr(config, "pooling", "average"))
    if pooling is None:
        raise BackendError(f"{began_with}: pools by {config.pooling}; known are {', '.join(_POOLINGS)}")
    _write(BertModel, config, _single_encoder(weights), began_with, folder, add_pooling_layer=False)
    return pooling


def _config(began_with: str) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(began_with, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise BackendError(f"{began_with}: gives no configuration ({first_line(error)})") from None


def _single_encoder(weights: Weights) -> Weights:
    """The weights of the encoder. Errors: `BackendError` where questions and passages have different ones."""
    import torch

    parts: dict[str, dict[str, Any]] = {}
    for name, tensor in weights.items():
        match = _ENCODER.fullmatch(name)
        if match is None:
            raise BackendError(f"weight {RETRIEVER}.{name} is none of a Contriever")
        parts.setdefault(match[1], {})[match[2]] = tensor
    first, *others = parts.values()
    for other in others:
        if other.keys() != first.keys() or not all(torch.equal(first[name], other[name]) for name in first):
            raise BackendError(
                "the retriever has one encoder for questions and another one for passages; a study declares one"
            )
    return first


def _write(
    architecture: Any, config: Any, weights: Weights, began_with: str, folder: Path, **keys: Any
) -> None:
    """Write configuration, weights and tokenizer. Errors: `BackendError` where configuration and weights do not fit."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()  # what does not fit is an error here
    tensors = {name: tensor for name, tensor in weights.items() if name not in _NOT_LOADED}
    dtype = next(iter(tensors.values())).dtype
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(began_with, trust_remote_code=False)
        model, report = architecture.from_pretrained(
            None, config=config, state_dict=tensors, dtype=dtype, output_loading_info=True, **keys
        )
    except Exception as error:  # transformers raises whatever it likes
        raise BackendError(f"{began_with} does not fit the checkpoint: {first_line(error)}") from error
    for kind, sense in (("missing_keys", "lacks"), ("unexpected_keys", "has unknown")):
        if report[kind]:
            some = ", ".join(sorted(report[kind])[:3])
            raise BackendError(f"the checkpoint {sense} weights of the {folder.name} {began_with}: {some}")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    """The command. Ends with a line on standard error where nothing could be written."""
    parser = argparse.ArgumentParser(
        prog="python -m longtail.models.atlas_models", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("checkpoint", type=Path, help=f"{FILE}, or the folder that holds it")
    parser.add_argument("folder", type=Path, help=f"a new folder, for {READER} and {RETRIEVER}")
    for part, option in _BEGAN_WITH.items():
        parser.add_argument(
            f"--{part}", help=f"the model that it began with, a folder or hub id (its {option})"
        )
    chosen = parser.parse_args()
    try:
        print(convert(chosen.checkpoint, chosen.folder, chosen.reader, chosen.retriever))
    except BackendError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
