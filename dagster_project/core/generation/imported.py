"""Imported answers scored by our rules: their rows in lake tables answers and generated_passages.

What belongs here: a row of imported_answers as a row of those tables, and how often the file's own judgement differs.
What does not: reading files (`answers`), the rules (`scoring`), and generating (`generation`). No model is loaded. What
a file does not say (tokens, times, demonstrations) is null, never zero.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from dagster_project.core.fingerprints import code_version, fingerprint
from dagster_project.core.generation.prompts.build import background_passage_id, cut_answer, kept_answer
from dagster_project.core.imports.results import Questions, questions_by_dataset
from dagster_project.core.lake import Computed, Lake, Outcome
from dagster_project.core.scoring.match import has_answer, has_answer_popqa, score_answer
from dagster_project.core.study.backends import IMPORTED
from dagster_project.core.study.study import Model, Study
from dagster_project.core.tables import TABLES


def score_answers(
    study: Study, lake: Lake, model: Model, method: str, *, run_id: str, log: logging.Logger
) -> Outcome:
    """Partition `model|method` of table answers for a model of backend imported: its rows, scored by our rules.

    Notes count how often the file's own is_correct differs from ours. Errors: `LakeError` without imported_answers.
    """
    stamp = fingerprint("answers", *_inputs(study, lake, model), method)

    def compute() -> Computed:
        questions = questions_by_dataset(study, lake)
        constants = {
            "model": model.name,
            "engine": IMPORTED,
            "dtype": model.dtype,
            "is_reused": False,
            "run_id": run_id,
            "code_version": code_version(__name__),
        }
        rows = [
            {**constants, **_scored(row, questions[row["dataset"]][row["question_id"]], model)}
            for row in _rows(lake, model)
            if row["method"] == method
        ]
        notes = _compared(rows, [row for row in _rows(lake, model) if row["method"] == method])
        log.info("answers %s|%s: %s", model.name, method, ", ".join(f"{k} {v}" for k, v in notes.items()))
        return Computed(_filled("answers", rows), notes=notes)

    return lake.materialise("answers", stamp, compute, f"{model.name}|{method}")


def import_passages(study: Study, lake: Lake, model: Model, *, run_id: str) -> Outcome:
    """Partition `model` of generated_passages for a model of backend imported: the passages that its files hold."""
    stamp = fingerprint("generated_passages", *_inputs(study, lake, model))

    def compute() -> Computed:
        questions = questions_by_dataset(study, lake)
        found = {
            (row["dataset"], row["question_id"]): row
            for row in reversed(_rows(lake, model))
            if row["background"] is not None
        }
        constants = {
            "model": model.name,
            "engine": IMPORTED,
            "dtype": model.dtype,
            "is_reused": False,
            "run_id": run_id,
        }
        rows = [
            {**constants, "code_version": code_version(__name__), **_background(row, questions, model)}
            for _, row in sorted(found.items())
        ]
        return Computed(_filled("generated_passages", rows))

    return lake.materialise("generated_passages", stamp, compute, model.name)


def _inputs(study: Study, lake: Lake, model: Model) -> list[Any]:
    content = [lake.content("imported_answers", model.name), lake.content("questions")]
    return [model.name, model.rambles, content, code_version(__name__)]


def _scored(row: Mapping[str, Any], question: Mapping[str, Any], model: Model) -> dict[str, Any]:
    prediction = kept_answer(row["text"], rambles=model.rambles)
    passage_id = None if row["passage"] is None else f"{IMPORTED}:{row['passage']}"
    if row["background"] is not None:
        passage_id = background_passage_id(model.name, row["question_id"])
    return {
        **{
            name: row[name]
            for name in ("dataset", "question_id", "method", "prompt", "prompt_hash", "quantisation")
        },
        "passage_id": passage_id,
        "prediction": prediction,
        "raw_text": row["text"],
        "revision": row["made_by"] or "unknown",
        **dataclasses.asdict(score_answer(prediction, question["gold_answers"])),
    }


def _background(row: Mapping[str, Any], questions: Mapping[str, Questions], model: Model) -> dict[str, Any]:
    golds = questions[row["dataset"]][row["question_id"]]["gold_answers"]
    text = cut_answer(row["background"])
    return {
        "dataset": row["dataset"],
        "question_id": row["question_id"],
        "passage_id": background_passage_id(model.name, row["question_id"]),
        "text": text,
        "has_answer": has_answer(text, golds),
        "has_answer_popqa": has_answer_popqa(text, golds),
        "raw_text": row["background"],
        "quantisation": row["quantisation"],
        "revision": row["made_by"] or "unknown",
    }


def _compared(scored: Sequence[Mapping[str, Any]], imported: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How our rule (PopQA's) and the file's own is_correct agree, over the rows that the file judges."""
    judged = [
        (ours["is_correct"], theirs["is_correct"])
        for ours, theirs in zip(scored, imported, strict=True)
        if theirs["is_correct"] is not None
    ]
    only_file = sum(theirs and not ours for ours, theirs in judged)
    only_ours = sum(ours and not theirs for ours, theirs in judged)
    return {
        "rows": len(scored),
        "accuracy": sum(row["is_correct"] for row in scored) / len(scored) if scored else None,
        "judged_by_file": len(judged),
        "disagreements": only_file + only_ours,
        "right_by_file_only": only_file,
        "right_by_us_only": only_ours,
    }


def _rows(lake: Lake, model: Model) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = lake.read("imported_answers", model.name).to_pylist()
    return rows


def _filled(table: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows with every column of the table; what they do not have is null."""
    return [{name: row.get(name) for name in TABLES[table].schema.names} for row in rows]
