"""Predictions of a checkpoint, or of the reader before training, for the evaluation facts.

The checkpoint is read as an ordinary model, and its retriever searches the stored vectors. Candidates are scored as in
lake table candidate_answers: in two lists, the first of the likeliest wins.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from longtail.embedding.declared import DeclaredEncoder
from longtail.embedding.vectors import lease_for_encoder
from longtail.errors import BackendError
from longtail.generation.backends.base import Failure
from longtail.generation.backends.hf import FusionInDecoder
from longtail.generation.tasks.candidate_answers import rank_candidates, targets
from longtail.progress import Progress
from longtail.prompt_formats import CLOZE_T5
from longtail.storage.checksums import seal, unseal
from longtail.storage.files import whole
from longtail.study.models import Model
from longtail.tuning.facts import Facts, FixedIndex, Query

_QUERIES = 64
"""Queries whose passages are in memory together."""


def read_predictions(
    path: Path,
    reader: Model,
    encoder: DeclaredEncoder,
    index: FixedIndex,
    facts: Facts,
    k: int,
    log: logging.Logger,
) -> list[dict[str, Any]]:
    """One row for each query of `facts.judged`: its split and key, the prediction, and its log-likelihood.

    `path`: the file of these rows, which is read if it is as it was written, and else written. Errors: `BackendError`
    where reader or encoder cannot be loaded, or a query cannot be read.
    """
    text = unseal(path)
    if text is None:
        text = json.dumps(_predictions(reader, encoder, index, facts, k, log))
        with whole(path) as target:
            target.write_text(seal(text), encoding="utf-8")
    rows: list[dict[str, Any]] = json.loads(text)
    return rows


def _predictions(
    reader: Model, encoder: DeclaredEncoder, index: FixedIndex, facts: Facts, k: int, log: logging.Logger
) -> list[dict[str, Any]]:
    backend = FusionInDecoder(reader)
    rows: list[dict[str, Any]] = []
    n = sum(map(len, facts.judged.values()))
    try:
        with (
            lease_for_encoder(reader.device, encoder.name) as device,
            Progress(log, f"{reader.name}: cloze queries judged", n) as progress,
        ):
            for split, queries in facts.judged.items():
                for start in range(0, len(queries), _QUERIES):
                    some = queries[start : start + _QUERIES]
                    texts = [f"{encoder.settings.query_prefix}{query.retriever_text}" for query in some]
                    vectors = encoder.load(device).encode(texts, log)
                    passages = [index.texts(places) for places in index.search(vectors, k, device)]
                    rows += _judge(backend, split, some, passages, facts)
                    progress.add(len(some))
    finally:
        backend.close()
    return rows


def _judge(
    backend: FusionInDecoder,
    split: str,
    queries: Sequence[Query],
    passages: Sequence[Sequence[str]],
    facts: Facts,
) -> Iterator[dict[str, Any]]:
    written = [targets(CLOZE_T5, facts.candidates[query.relation]) for query in queries]
    scores = backend.score([query.text for query in queries], written, passages=passages)
    for query, scored in zip(queries, scores, strict=True):
        if isinstance(scored, Failure):
            raise BackendError(f"{query.text!r} cannot be scored: {scored.reason}")
        names = facts.candidates[query.relation]
        best = rank_candidates(scored.scores, len(names))[0]
        prediction = names[best % len(names)]
        yield {
            "split": split,
            "relation": query.relation,
            "question_id": query.question.question_id,
            "paraphrase_id": query.paraphrase_id,
            "prediction": prediction,
            "log_likelihood": scored.scores[best].log_likelihood,
            "is_correct": prediction in query.question.gold_answers,
        }
