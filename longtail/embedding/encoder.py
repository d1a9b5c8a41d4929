"""From texts to vectors: the transformer, one vector of its tokens', unit length (Reimers and Gurevych, 2019).

sentence-transformers takes longer to import; a test checks that the vectors equal that library's to 1e-5.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from longtail.progress import Progress

if TYPE_CHECKING:
    import torch

# Small batches keep their activations in a CPU core's cache: with 8,192 tokens it took a third longer.
_BATCH_TOKENS = 1_024
_BATCH_TOKENS_GPU = 65_536


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


def _batches(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Rows sorted by length, longest first, in batches of at most `most` padded tokens."""
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: (-lengths[row], row)):
        if not batches or (len(batches[-1]) + 1) * lengths[batches[-1][0]] > most:
            batches.append([])
        batches[-1].append(row)
    return batches
