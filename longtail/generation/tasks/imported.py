"""Answers that others generated, scored by our rules: their rows in lake tables answers, generated_passages and
grounded_generations.

What a file does not say (tokens, times, demonstrations) is null, never zero. So is the confidence of an answer of which
the end is cut off, or that has more tokens than its text needs, but for that of its first token: a file does not say
which tokens the rest has. A request without an answer is no row: it goes to the quarantine with its reason, as a failed
generation does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
_OF_FIRST_TOKEN = tuple(column for column in CONFIDENCE if column.name.startswith("first_"))
_DECLINED = "the model declined to answer"
_OF_FILE = ("dataset", "question_id", "quantisation")
_ASKED = ("prompt_hash", "prompt_tokens", "new_tokens", "reasoning_tokens", "latency_ms")


def score_answers(scope: Scope, run_id: str) -> Outcome:
    """Partition `model|method` of table answers: the imported rows of the method, scored by our rules.

    Errors: `LakeError` without imported_answers.
    """
    by_name = {prompt.name: prompt for prompt in scope.study.prompts}

    def choose(rows: Iterable[Row]) -> list[Row]:
        others = scope.study.grounding_prompts
        return [row for row in rows if row["method"] == scope.method and row["prompt"] not in others]

    def columns(row: Row, golds: Sequence[str]) -> Row:
        return _answer(scope, by_name, row, golds)

    declines = [[name, declines_of(prompt, scope.model)] for name, prompt in by_name.items()]
    keys = ("dataset", "question_id", "prompt")
    return _materialise("answers", scope, run_id, choose, columns, keys, scope.model.declines, declines)


def import_generations(
    scope: Scope, run_id: str, score: Callable[[Row, Sequence[str]], Row], decisive: Sequence[Any]
) -> Outcome:
    """Partition `model` of grounded_generations: the imported rows under grounding prompts. `score` makes the columns
    that a row's text and its question's gold answers decide, which depend on `decisive`. No row is a declined one."""
    prompts = scope.study.grounding_prompts

    def choose(rows: Iterable[Row]) -> list[Row]:
        asked = [row for row in rows if row["prompt"] in prompts]
        return [
            {**row, "failure": row["failure"] or (_DECLINED if row["is_declined"] else None)} for row in asked
        ]

    def columns(row: Row, golds: Sequence[str]) -> Row:
        return {**{name: row[name] for name in _ASKED}, **score(row, golds)}

    keys = ("dataset", "question_id", "method", "prompt")
    return _materialise("grounded_generations", scope, run_id, choose, columns, keys, prompts, decisive)


def import_passages(scope: Scope, run_id: str) -> Outcome:
    """Partition `model` of generated_passages: the passages that the model's files hold."""

    def choose(rows: Iterable[Row]) -> list[Row]:
        first: dict[tuple[str, str], Row] = {}
        for row in rows:
            if row["background"] is not None:
                first.setdefault((row["dataset"], row["question_id"]), {**row, "failure": None})
        return [row for _, row in sorted(first.items())]

    def columns(row: Row, golds: Sequence[str]) -> Row:
        return background_columns(row["background"], row["question_id"], golds, scope.model)

    return _materialise("generated_passages", scope, run_id, choose, columns, ())


def _materialise(
    table: str,
    scope: Scope,
    run_id: str,
    choose: Callable[[Iterable[Row]], list[Row]],
    columns: Callable[[Row, Sequence[str]], Row],
    keys: Sequence[str],
    *decisive: Any,
) -> Outcome:
    """A partition of the model's imported rows, of which `choose` takes some. `columns` makes those of one row, with the
    gold answers of its question. A failed request is put aside, by the `keys` that generation gives its failures."""

    def compute() -> Computed:
        common = {
            "model": scope.model.name, "method": scope.method, "engine": IMPORTED, "dtype": scope.model.dtype,
            "is_reused": False, "run_id": run_id, "code_version": code_version(__name__),
        }  # fmt: skip
        questions = questions_by_dataset(scope.study, scope.lake)
        rows: list[Row] = []
        rejected: list[QuarantinedRow] = []
        for row in choose(scope.lake.read("imported_answers", scope.model.name).to_pylist()):
            if row["failure"]:
                name = "/".join(row[key] for key in keys)
                rejected.append(QuarantinedRow(name, row["failure"], row["place"]))
                continue
            of_file = {name: row[name] for name in _OF_FILE} | {"revision": row["made_by"] or "unknown"}
            golds = questions[row["dataset"]][row["question_id"]]["gold_answers"]
            rows.append({**common, **of_file, **columns(row, golds)})
        return Computed(rows, rejected)

    content = [scope.lake.content("imported_answers", scope.model.name), scope.lake.content("questions")]
    stamp = fingerprint(table, scope.name, scope.model.rambles, content, code_version(__name__), decisive)
    return scope.lake.materialise(table, stamp, compute, scope.name)


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
    return {**asked, "passage_id": passage_id, "passage_ids": passage_ids, **columns, **sure}
