"""Embeddings of answers, the basis of semantic consistency (SPEC §7)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from longtail.embedding.encoder import ENCODER
from longtail.embedding.vectors import Vectors
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import WHOLE, Computed, Lake, Outcome, QuarantinedRow, Streamed
from longtail.storage.lake_rows import add_constants
from longtail.study.models import Model
from longtail.study.study import Study

_TABLE = "answer_embeddings"


def embed_answers(study: Study, lake: Lake, model: str, log: logging.Logger) -> Outcome:
    """Write a model's partition of `answer_embeddings`: each distinct prediction of its paraphrase and sampled answers.

    A text that this home has embedded, for any model or study, is not embedded again. A text whose vector is not finite
    is put aside. Errors: `LakeError` if answers that the study asks of the model are missing.
    """
    tables = compared_tables(study, study.model(model))
    stamp = fingerprint(
        [(table, lake.content(table, model)) for table in tables],
        ENCODER.stamp,
        code_version(__name__),
    )
    if all(one.name != WHOLE for one in study.models):
        lake.discard(_TABLE, WHOLE)  # earlier versions had one file for all models
    with Vectors(study.home.cache, study.embeddings.device, log) as vectors:

        def compute() -> Computed:
            columns = [lake.read(table, model, columns=["prediction"])["prediction"] for table in tables]
            return embed_texts(
                model, (text for own in columns for text in pc.unique(own).to_pylist()), vectors
            )

        return lake.materialise(_TABLE, stamp, compute, model)


def embed_texts(model: str, texts: Iterable[str], vectors: Vectors) -> Computed:
    """The rows of `answer_embeddings` for a model's predictions; equal texts have one row."""
    found = set(texts)
    embedded = vectors.embed(sorted(found))
    usable = sorted(found - embedded.unusable)
    rejected = [
        QuarantinedRow(text, "the encoder's vector is not finite", text) for text in sorted(embedded.unusable)
    ]
    notes = {"texts": len(usable), "embedded_now": embedded.n_new, "empty_answers": int("" in found)}
    return Computed(Streamed(_rows(model, usable, vectors)), rejected, notes)


def compared_tables(study: Study, model: Model) -> list[str]:
    """The tables whose answers are compared with one another; a model of imported answers has none of them."""
    asked = {"paraphrase_answers": study.paraphrase_prompts, "sampled_answers": study.sample_prompts}
    return [table for table, prompts in asked.items() if prompts and model.generates]


def _rows(model: str, texts: Sequence[str], vectors: Vectors) -> Iterator[pa.Table]:
    for part, some in vectors.stream(texts):
        lists = pa.FixedSizeListArray.from_arrays(some.reshape(-1), ENCODER.n_dimensions)
        yield add_constants(pa.table({"text": part, "embedding": lists}), model=model, encoder=ENCODER.stamp)
