"""Embeddings of answers, the basis of semantic consistency (SPEC §7).

What belongs here: lake table `answer_embeddings`. What does not: the encoder (`embedding.encoder`), and cosines, which
dbt computes.
"""

from __future__ import annotations

import logging

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dagster_project.core.embedding.encoder import ENCODER, load_encoder
from dagster_project.core.errors import LakeError
from dagster_project.core.fingerprints import code_version, fingerprint
from dagster_project.core.lake import Computed, Lake, Outcome
from dagster_project.core.study.study import Study
from dagster_project.core.tables import TABLES

_TABLE = "answer_embeddings"


def embed_answers(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write lake table `answer_embeddings`: each distinct prediction of the models' paraphrase and sampled answers.

    Texts that the existing file already has, from the same encoder version, are not embedded again. Models without
    answers are left out and named in the notes. Errors: `LakeError` if a table that the study's prompts need has no
    answers of any model.
    """
    answered = [
        (table, model.name)
        for table in _asked_tables(study)
        for model in study.models
        if model.name in lake.partitions(table)
    ]
    for table in _asked_tables(study):
        if table not in dict(answered):
            names = ", ".join(model.name for model in study.models)
            raise LakeError(
                f"lake table {table} has no partition of {names}; materialise asset lake/{table} first"
            )
    waiting = [
        model.name
        for model in study.models
        if model.generates and any((table, model.name) not in answered for table in _asked_tables(study))
    ]
    stamp = fingerprint(
        [(table, model, lake.content(table, model)) for table, model in answered],
        ENCODER.version,
        code_version(__name__),
    )
    return lake.materialise(_TABLE, stamp, lambda: _compute(lake, answered, waiting, log))


def _asked_tables(study: Study) -> list[str]:
    """The tables whose answers are compared with one another."""
    asked = {"paraphrase_answers": study.paraphrase_prompts, "sampled_answers": study.sample_prompts}
    return [table for table, prompts in asked.items() if prompts]


def _compute(
    lake: Lake, answered: list[tuple[str, str]], waiting: list[str], log: logging.Logger
) -> Computed:
    if waiting:
        log.warning("answer embeddings: not all answers yet of %s", ", ".join(waiting))
    texts = sorted({text for table, model in answered for text in _predictions(lake, table, model)})
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


def _predictions(lake: Lake, table: str, model: str) -> list[str]:
    column = lake.read(table, model, columns=["prediction"])["prediction"]
    return [str(text) for text in pc.unique(column).to_pylist()]


def _known(lake: Lake) -> dict[str, np.ndarray]:
    """The texts of the existing file and their vectors, if this encoder made them: same weights, settings and code."""
    if not lake.stamp(_TABLE):
        return {}
    table = lake.read(_TABLE)
    table = table.filter(pc.equal(table["encoder"], ENCODER.stamp))
    if not table.num_rows:
        return {}
    vectors = table["embedding"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return dict(zip(table["text"].to_pylist(), vectors.reshape(-1, ENCODER.n_dimensions), strict=True))
