"""One reader and its retriever while they learn, as Atlas does it (Izacard et al., 2022): the losses and a step.

The reader learns to write the target from all passages of a query (Fusion-in-Decoder). The retriever learns which
passages helped (perplexity distillation): its softmax over the scores of the passages should be the softmax over the
reader's mean log-likelihood of the target's tokens with each passage alone. The first has the setting's temperature, the
second that of the schedule, if it has one. A score is the inner product divided by the root of the dimensions, as in the
reference implementation. Passages keep their vectors.

All random numbers of a step follow from its number, and every checkpoint is written and read before training goes on: so
a run that was killed continues as one that was not.

A fact is judged as a whole: all its patterns are trained on, or none.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from longtail.embedding.declared import DeclaredEncoder
from longtail.errors import BackendError, LakeError
from longtail.generation.backends.hf import encode_apart, keep
from longtail.generation.backends.local.encoder_decoder import encode, parts_of
from longtail.generation.backends.local.loading import load_model
from longtail.generation.prompts.build import (
    Question,
    read_candidates,
    read_questions,
    read_wordings,
    text_apart,
    text_as_read,
)
from longtail.methods import VERBALISED, Method
from longtail.models.model_files import CONFIG, INDEX, ModelFiles
from longtail.models.placement import use_trainable
from longtail.models.weights import find_weights
from longtail.relations.cloze import SENTINEL, put_sentinel, search_text
from longtail.retrieval.base import load_retriever
from longtail.retrieval.dense import Flat, Nearest, nearest
from longtail.retrieval.indexes import Index
from longtail.retrieval.passage_vectors import finite_rows, read_rows, read_vectors
from longtail.retrieval.stored_passages import open_passages
from longtail.storage.lake import Lake
from longtail.study.models import Model
from longtail.study.study import Study
from longtail.study.sweep import Schedule, Setting, Sweep
from longtail.threads import thread_count

if TYPE_CHECKING:
    import torch

READER, RETRIEVER, MOMENTS = "reader", "retriever", "moments.safetensors"
WEIGHT_DECAY, CLIPPED_AT, EPSILON = 0.01, 1.0, 1e-6
"""Those of the reference implementation's examples."""
HELD_OUT, JUDGED = "held_out", "judged"


@dataclass(frozen=True)
class Query:
    """One pattern of a fact. `wording` still has [Y]."""

    question: Question
    relation: str
    paraphrase_id: int
    wording: str

    @property
    def text(self) -> str:
        return put_sentinel(self.wording)

    @property
    def retriever_text(self) -> str:
        """What the retriever reads, as in the study's retrieval."""
        return search_text(self.wording)


@dataclass(frozen=True)
class Facts:
    """The queries of a setting: those it trains on, and those of each split that it is judged on.

    `candidates`: those of each relation.
    """

    training: Sequence[Query]
    judged: Mapping[str, Sequence[Query]]
    candidates: Mapping[str, Sequence[str]]


def read_facts(study: Study, lake: Lake, sweep: Sweep, setting: Setting) -> Facts:
    """The facts of the sweep's dataset, split by its seed.

    Errors: `LakeError` where a relation has no cloze query, or too few facts to hold one out.
    """
    wordings = read_wordings(lake)
    known = read_candidates(lake)
    candidates = {relation: names for (dataset, relation), names in known.items() if dataset == sweep.dataset}
    by_relation: dict[str, list[Question]] = {}
    for question in read_questions(study, lake).get(sweep.dataset, ()):
        if question.relation in candidates and (sweep.dataset, question.question_id) in wordings:
            by_relation.setdefault(question.relation, []).append(question)
    for relation in (*setting.relations, *sweep.judged_relations):
        if relation not in by_relation:
            raise LakeError(
                f"{study.path}: sweep: dataset {sweep.dataset} has no cloze queries of relation {relation}"
            )
        if relation in setting.relations and len(by_relation[relation]) < 2:
            raise LakeError(f"{study.path}: sweep: relation {relation} needs two facts, one to hold out")

    def queries(relation: str, questions: Sequence[Question]) -> Iterator[Query]:
        for question in questions:
            for number, wording in wordings[sweep.dataset, question.question_id]:
                yield Query(question, relation, number, wording)

    training: list[Query] = []
    judged: dict[str, list[Query]] = {HELD_OUT: [], JUDGED: []}
    for relation in setting.relations:
        shuffled = _shuffle(by_relation[relation], sweep.seed)
        n_held_out = math.ceil(sweep.held_out * len(shuffled))
        training += queries(relation, shuffled[n_held_out:])
        judged[HELD_OUT] += queries(relation, shuffled[: min(n_held_out, sweep.judged_facts)])
    for relation in sweep.judged_relations:
        judged[JUDGED] += queries(relation, _shuffle(by_relation[relation], sweep.seed)[: sweep.judged_facts])
    return Facts(training, judged, candidates)


def batch(facts: Facts, setting: Setting, seed: int, step: int) -> list[Query]:
    """The queries of a step, from 0. All are taken in a random order before any is taken again."""
    n = len(facts.training)
    queries = []
    for place in range(step * setting.batch_size, (step + 1) * setting.batch_size):
        order = np.random.default_rng([seed, place // n]).permutation(n)
        queries.append(facts.training[order[place % n]])
    return queries


def _shuffle(questions: Sequence[Question], seed: int) -> list[Question]:
    """In an order that depends on the seed and the questions' ids alone."""
    return sorted(
        questions, key=lambda question: hashlib.sha256(f"{seed}|{question.question_id}".encode()).hexdigest()
    )


class FixedIndex:
    """The stored index of a dense retriever. Its vectors are mapped, not read.

    Errors: `IndexMissingError` where the index is not built over the present passages.
    """

    def __init__(self, study: Study, lake: Lake, method: Method, log: logging.Logger) -> None:
        index = Index.of(method, load_retriever(method), lake.content("passages"), study.home.indexes)
        index.require()
        self._folder, self._parts = index.folder, list(read_vectors(index.folder))
        self._passages = open_passages(lake, study.home.indexes, log)
        self._method = method
        whole = lake.read("passages", columns=["passage_id"], only=pc.field("source") == VERBALISED)
        self._verbalised = frozenset(whole["passage_id"].to_pylist())

    def search(self, vectors: np.ndarray, k: int, device: str) -> np.ndarray:
        """The rows of the nearest passages, best first: (queries, k), or fewer columns where there are fewer passages.

        Errors: `LakeError` where a query has no finite vector.
        """
        if not finite_rows(vectors).all():
            raise LakeError(
                f"retriever {self._method.name}: a query's vector is not finite; its training failed"
            )
        import faiss

        faiss.omp_set_num_threads(thread_count())
        best = Nearest.none(len(vectors))
        for rows, part in self._parts:
            hits = nearest(Flat(part, device), vectors, k)
            best = best.join_with(Nearest(rows[hits.rows], hits.scores), k)
        return best.rows

    def texts(self, rows: Sequence[int]) -> list[str]:
        """The passages as a model reads them apart from the question."""
        passages = [self._passages[int(row)] for row in rows]
        sources = [VERBALISED if passage.passage_id in self._verbalised else "" for passage in passages]
        return [
            text_apart(passage.title, text_as_read(passage.text, source, self._method))
            for passage, source in zip(passages, sources, strict=True)
        ]

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """float32 vectors, one for each row, with the shape of `rows` before the dimensions."""
        distinct, places = np.unique(rows, return_inverse=True)
        stored = [vectors.astype(np.float32) for _, vectors in read_rows(self._folder, distinct)]
        return np.concatenate(stored)[places.reshape(rows.shape)]


class Losses(NamedTuple):
    """Of one step: the reader's cross-entropy per token, and the retriever's divergence, means over the queries."""

    reader: float
    retriever: float


def reader_of(model: Model, checkpoint: Path | None) -> Model:
    """The model whose weights a checkpoint holds; without one, the model itself."""
    if checkpoint is None:
        return model
    return dataclasses.replace(model, path=str(checkpoint / READER), revision=None)


def retriever_of(encoder: DeclaredEncoder, checkpoint: Path | None) -> DeclaredEncoder:
    """The encoder of queries that a checkpoint holds; without one, the encoder itself."""
    if checkpoint is None:
        return encoder
    settings = dataclasses.replace(encoder.settings, path=str(checkpoint / RETRIEVER), revision=None)
    return DeclaredEncoder(encoder.name, settings)


class Trainer:
    """Reader and retriever in memory, as they are at a checkpoint (None: before the first of `steps` steps).

    Errors: `BackendError` where one of them cannot be loaded or trained.
    """

    def __init__(
        self,
        model: Model,
        encoder: DeclaredEncoder,
        setting: Setting,
        index: FixedIndex,
        checkpoint: Path | None,
        schedule: Schedule,
        steps: int,
    ) -> None:
        import torch

        self._model, self._encoder = reader_of(model, checkpoint), retriever_of(encoder, checkpoint)
        self._setting, self._index = setting, index
        self._schedule, self._steps = schedule, steps
        self._loaded = load_model(self._model)
        self._device = str(self._loaded.device)
        use_trainable(self._loaded.model)
        self._retriever = self._encoder.load_trainable(self._device)
        rates = setting.rates
        self._optimiser = torch.optim.AdamW(
            [
                {"params": list(self._loaded.model.parameters()), "rate": rates.reader},
                {"params": list(self._retriever.model.parameters()), "rate": rates.retriever},
            ],
            eps=EPSILON,
            weight_decay=WEIGHT_DECAY,
        )
        if checkpoint is not None:
            _read_moments(self._optimiser, checkpoint / MOMENTS)

    def step(self, queries: Sequence[Query], number: int, seed: int) -> Losses:
        """Train on a batch; `number` is that of the step, from 0. Errors: `BackendError` where a loss is not finite."""
        import torch

        torch.manual_seed((seed << 20) + number)
        self._optimiser.zero_grad(set_to_none=True)
        texts = [f"{self._encoder.settings.query_prefix}{query.retriever_text}" for query in queries]
        tokens = [encoding.ids for encoding in self._retriever.tokenizer.encode_batch(texts)]
        self._retriever.model.eval()
        with torch.no_grad():
            vectors = self._retriever.pool(tokens).cpu().numpy()
        rows = self._index.search(vectors, self._setting.passages, self._device)
        self._retriever.model.train()
        passages = torch.from_numpy(self._index.vectors(rows)).to(self._device)
        asked = self._retriever.pool(tokens)
        scores = (asked[:, None] * passages).sum(-1) / asked.shape[-1] ** 0.5
        reads = [
            self._read(query, self._index.texts(places), 1 / len(queries))
            for query, places in zip(queries, rows, strict=True)
        ]
        losses = torch.tensor([loss for loss, _ in reads])
        temperature = self._setting.temperature
        divergence = distillation_loss(
            scores,
            torch.stack([each for _, each in reads]),
            temperature,
            self._schedule.gold_temperature or temperature,
        )
        divergence.backward()
        step_losses = Losses(losses.mean().item(), divergence.item())
        if not math.isfinite(step_losses.reader + step_losses.retriever):
            raise BackendError(f"setting {self._setting.name}: the loss of step {number + 1} is not finite")
        for group in self._optimiser.param_groups:
            group["lr"] = group["rate"] * self._schedule.factor(number, self._steps)
            torch.nn.utils.clip_grad_norm_(group["params"], CLIPPED_AT)
        self._optimiser.step()
        return step_losses

    def save(self, folder: Path) -> None:
        """Write reader and retriever as ordinary models, and the optimiser's moments."""
        _save(self._loaded.model, find_weights(self._model).files, folder / READER)
        _save(self._retriever.model, self._encoder.files, folder / RETRIEVER)
        _write_moments(self._optimiser, folder / MOMENTS)

    def close(self) -> None:
        del self._optimiser, self._retriever
        self._loaded.close()

    def _read(self, query: Query, passages: Sequence[str], weight: float) -> tuple[float, torch.Tensor]:
        """Add the gradient of the reader's loss; the loss, and the target's mean log-likelihood by each passage alone."""
        import torch

        (target,) = self._loaded.encode([f"{SENTINEL} {query.question.answer}"])
        limit = self._model.passage_tokens
        (tokens,) = encode_apart(self._loaded, [query.text], [passages], limit)
        if not tokens:
            raise BackendError(
                f"{query.text!r} leaves no room for a passage; raise passage_tokens of the model"
            )
        read = keep(self._loaded, tokens, len(target), limit)
        reader = self._loaded.model
        reader.train()
        loss = -token_log_likelihoods(reader, [read], target).mean()
        (weight * loss).backward()
        reader.eval()
        with torch.no_grad():
            alone = token_log_likelihoods(reader, parts_of(read), target).mean(-1)
        return loss.item(), alone


def token_log_likelihoods(
    reader: Any, prompts: Sequence[Sequence[int]], target: Sequence[int]
) -> torch.Tensor:
    """Of the target's tokens behind each prompt, whose parts are fused: (prompts, tokens)."""
    import torch

    out, mask = encode(reader.get_encoder(), prompts, reader.device)
    labels = torch.tensor([list(target)] * len(prompts), device=reader.device)
    logits = reader(encoder_outputs=out, attention_mask=mask, labels=labels, use_cache=False).logits
    return logits.float().log_softmax(-1).gather(-1, labels[..., None])[..., 0]


def distillation_loss(
    scores: torch.Tensor, likelihoods: torch.Tensor, temperature: float, gold_temperature: float
) -> torch.Tensor:
    """The mean over queries of the divergence of the retriever's distribution over passages from the reader's.

    `gold_temperature` is that of the reader's. `scores` and `likelihoods`: (queries, passages). Only `scores` have a
    gradient. Izacard et al. (2022), section 2.2.
    """
    import torch

    wanted = (likelihoods.float() / gold_temperature).log_softmax(-1)
    predicted = (scores.float() / temperature).log_softmax(-1)
    return torch.nn.functional.kl_div(predicted, wanted, reduction="batchmean", log_target=True)


def _save(model: Any, source: ModelFiles, folder: Path) -> None:
    """The weights as safetensors, with the source's own tokenizer and settings."""
    model.save_pretrained(folder)
    for name, path in source.paths:
        if name not in (CONFIG, INDEX) and not name.endswith(".safetensors"):
            shutil.copyfile(path, folder / name)


def _write_moments(optimiser: torch.optim.Optimizer, path: Path) -> None:
    from safetensors.torch import save_file

    states: Mapping[int, Mapping[str, Any]] = optimiser.state_dict()["state"]
    save_file(
        {
            f"{number}.{name}": value.contiguous()
            for number, state in states.items()
            for name, value in state.items()
        },
        path,
    )


def _read_moments(optimiser: torch.optim.Optimizer, path: Path) -> None:
    from safetensors.torch import load_file

    if not path.exists():
        raise BackendError(
            f"{path} is missing; delete {path.parents[1]}, and the setting is trained from its first step"
        )
    states: dict[int, dict[str, Any]] = {}
    for key, value in load_file(path).items():
        number, name = key.split(".")
        states.setdefault(int(number), {})[name] = value
    optimiser.load_state_dict({**optimiser.state_dict(), "state": states})
