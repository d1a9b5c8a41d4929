"""Answers that others generated, and decisions of others: lake tables imported_answers and imported_decisions."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from longtail.errors import SourceError
from longtail.imports.datasets import file_slice, find_file, format_of, read_questions
from longtail.imports.format import AnswerFormat
from longtail.imports.records import MOST_ASIDE, file_hashes, first_reason
from longtail.imports.results import ImportedAnswer, Questions, questions_by_dataset
from longtail.imports.table_rows import OptionalValues, RefusedError, Row, Rows, is_missing, read_table
from longtail.parsing.line_files import RejectedRows
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome, QuarantinedRow
from longtail.study.datasets import Dataset
from longtail.study.imports import DECISION_MEANINGS, Decisions, Results, load_format, slice_of
from longtail.study.models import Model
from longtail.study.study import Study

_MOST_SEVERAL = 0.1
"""The largest share of a file's questions that may have several answers, of which the first counts."""


def import_answers(study: Study, lake: Lake, model_name: str, log: logging.Logger) -> Outcome:
    """Write partition `model` of table imported_answers: all rows of the model's result files. Other models have none.

    Errors: `SourceError` if a file is missing, is no such file, or fits no prompt or method of the study.
    """
    model = study.model(model_name)
    prompts = [[prompt.name, prompt.shots, prompt.methods] for prompt in study.answer_prompts]
    files = [
        [
            slice_of(results),
            file_hashes(_format(results).files(_place(study, results), results)),
            file_slice(study, dataset) if (dataset := _find_dataset_by_row(study, results)) else [],
        ]
        for results in model.results
    ]
    stamp = fingerprint(
        "imported_answers",
        model.name,
        files,
        prompts,
        [study.methods, [results.name for results in study.grounded_datasets]],
        [study.grounding.prompts, study.grounding.methods] if study.grounding else [],
        lake.content("questions"),
        code_version(__name__),
    )
    return lake.materialise("imported_answers", stamp, lambda: _read(study, lake, model, log), model.name)


def _format(results: Results) -> AnswerFormat:
    format_: AnswerFormat = load_format(results.kind, results.format)
    return format_


def _place(study: Study, results: Results) -> Path:
    return find_file(results.place, study)


def _read(study: Study, lake: Lake, model: Model, log: logging.Logger) -> Computed:
    questions = questions_by_dataset(study, lake)
    imported = _Answers(study, model)
    for results in model.results:
        imported.add(results, _add_row_numbers(study, results, questions[results.dataset]))
    rows = [imported.rows[key] for key in sorted(imported.rows)]
    answered = [row for row in rows if not row["failure"]]
    failed = Counter(row["failure"] for row in rows if row["failure"]).most_common()
    reasons = ", ".join(f"{n:,} × {reason}" for reason, n in failed)
    if model.results and not answered:
        raise SourceError(
            f"{study.path}: model {model.name}: its results hold no answer that can be used"
            f"{f'; of {len(rows):,} requests all failed: {reasons}' if rows else first_reason(imported.rejected)}"
        )
    log.info("imported answers of %s: %d, rejected: %d", model.name, len(answered), len(imported.rejected))
    if failed:
        log.warning(
            "imported answers of %s: requests without an answer, counted in no rate: %s", model.name, reasons
        )
    for column, places in imported.unread.items():
        examples = "; ".join(places[:3])
        log.warning(
            "imported answers of %s: %s cannot be read in %d rows: %s",
            model.name,
            column,
            len(places),
            examples,
        )
    counts = {
        "failed": dict(failed),
        "declined": sum(bool(row["is_declined"]) for row in answered),
        "unread": {column: len(places) for column, places in imported.unread.items()},
    }
    notes = {name: count for name, count in counts.items() if count}
    return Computed(rows, imported.rejected, _coverage(answered, questions) | notes)


class _Answers:
    """The rows of a model's results, one for each dataset, prompt, method and question, and what was put aside.

    `unread`: column → place and fault of each value that cannot be read.
    """

    def __init__(self, study: Study, model: Model) -> None:
        self._study, self._model = study, model
        self._methods = [method.name for method in study.known_methods]
        self.rows: dict[tuple[str, ...], dict[str, Any]] = {}
        self.rejected: list[QuarantinedRow] = []
        self.unread: dict[str, list[str]] = {}

    def add(self, results: Results, questions: Questions) -> None:
        """Read one entry of results. Errors: `SourceError`, also where many questions have several answers."""
        place = _place(self._study, results)
        answers, put_aside = _format(results).read(place, results, questions)
        self.rejected += put_aside
        mine: dict[tuple[str, ...], str] = {}
        several: list[str] = []
        for answer in answers:
            if reason := _refusal(self._study, results, answer, self._methods):
                self.rejected.append(QuarantinedRow(answer.place, reason, answer.text))
                continue
            for column, reason in answer.unread.items():
                self.unread.setdefault(column, []).append(f"{answer.place}: {reason}")
            row = _row(self._study, self._model, results, answer)
            key = (row["dataset"], row["prompt"], row["method"], row["question_id"])
            if key in mine and None not in (mine[key], row["text"]) and mine[key] != row["text"]:
                several.append(f"{self.rows[key]['place']} and {row['place']}")
            mine[key] = self._keep(key, row)
        if len(several) > max(1, _MOST_SEVERAL * len(mine)):
            raise SourceError(
                f"{place}: holds several answers to {len(several):,} of {len(mine):,} questions, as {several[0]}; keep"
                " one a question, or name the column with the method, prompt or model that tells them apart"
            )

    def _keep(self, key: tuple[str, ...], row: dict[str, Any]) -> Any:
        """Keep the first answer to a question, or else its first failure; the text that is kept."""
        before = self.rows.setdefault(key, row)
        if before is not row:
            if before["failure"] and not row["failure"]:  # it was asked again
                self.rows[key], before, row = row, row, before
            reason = f"answered already: {before['place']} has the same question; that row is kept"
            self.rejected.append(QuarantinedRow(row["place"], reason, row["text"] or row["failure"] or ""))
        return self.rows[key]["text"]


def _refusal(study: Study, results: Results, answer: ImportedAnswer, methods: Sequence[str]) -> str | None:
    """Why an answer is put aside; None where it can be used."""
    if answer.method not in methods:
        return f"method {answer.method!r} is not one of: {', '.join(methods)}"
    if answer.grounding_prompt is None:
        return None
    if study.grounding is None or not study.grounding.asks(results.dataset):
        return f"grounding.prompts of the study are not asked of dataset {results.dataset}"
    if answer.method not in study.grounding.methods:
        return (
            f"method {answer.method!r} is not one of grounding.methods: {', '.join(study.grounding.methods)}"
        )
    if answer.grounding_prompt not in study.grounding_prompts:
        named = ", ".join(study.grounding_prompts)
        return f"grounding prompt {answer.grounding_prompt[:40]!r} is not one of: {named}"
    return None


def _find_dataset_by_row(study: Study, results: Results) -> Dataset | None:
    """The dataset of the results, where answers may be joined to its questions by the number of their row."""
    dataset = next(dataset for dataset in study.datasets if dataset.name == results.dataset)
    known = dataset.imported is not None and format_of(dataset.imported).invents_ids
    return dataset if known and _format(results).joins_by_row else None


def _add_row_numbers(study: Study, results: Results, questions: Questions) -> Questions:
    """The questions, with the number of their row in the dataset's file where answers may be joined by it."""
    dataset = _find_dataset_by_row(study, results)
    if dataset is None:
        return questions
    rows = read_questions(study, dataset).rows
    return {
        question_id: {**questions[question_id], "row": row}
        for row, question_id in rows.items()
        if question_id in questions
    }


def _row(study: Study, model: Model, results: Results, answer: ImportedAnswer) -> dict[str, Any]:
    if answer.method not in study.methods:
        raise SourceError(
            f"{study.path}: methods: {answer.method} is missing, by which {answer.place} was generated; add it, or name"
            " single files by path of results"
        )
    columns = {field.name: getattr(answer, field.name) for field in dataclasses.fields(ImportedAnswer)}
    for name in ("shots", "unread", "confidence", "grounding_prompt"):
        del columns[name]
    return {
        **columns,
        **(dataclasses.asdict(answer.confidence) if answer.confidence else {}),
        "text": None if answer.failure else _storable(answer.text),
        "background": None if answer.background is None else _storable(answer.background),
        "dataset": results.dataset,
        "model": model.name,
        "prompt": answer.grounding_prompt or _prompt(study, results, answer),
    }


def _prompt(study: Study, results: Results, answer: ImportedAnswer) -> str:
    """The study's prompt for an answer. Errors: `SourceError` if no prompt, or several, have its number of shots."""
    fitting = [
        prompt.name
        for prompt in study.prompts_of(answer.method)
        if results.prompt in (None, prompt.name)
        and answer.prompt in (None, prompt.name)
        and answer.shots in (None, prompt.shots)
    ]
    if len(fitting) == 1:
        return fitting[0]
    asked = f"was asked by prompt {answer.prompt}" if answer.prompt else "does not say by which prompt"
    if answer.shots is not None:
        asked = f"was asked with {answer.shots} shots"
    names = ", ".join(f"{prompt.name} ({prompt.shots} shots)" for prompt in study.prompts_of(answer.method))
    raise SourceError(
        f"{study.path}: {answer.place} {asked}; the study has: {names}; choose by key prompt of results, or"
        " declare another"
    )


def _coverage(rows: Iterable[Mapping[str, Any]], questions: Mapping[str, Questions]) -> dict[str, Any]:
    """The number of answers by dataset, prompt and method, and of the dataset's questions without one."""
    counts = Counter((row["dataset"], row["prompt"], row["method"]) for row in rows)
    return {
        "/".join(key): f"{n} answers, {len(questions[key[0]]) - n} questions without"
        for key, n in sorted(counts.items())
    }


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


_DECISIONS = "imported_decisions"
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}


def import_decisions(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write table imported_decisions; empty for a study without decisions.

    Errors: `SourceError` where a file is missing, is no such table, or holds no decision that can be used.
    """
    declared = [(entry, find_file(entry.place, study)) for entry in study.decisions]
    files = [[entry.name, entry.dataset, entry.columns, file_hashes([path])] for entry, path in declared]
    stamp = fingerprint(_DECISIONS, files, lake.content("questions"), code_version(__name__))

    def compute() -> Computed:
        known = questions_by_dataset(study, lake)
        decisions: dict[tuple[str, str, str], dict[str, Any]] = {}
        rejected: list[QuarantinedRow] = []
        for entry, path in declared:
            n_before = len(decisions)
            aside = _read_decisions(path, entry, known[entry.dataset], decisions, log)
            if len(decisions) == n_before:
                raise SourceError(f"{path}: holds no decision that can be used{first_reason(aside)}")
            rejected += aside
        if declared:
            log.info("decisions of others: %d, rejected: %d", len(decisions), len(rejected))
        return Computed([decisions[key] for key in sorted(decisions)], rejected)

    return lake.materialise(_DECISIONS, stamp, compute)


def check_decisions(path: Path, declared: Decisions) -> None:
    """Look at a file's columns alone. Errors: `SourceError` where one is missing."""
    _open_decisions(path, declared, RejectedRows(path.name, most=0))


def _open_decisions(path: Path, declared: Decisions, rejected: RejectedRows) -> Rows:
    table = read_table(path, dict(declared.columns), DECISION_MEANINGS, ("id",), rejected)
    if not {"retrieve", "score"} & {*table.columns}:
        raise SourceError(f"{path}: has neither a column retrieve nor score; name one in the study: columns")
    return table


def _read_decisions(
    path: Path,
    declared: Decisions,
    questions: Collection[str],
    decisions: dict[tuple[str, str, str], Any],
    log: logging.Logger,
) -> list[QuarantinedRow]:
    """Add the file's decisions to `decisions`, the first one for each question and policy; the rows put aside."""
    rejected, values = RejectedRows(path.name, most=MOST_ASIDE), OptionalValues(path)
    for row in _open_decisions(path, declared, rejected).rows:
        try:
            question_id, policy = row.id() or "", row.text("method") or declared.name
            if question_id not in questions:
                raise row.error("id", f"no question of the dataset has the id {question_id}")
            retrieves = row.optional("retrieve", _retrieves, values)
            score = row.optional("score", _score, values)
            if retrieves is None and score is None:
                raise row.error("retrieve", "yes, no, a number of retrievals, or a score was expected")
            key = (declared.dataset, policy, question_id)
            if key in decisions:
                raise row.error("id", f"decided already: {decisions[key]['place']}; that row is kept")
        except RefusedError as refused:
            rejected.put(row.number, str(refused), row.values)
            continue
        decisions[key] = {
            "dataset": declared.dataset, "policy": policy, "question_id": question_id, "retrieves": retrieves,
            "score": score, "place": f"{path.name} row {row.number}",
        }  # fmt: skip
    for column, n in values.n_unread.items():
        log.warning("%s: column %s cannot be read in %d rows", path.name, column, n)
    return rejected.list_rows()


def _retrieves(row: Row, meaning: str) -> bool | None:
    """Yes or no, in words, as a truth, or as the number of retrievals; None where it is missing."""
    truth = _TRUTHS.get(str(row.values.get(meaning)).strip().lower())
    if truth is not None:
        return truth
    n_retrievals = row.count(meaning)
    return None if n_retrievals is None else n_retrievals > 0


def _score(row: Row, meaning: str) -> float | None:
    """Any number; None where it is missing. Errors: `RefusedError`, `ValueError`."""
    text = (row.raw_text(meaning) or "").strip()
    if is_missing(text):
        return None
    number = float(text)
    if not math.isfinite(number):
        raise row.error(meaning, "a finite number was expected")
    return number
