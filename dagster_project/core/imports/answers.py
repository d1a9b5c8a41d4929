"""Answers that others generated: lake table imported_answers, as the files have them.

What belongs here: which files a model's results are, and under which prompt of the study their rows stand. What does
not: the files' formats (`adaptive_retrieval`, `lm_eval`), and scoring (`scored`).
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dagster_project.core.errors import SourceError
from dagster_project.core.imports.data_files import find_file
from dagster_project.core.imports.facts import file_slice, format_of, read_questions
from dagster_project.core.imports.format import AnswerFormat
from dagster_project.core.imports.records import file_hashes
from dagster_project.core.imports.results import ImportedAnswer, Questions, questions_by_dataset
from dagster_project.core.storage.fingerprints import code_version, fingerprint
from dagster_project.core.storage.lake import Computed, Lake, Outcome, QuarantinedRow
from dagster_project.core.study.datasets import Dataset
from dagster_project.core.study.imports import Results, load_format, slice_of
from dagster_project.core.study.models import Model
from dagster_project.core.study.study import Study


def import_answers(study: Study, lake: Lake, model_name: str, log: logging.Logger) -> Outcome:
    """Write partition `model` of table imported_answers: all rows of the model's result files. Other models have none.

    Errors: `SourceError` if a file is missing, is no such file, or fits no prompt or method of the study.
    """
    model = study.model(model_name)
    prompts = [[prompt.name, prompt.shots, prompt.methods] for prompt in study.answer_prompts]
    files = [
        [slice_of(one), file_hashes(_format(one).files(_place(study, one), one)), _rows_slice(study, one)]
        for one in model.results
    ]
    stamp = fingerprint(
        "imported_answers",
        model.name,
        files,
        prompts,
        [study.methods, [one.name for one in study.grounded_datasets]],
        [study.grounding.prompts, study.grounding.methods] if study.grounding else [],
        lake.content("questions"),
        code_version(__name__),
    )
    return lake.materialise("imported_answers", stamp, lambda: _read(study, lake, model, log), model.name)


def _format(results: Results) -> AnswerFormat:
    found: AnswerFormat = load_format(results.kind, results.format)
    return found


def _place(study: Study, results: Results) -> Path:
    return find_file(results.place, study)


def _read(study: Study, lake: Lake, model: Model, log: logging.Logger) -> Computed:
    questions = questions_by_dataset(study, lake)
    kept: dict[tuple[str, ...], dict[str, Any]] = {}
    rejected: list[QuarantinedRow] = []
    unread: Counter[str] = Counter()
    known = [method.name for method in study.known_methods]
    for results in model.results:
        asked = _with_rows(study, results, questions[results.dataset])
        found, put_aside = _format(results).read(_place(study, results), results, asked)
        rejected += put_aside
        for answer in found:
            if reason := _refused(study, results, answer, known):
                rejected.append(QuarantinedRow(answer.place, reason, answer.text))
                continue
            unread.update(answer.unread)
            row = _row(study, model, results, answer)
            key = (row["dataset"], row["prompt"], row["method"], row["question_id"])
            if key in kept:
                reason = f"answered already: {kept[key]['place']} has the same question; that row is kept"
                rejected.append(QuarantinedRow(answer.place, reason, answer.text))
            else:
                kept[key] = row
    if model.results and not kept:
        first = f"; {rejected[0].row_key}: {rejected[0].reason}" if rejected else ""
        raise SourceError(
            f"{study.path}: model {model.name}: its results hold no answer that can be used{first}"
        )
    rows = [kept[key] for key in sorted(kept)]
    log.info("imported answers of %s: %d, rejected: %d", model.name, len(rows), len(rejected))
    if unread:
        named = ", ".join(f"{name} of {n:,} rows" for name, n in unread.items())
        log.warning("imported answers of %s: left out, since it cannot be read: %s", model.name, named)
    return Computed(rows, rejected, _coverage(rows, questions) | ({"unread": dict(unread)} if unread else {}))


def _refused(study: Study, results: Results, answer: ImportedAnswer, methods: Sequence[str]) -> str | None:
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
        return f"grounding prompt {answer.grounding_prompt[:80]!r} is not one of: {named}"
    return None


def _numbered(study: Study, results: Results) -> Dataset | None:
    """The dataset of the results, where answers may be joined to its questions by the number of their row."""
    dataset = next(dataset for dataset in study.datasets if dataset.name == results.dataset)
    known = dataset.imported is not None and format_of(dataset.imported).invents_ids
    return dataset if known and _format(results).joins_by_row else None


def _rows_slice(study: Study, results: Results) -> list[Any]:
    """What decides the rows that questions come from, for a fingerprint."""
    dataset = _numbered(study, results)
    return file_slice(study, dataset) if dataset else []


def _with_rows(study: Study, results: Results, questions: Questions) -> Questions:
    """The questions, with the number of their row in the dataset's file where answers may be joined by it."""
    dataset = _numbered(study, results)
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
    own = {name: getattr(answer, name) for name in (f.name for f in dataclasses.fields(ImportedAnswer))}
    return {
        **{
            name: value
            for name, value in own.items()
            if name not in ("shots", "unread", "confidence", "grounding_prompt")
        },
        **(dataclasses.asdict(answer.confidence) if answer.confidence else {}),
        "text": _storable(answer.text),
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
    if answer.shots is None:
        asked = f"was asked by prompt {answer.prompt}" if answer.prompt else "does not say by which prompt"
        names = ", ".join(prompt.name for prompt in study.prompts_of(answer.method))
        raise SourceError(
            f"{study.path}: {answer.place} {asked}; the study has: {names}; choose by key prompt of results"
        )
    whose = (
        f"prompt {results.prompt} has another number"
        if results.prompt
        else f"{len(fitting)} prompts have as many"
    )
    raise SourceError(
        f"{study.path}: {answer.place} was asked with {answer.shots} shots, and {whose}; declare one prompt with that"
        " number, or choose by key prompt of results"
    )


def _coverage(rows: Iterable[Mapping[str, Any]], questions: Mapping[str, Questions]) -> dict[str, Any]:
    """The number of answers by dataset, prompt and method, and of the dataset's questions without one."""
    counts: dict[tuple[str, str, str], int] = {}
    for row in rows:
        key = row["dataset"], row["prompt"], row["method"]
        counts[key] = counts.get(key, 0) + 1
    return {
        "/".join(key): f"{n} answers, {len(questions[key[0]]) - n} questions without"
        for key, n in sorted(counts.items())
    }


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
