"""Answers that others generated, scored by our rules: their rows in lake tables answers, generated_passages and
grounded_generations.

What a file does not say (tokens, times, demonstrations) is null, never zero. So is the confidence of an answer of which
the end is cut off, or that has more tokens than its text needs, but for that of its first token: a file does not say
which tokens the rest has. A request without an
answer is no row: it goes to the quarantine with its reason, as a failed generation does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from longtail.generation.engine.task import Scope
from longtail.generation.prompts.build import background_passage_id
from longtail.generation.tasks.questions import answer_columns, background_columns, declines_of
from longtail.imports.results import goes_on, questions_by_dataset
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Outcome, QuarantinedRow
from longtail.study.backends import IMPORTED
from longtail.study.prompts import Prompt
from longtail.tables import CONFIDENCE

Row = Mapping[str, Any]
Golds = Mapping[tuple[str, str], list[str]]
_OF_FIRST_TOKEN = tuple(column for column in CONFIDENCE if column.name.startswith("first_"))
_DECLINED = "the model declined to answer"
_ASKED = ("prompt_hash", "prompt_tokens", "new_tokens", "reasoning_tokens", "latency_ms")


def score_answers(scope: Scope, run_id: str) -> Outcome:
    """Partition `model|method` of table answers: the imported rows of the method, scored by our rules.

    Notes count how often the file's own is_correct differs from ours. Errors: `LakeError` without imported_answers.
    """
    by_name = {prompt.name: prompt for prompt in scope.study.prompts}

    def make(rows: Sequence[Row], golds: Golds, common: Row) -> Computed:
        asked = [
            row
            for row in rows
            if row["method"] == scope.method and row["prompt"] not in scope.study.grounding_prompts
        ]
        imported = [row for row in asked if row["failure"] is None]
        scored = [
            {**common, **_answer(scope, by_name, row, golds[row["dataset"], row["question_id"]])}
            for row in imported
        ]
        notes = _compare(scored, imported) | {"failed": len(asked) - len(scored)}
        scope.log.info("answers %s: %s", scope.name, ", ".join(f"{k} {v}" for k, v in notes.items()))
        return Computed(scored, _failures(asked, "dataset", "question_id", "prompt"), notes)

    declines = [[name, declines_of(prompt, scope.model)] for name, prompt in by_name.items()]
    return _materialise("answers", scope, run_id, make, scope.model.declines, declines)


def import_generations(
    scope: Scope,
    run_id: str,
    columns: Callable[[Row, Sequence[str]], dict[str, Any]],
    decisive: Sequence[Any],
) -> Outcome:
    """Partition `model` of grounded_generations: the imported rows under grounding prompts. `columns` makes those that
    a row's text and its question's gold answers decide, which depend on `decisive`."""

    def make(rows: Sequence[Row], golds: Golds, common: Row) -> Computed:
        asked = [row for row in rows if row["prompt"] in scope.study.grounding_prompts]
        made = [
            {
                **common, **_of_file(row), **{name: row[name] for name in _ASKED},
                **columns(row, golds[row["dataset"], row["question_id"]]),
            }
            for row in asked
            if row["failure"] is None and not row["is_declined"]
        ]  # fmt: skip
        keys = ("dataset", "question_id", "method", "prompt")
        return Computed(made, _failures(asked, *keys, without_declined=True))

    prompts = scope.study.grounding_prompts
    return _materialise("grounded_generations", scope, run_id, make, prompts, decisive)


def import_passages(scope: Scope, run_id: str) -> Outcome:
    """Partition `model` of generated_passages: the passages that the model's files hold."""

    def make(rows: Sequence[Row], golds: Golds, common: Row) -> Computed:
        backgrounds = {
            (row["dataset"], row["question_id"]): row
            for row in reversed(rows)
            if row["background"] is not None
        }
        return Computed([
            {**common, **_of_file(row), **background_columns(row["background"], key[1], golds[key], scope.model)}
            for key, row in sorted(backgrounds.items())
        ])  # fmt: skip

    return _materialise("generated_passages", scope, run_id, make)


def _materialise(
    table: str,
    scope: Scope,
    run_id: str,
    make: Callable[[Sequence[Row], Golds, Row], Computed],
    *decisive: Any,
) -> Outcome:
    """A partition of the model's imported rows, of which `make` takes some: it is also given the gold answers, and the
    columns that all rows have in common."""

    def compute() -> Computed:
        rows = scope.lake.read("imported_answers", scope.model.name).to_pylist()
        golds = {
            (dataset, question_id): question["gold_answers"]
            for dataset, questions in questions_by_dataset(scope.study, scope.lake).items()
            for question_id, question in questions.items()
        }
        common = {
            "model": scope.model.name,
            "method": scope.method,
            "engine": IMPORTED,
            "dtype": scope.model.dtype,
            "is_reused": False,
            "run_id": run_id,
            "code_version": code_version(__name__),
        }
        return make(rows, golds, common)

    content = [scope.lake.content("imported_answers", scope.model.name), scope.lake.content("questions")]
    stamp = fingerprint(table, scope.name, scope.model.rambles, content, code_version(__name__), decisive)
    return scope.lake.materialise(table, stamp, compute, scope.name)


def _failures(asked: Sequence[Row], *keys: str, without_declined: bool = False) -> list[QuarantinedRow]:
    """The requests without an answer, by the keys that generation gives its failures. With `without_declined`, so are
    declined ones, for a table that knows none."""
    reasons = (
        row["failure"] or (_DECLINED if without_declined and row["is_declined"] else None) for row in asked
    )
    return [
        QuarantinedRow("/".join(row[key] for key in keys), reason, row["place"])
        for row, reason in zip(asked, reasons, strict=True)
        if reason
    ]


def _of_file(row: Row) -> dict[str, Any]:
    """What the file says of a row besides its texts."""
    names = ("dataset", "question_id", "quantisation")
    return {**{name: row[name] for name in names}, "revision": row["made_by"] or "unknown"}


def _answer(
    scope: Scope, prompts: Mapping[str, Prompt], row: Row, gold_answers: Sequence[str]
) -> dict[str, Any]:
    """The scored row; what its file says of declining comes before the study's phrases."""
    passage_id = None if row["passage"] is None else f"{IMPORTED}:{row['passage']}"
    if row["background"] is not None:
        passage_id = background_passage_id(scope.model.name, row["question_id"])
    passage_ids = None if passage_id is None else [passage_id]
    declines = declines_of(prompts.get(row["prompt"]), scope.model)
    columns = answer_columns(row["text"], gold_answers, scope.model, declines, row["is_declined"])
    asked = {name: row[name] for name in ("prompt", *_ASKED)}
    answer, text = columns["prediction"].strip(), columns["raw_text"].strip()
    is_whole = answer == text and not goes_on(answer, row["confidence_tokens"] or 0)
    known = CONFIDENCE if is_whole else _OF_FIRST_TOKEN if text.startswith(answer) else ()
    sure = {column.name: row[column.name] for column in known if answer}
    return {**_of_file(row), **asked, "passage_id": passage_id, "passage_ids": passage_ids, **columns, **sure}


def _compare(scored: Sequence[Row], imported: Sequence[Row]) -> dict[str, Any]:
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
        "declined": sum(row["is_declined"] for row in scored),
        "first_token_alone": sum(
            theirs["confidence_tokens"] is not None and ours.get("confidence_tokens") is None
            for ours, theirs in zip(scored, imported, strict=True)
        ),
        "judged_by_file": len(judged),
        "disagreements": only_file + only_ours,
        "right_by_file_only": only_file,
        "right_by_us_only": only_ours,
    }
