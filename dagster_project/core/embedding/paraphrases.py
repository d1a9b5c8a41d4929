"""How similar paraphrases are to their questions (SPEC §1: quality of a paraphrase set).

What belongs here: lake table `paraphrase_similarities`. What does not: the encoder (`embedding.encoder`), means, which
dbt computes, and similarity of answers (`embedding.answers`).

Within a relation, a wording differs from question to question only in the subject. So some questions are enough: a
seeded draw of at most `QUESTIONS_A_RELATION` per dataset and relation is compared, among the questions that have
another wording. Questions without a relation are drawn like those of one relation.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import Any

from dagster_project.core.embedding.encoder import ENCODER, load_encoder
from dagster_project.core.fingerprints import code_version, fingerprint
from dagster_project.core.lake import Computed, Lake, Outcome
from dagster_project.core.questions.chosen import draw
from dagster_project.core.study.study import Study

QUESTIONS_A_RELATION = 15
_TABLE = "paraphrase_similarities"


def compare_paraphrases(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write lake table `paraphrase_similarities`; empty if no prompt asks paraphrases.

    Errors: `LakeError` without questions and paraphrases.
    """
    if not study.paraphrase_prompts:
        return lake.materialise(_TABLE, fingerprint(_TABLE, "none asked"), lambda: Computed([]))
    stamp = fingerprint(
        [lake.content(table) for table in ("questions", "paraphrases")],
        study.seed,
        ENCODER.stamp,
        code_version(__name__),
    )
    return lake.materialise(_TABLE, stamp, lambda: _compare(study, lake, log))


def _compare(study: Study, lake: Lake, log: logging.Logger) -> Computed:
    columns = ["dataset", "question_id", "paraphrase_id", "paraphrase"]
    found = lake.read("paraphrases", columns=columns).to_pylist()
    reworded = {(row["dataset"], row["question_id"]) for row in found if row["paraphrase_id"] > 0}
    drawn = _drawn(study, lake, reworded)
    wordings = [row for row in found if (row["dataset"], row["question_id"]) in drawn]
    vectors = load_encoder().encode([row["paraphrase"] for row in wordings], log)
    keys = [(row["dataset"], row["question_id"]) for row in wordings]
    originals = {
        key: vector
        for key, row, vector in zip(keys, wordings, vectors, strict=True)
        if row["paraphrase_id"] == 0
    }
    rows = [
        {**row, "cosine": float(vector @ originals[key]), "encoder": ENCODER.stamp}
        for key, row, vector in zip(keys, wordings, vectors, strict=True)
        if row["paraphrase_id"] > 0 and key in originals
    ]
    n_without = len(set(keys) - originals.keys())
    log.info("paraphrase similarities: %d paraphrases of %d questions", len(rows), len(originals))
    if n_without:
        log.warning("%d questions have paraphrases and no wording of their own: not compared", n_without)
    return Computed(rows, notes={"questions": len(originals), "questions_without_original": n_without})


def _drawn(study: Study, lake: Lake, reworded: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """(dataset, question_id) of the questions whose wordings are compared; they are among `reworded`."""
    groups: dict[tuple[str, str | None], list[dict[str, Any]]] = defaultdict(list)
    for row in lake.read("questions", columns=["dataset", "question_id", "relation"]).to_pylist():
        if (row["dataset"], row["question_id"]) in reworded:
            groups[row["dataset"], row["relation"]].append(row)
    return {
        (dataset, str(row["question_id"]))
        for (dataset, _), rows in groups.items()
        for row in draw(rows, QUESTIONS_A_RELATION, study.seed, dataset)
    }
