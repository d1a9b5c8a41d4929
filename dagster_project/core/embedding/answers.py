"""Embeddings of answers, the ground of semantic consistency (SPEC §7).

What belongs here: lake table `answer_embeddings`. What does not: the encoder (`encoder`), and cosines,
which dbt computes.
"""

from __future__ import annotations

import logging

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dagster_project.core.embedding.encoder import ENCODER, load_encoder
from dagster_project.core.errors import LakeError
from dagster_project.core.lake import Computed, Lake, Outcome, code_version, fingerprint
from dagster_project.core.study import Study
from dagster_project.core.tables import TABLES

_TABLE = "answer_embeddings"


def embed_answers(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write lake table `answer_embeddings`: each distinct prediction of the models' `paraphrase_answers`.

    Texts that the existing file already holds, from the same encoder version, are not embedded again. Models
    without answers yet are left out and named in the notes.
    """
    answered = {model.name for model in study.models} & set(lake.partitions("paraphrase_answers"))
    waiting = [model.name for model in study.models if model.name not in answered]
    if study.paraphrase_prompts and not answered:
        raise LakeError(
            f"lake table paraphrase_answers has no partition of {', '.join(waiting)}; "
            "materialise asset lake/paraphrase_answers first"
        )
    models = sorted(answered)
    stamp = fingerprint(
        [(model, lake.content("paraphrase_answers", model)) for model in models],
        ENCODER.version,
        code_version("embedding"),
    )
    return lake.materialise(_TABLE, stamp, lambda: _compute(lake, models, waiting, log))


def _compute(lake: Lake, models: list[str], waiting: list[str], log: logging.Logger) -> Computed:
    if waiting:
        log.warning("answer embeddings: no paraphrase answers yet of %s", ", ".join(waiting))
    texts = sorted({text for model in models for text in _predictions(lake, model)})
    known = _known(lake)
    missing = [text for text in texts if text not in known]
    log.info("answer embeddings: %d texts, %d of them new", len(texts), len(missing))
    if missing:
        known.update(zip(missing, load_encoder().encode(missing, log), strict=True))
    vectors = (
        np.stack([known[text] for text in texts])
        if texts
        else np.empty((0, ENCODER.n_dimensions), np.float32)
    )
    rows = pa.table(
        {
            "text": pa.array(texts, pa.string()),
            "embedding": pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), ENCODER.n_dimensions),
            "encoder": pa.array([ENCODER.stamp] * len(texts), pa.string()),
        },
        schema=TABLES[_TABLE].schema,
    )
    notes = {"texts": len(texts), "embedded_now": len(missing), "empty_answers": int("" in texts)}
    return Computed(rows, notes={**notes, "models_without_answers": waiting})


def _predictions(lake: Lake, model: str) -> list[str]:
    column = lake.read("paraphrase_answers", model, columns=["prediction"])["prediction"]
    return [str(text) for text in pc.unique(column).to_pylist()]


def _known(lake: Lake) -> dict[str, np.ndarray]:
    """Texts of the existing file and their vectors, if this very encoder made them: same weights, settings and code."""
    if not lake.stamp(_TABLE):
        return {}
    table = lake.read(_TABLE)
    table = table.filter(pc.equal(table["encoder"], ENCODER.stamp))
    if not table.num_rows:
        return {}
    vectors = table["embedding"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return dict(zip(table["text"].to_pylist(), vectors.reshape(-1, ENCODER.n_dimensions), strict=True))
