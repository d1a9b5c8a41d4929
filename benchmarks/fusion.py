"""Fusion-in-Decoder on the CPU, beside transformers with the same fused states (RANDOM WEIGHTS).

The peer goes query by query. It encodes a query's passages in one padded batch, puts their states behind one another, and
gives these to the decoder: once for each candidate, or to `generate`. Both encode the same tokens, so a short generated
text, which is nearly all encoding, shows the encoders' ratio.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Contestant, race, say
from benchmarks.peers import NEW_TOKENS
from benchmarks.shapes import Shape, write_model
from longtail.generation.backends.base import Decoding, Scored, load_backend
from longtail.relations.cloze import SENTINEL
from longtail.study.models import Model

N_PASSAGES = 20
_WORDS = (
    "silver",
    "river",
    "painter",
    "city",
    "north",
    "opera",
    "science",
    "king",
    "jazz",
    "harbour",
    "bridge",
)
_ALLOWED_NATS = 0.001


@dataclass(frozen=True)
class Query:
    """A pattern with its subject and a sentinel, and its passages of 60 to 100 words."""

    text: str
    passages: tuple[str, ...]


def queries(n: int) -> list[Query]:
    rng = np.random.default_rng(0)
    return [
        Query(
            f"The river of place {i} is{SENTINEL}.",
            tuple(" ".join(rng.choice(_WORDS, int(rng.integers(60, 101)))) for _ in range(N_PASSAGES)),
        )
        for i in range(n)
    ]


class FusedTransformers:
    """A T5 of transformers that reads the states of many passages, one query at a time."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        load: Any = AutoModelForSeq2SeqLM.from_pretrained
        self.model = load(folder).eval()

    def score(self, query: Query, candidates: Sequence[str]) -> list[float]:
        """The log-likelihood of each candidate: one forward pass each over the query's states."""
        import torch

        with torch.inference_mode():
            given, found = self._states(query), []
            for candidate in candidates:
                ids = [i for i in self.tokenizer(candidate)["input_ids"] if i != self.tokenizer.eos_token_id]
                start = [self.model.config.decoder_start_token_id]
                out = self.model(**given, decoder_input_ids=torch.tensor([start + ids[:-1]]), use_cache=False)
                steps = out.logits[0].log_softmax(dim=-1)
                found.append(float(steps[range(len(ids)), ids].sum()))
            return found

    def generate(self, query: Query) -> str:
        """A greedy text."""
        import torch

        with torch.inference_mode():
            out = self.model.generate(**self._states(query), max_new_tokens=NEW_TOKENS, do_sample=False)
        return str(self.tokenizer.decode(out[0], skip_special_tokens=True))

    def _states(self, query: Query) -> dict[str, Any]:
        """The encoder's states of all passages behind one another, (1, passages × longest, width), and their mask."""
        from transformers.modeling_outputs import BaseModelOutput

        texts = [f"{query.text} {passage}" for passage in query.passages]
        own = self.tokenizer(texts, return_tensors="pt", padding=True)
        states = self.model.get_encoder()(
            input_ids=own["input_ids"], attention_mask=own["attention_mask"]
        ).last_hidden_state
        fused = BaseModelOutput(last_hidden_state=states.reshape(1, -1, states.shape[-1]))
        return {"encoder_outputs": fused, "attention_mask": own["attention_mask"].reshape(1, -1)}


@dataclass(frozen=True)
class Fusion:
    """The contestants: Longtail and its peer, scoring candidates and generating. `n_parameters`: those of the model."""

    n_parameters: int
    scoring: tuple[Contestant, Contestant]
    generating: tuple[Contestant, Contestant]


def race_fusion(
    shape: Shape, folder: Path, n: int, candidates: Sequence[str], n_peer: int, rounds: int
) -> Fusion:
    """`n` queries for Longtail, the first `n_peer` of them for transformers."""
    say(f"{shape.name}: writing random weights …")
    n_parameters = write_model(shape, folder, "cpu", "float32")
    peer = FusedTransformers(folder)
    backend: Any = load_backend(
        Model(
            name="reader", path=str(folder), backend="fusion_in_decoder", device="cpu", encoder_decoder=True,
            passage_tokens=512,
        )
    )  # fmt: skip
    asked = queries(n)
    texts, passages = [one.text for one in asked], [one.passages for one in asked]

    def score() -> list[list[float]]:
        backend.forget()  # no round profits from the previous one
        made = backend.score(texts, [candidates] * n, passages=passages)
        return [[score.log_likelihood for score in own.scores] for own in made if isinstance(own, Scored)]

    def write() -> list[str]:
        backend.forget()
        return [one.text for one in backend.generate(texts, Decoding(NEW_TOKENS), passages=passages)]

    scoring = (
        Contestant("Longtail", score, n),
        Contestant("transformers, a forward pass a candidate",
                   lambda: [peer.score(one, candidates) for one in asked[:n_peer]], n_peer),
    )  # fmt: skip
    generating = (
        Contestant("Longtail", write, n),
        Contestant(
            "transformers, `generate`", lambda: [peer.generate(one) for one in asked[:n_peer]], n_peer
        ),
    )
    expected = peer.score(asked[0], candidates[:4]), peer.generate(asked[0])
    race([*scoring, *generating], rounds, functools.partial(_check, *expected))
    backend.close()
    return Fusion(n_parameters, scoring, generating)


def _check(scores: Sequence[float], text: str, name: str, made: Sequence[Any]) -> None:
    """The first query has these scores of its first candidates, and this greedy text."""
    first = made[0]
    if isinstance(first, str):
        if first != text:
            raise SystemExit(f"error: {name} wrote {first!r}, not {text!r}")
    elif (furthest := max(abs(a - b) for a, b in zip(first, scores, strict=False))) > _ALLOWED_NATS:
        raise SystemExit(f"error: {name}: a score is {furthest:.4f} nats from that of the plain forward pass")
