"""Lake tables answer_embeddings, the basis of semantic consistency (SPEC §7), and paraphrase_similarities: how similar
paraphrases are to their questions (SPEC §1, quality of a paraphrase set).

Within a relation, a wording differs from question to question only in the subject. So some questions are enough: a
seeded draw of at most `QUESTIONS_A_RELATION` per dataset and relation is compared, among the questions that have
another wording. Questions without a relation are drawn like those of one relation.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from longtail.embedding.declared import ANSWER_ENCODER, N_DIMENSIONS
from longtail.embedding.vectors import Vectors
from longtail.questions.build import draw
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome, QuarantinedRow, Streamed
from longtail.storage.lake_files import add_constants
from longtail.study.models import Model
from longtail.study.study import Study

QUESTIONS_A_RELATION = 15
Key = tuple[str, str]
"""Dataset and question_id."""
_EMBEDDINGS, _SIMILARITIES = "answer_embeddings", "paraphrase_similarities"


def embed_answers(study: Study, lake: Lake, model: str, log: logging.Logger) -> Outcome:
    """Write a model's partition of `answer_embeddings`: each distinct prediction of its paraphrase and sampled answers.

    A text that this home has embedded, for any model or study, is not embedded again. A text whose vector is not finite
    is put aside. Errors: `LakeError` if answers that the study asks of the model are missing.
    """
    tables = tables_to_compare(study, study.model(model))
    stamp = fingerprint(
        [(table, lake.content(table, model)) for table in tables],
        ANSWER_ENCODER.stamp,
        code_version(__name__),
    )
    with Vectors(study.home.cache, study.embeddings.device, log) as vectors:

        def compute() -> Computed:
            columns = [lake.read(table, model, columns=["prediction"])["prediction"] for table in tables]
            return embed_texts(
                model, (text for column in columns for text in pc.unique(column).to_pylist()), vectors
            )

        return lake.materialise(_EMBEDDINGS, stamp, compute, model)


def embed_texts(model: str, texts: Iterable[str], vectors: Vectors) -> Computed:
    """The rows of `answer_embeddings` for a model's predictions; equal texts have one row."""
    distinct = set(texts)
    embedded = vectors.embed(sorted(distinct))
    usable = sorted(distinct - embedded.unusable)
    rejected = [
        QuarantinedRow(text, "the encoder's vector is not finite", text) for text in sorted(embedded.unusable)
    ]
    notes = {"texts": len(usable), "embedded_now": embedded.n_new, "empty_answers": int("" in distinct)}
    return Computed(Streamed(_rows(model, usable, vectors)), rejected, notes)


def tables_to_compare(study: Study, model: Model) -> list[str]:
    """The tables whose answers are compared with one another; a model of imported answers has none of them."""
    asked = {"paraphrase_answers": study.paraphrase_prompts, "sampled_answers": study.sample_prompts}
    return [table for table, prompts in asked.items() if prompts and model.generates]


def _rows(model: str, texts: Sequence[str], vectors: Vectors) -> Iterator[pa.Table]:
    for part, some in vectors.stream(texts):
        lists = pa.FixedSizeListArray.from_arrays(some.reshape(-1), N_DIMENSIONS)
        yield add_constants(
            pa.table({"text": part, "embedding": lists}), model=model, encoder=vectors.encoder
        )


@dataclass(frozen=True)
class FarRelation:
    """A relation whose paraphrases are on average less similar to their questions than the study allows."""

    dataset: str
    relation: str | None
    mean_cosine: float
    n_paraphrases: int


def far_relations(study: Study, lake: Lake) -> list[FarRelation]:
    """The relations below `embeddings.least_paraphrase_cosine`, the farthest first; questions without a relation count
    as one.

    Errors: `LakeError` without questions and similarities.
    """
    relation_of = {
        (row["dataset"], row["question_id"]): row["relation"]
        for row in lake.read("questions", columns=["dataset", "question_id", "relation"]).to_pylist()
    }
    cosines: dict[tuple[str, str | None], list[float]] = defaultdict(list)
    for row in lake.read(_SIMILARITIES).to_pylist():
        relation = relation_of.get((row["dataset"], row["question_id"]))
        cosines[row["dataset"], relation].append(row["cosine"])
    relations = [FarRelation(*key, fmean(values), len(values)) for key, values in cosines.items()]
    least = study.embeddings.least_paraphrase_cosine
    return sorted((far for far in relations if not far.mean_cosine >= least), key=lambda far: far.mean_cosine)


def compare_paraphrases(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write lake table `paraphrase_similarities`; empty if no prompt asks paraphrases.

    Errors: `LakeError` without questions and paraphrases.
    """
    if not study.paraphrase_prompts:
        return lake.materialise(_SIMILARITIES, fingerprint(_SIMILARITIES, "none asked"), lambda: Computed([]))
    stamp = fingerprint(
        [lake.content(table) for table in ("questions", "paraphrases")],
        [study.seed, [study.drawn_as(dataset.name) for dataset in study.datasets]],
        ANSWER_ENCODER.stamp,
        code_version(__name__),
    )
    return lake.materialise(_SIMILARITIES, stamp, lambda: _compare(study, lake, log))


def _compare(study: Study, lake: Lake, log: logging.Logger) -> Computed:
    columns = ["dataset", "question_id", "paraphrase_id", "paraphrase"]
    paraphrases = lake.read("paraphrases", columns=columns).to_pylist()
    reworded = {(row["dataset"], row["question_id"]) for row in paraphrases if row["paraphrase_id"] > 0}
    drawn = _draw_questions(study, lake, reworded)
    wordings: dict[Key, list[dict[str, Any]]] = defaultdict(list)
    for row in paraphrases:
        if (row["dataset"], row["question_id"]) in drawn:
            wordings[row["dataset"], row["question_id"]].append(row)
    with Vectors(study.home.cache, study.embeddings.device, log) as vectors:
        distinct = dict.fromkeys(row["paraphrase"] for rows in wordings.values() for row in rows)
        unusable = vectors.embed(list(distinct)).unusable
        compared = [row for rows in wordings.values() for row in _compare_wordings(rows, unusable, vectors)]
    n_without = sum(all(row["paraphrase_id"] > 0 for row in rows) for rows in wordings.values())
    log.info(
        "paraphrase similarities: %d paraphrases of %d questions", len(compared), len(wordings) - n_without
    )
    if n_without:
        log.warning("%d questions have paraphrases and no wording of their own: not compared", n_without)
    if unusable:
        log.warning("%d wordings have no finite vector: not compared", len(unusable))
    notes = {"questions": len(wordings) - n_without, "questions_without_original": n_without}
    return Computed(compared, notes=notes | {"wordings_without_vector": len(unusable)})


def _compare_wordings(
    rows: Sequence[Mapping[str, Any]], unusable: frozenset[str], vectors: Vectors
) -> Iterator[dict[str, Any]]:
    """The paraphrases of one question with their cosine to its own wording; none without that wording."""
    usable = [row for row in rows if row["paraphrase"] not in unusable]
    embedded = vectors.read([row["paraphrase"] for row in usable])
    for original in (embedded[place] for place, row in enumerate(usable) if row["paraphrase_id"] == 0):
        for row, vector in zip(usable, embedded, strict=True):
            if row["paraphrase_id"] > 0:
                yield {**row, "cosine": float(vector @ original), "encoder": vectors.encoder}


def _draw_questions(study: Study, lake: Lake, reworded: set[Key]) -> set[Key]:
    """(dataset, question_id) of the questions whose wordings are compared; they are among `reworded`."""
    groups: dict[tuple[str, str | None], list[dict[str, Any]]] = defaultdict(list)
    for row in lake.read("questions", columns=["dataset", "question_id", "relation"]).to_pylist():
        if (row["dataset"], row["question_id"]) in reworded:
            groups[row["dataset"], row["relation"]].append(row)
    return {
        (dataset, str(row["question_id"]))
        for (dataset, _), rows in groups.items()
        for row in draw(rows, QUESTIONS_A_RELATION, study.seed, study.drawn_as(dataset))
    }
