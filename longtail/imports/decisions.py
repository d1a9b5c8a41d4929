"""Decisions of others: lake table imported_decisions, for which questions their policies retrieve."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from longtail.errors import SourceError
from longtail.imports.data_files import find_file
from longtail.imports.records import MOST_ASIDE, RejectedRows, file_hashes
from longtail.imports.results import questions_by_dataset
from longtail.imports.table_rows import (
    RefusedError,
    Row,
    check_table,
    is_missing,
    read_table,
)
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome, QuarantinedRow
from longtail.study.imports import DECISION_MEANINGS, Decisions
from longtail.study.study import Study

_TABLE = "imported_decisions"
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}


def import_decisions(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write table imported_decisions; empty for a study without decisions.

    Errors: `SourceError` where a file is missing, is no such table, or holds no decision that can be used.
    """
    declared = [(one, find_file(one.place, study)) for one in study.decisions]
    files = [[one.name, one.dataset, one.columns, file_hashes([path])] for one, path in declared]
    stamp = fingerprint(_TABLE, files, lake.content("questions"), code_version(__name__))

    def compute() -> Computed:
        known = questions_by_dataset(study, lake)
        kept: dict[tuple[str, str, str], dict[str, Any]] = {}
        rejected: list[QuarantinedRow] = []
        for one, path in declared:
            n_before = len(kept)
            aside = _read(path, one, known[one.dataset], kept, log)
            if len(kept) == n_before:
                first = f"; {aside[0].row_key}: {aside[0].reason}" if aside else ""
                raise SourceError(f"{path}: holds no decision that can be used{first}")
            rejected += aside
        if declared:
            log.info("decisions of others: %d, rejected: %d", len(kept), len(rejected))
        return Computed([kept[key] for key in sorted(kept)], rejected)

    return lake.materialise(_TABLE, stamp, compute)


def check(path: Path, declared: Decisions) -> None:
    """Look at a file's columns alone. Errors: `SourceError` where one is missing."""
    # the beginning of a long file need not show all columns: those that the study names count as there
    named = {name for name, column in declared.columns if column}
    _check_decided(path, named | check_table(path, declared, declared.columns, DECISION_MEANINGS, ("id",)))


def _check_decided(path: Path, found: Collection[str]) -> None:
    if not {"retrieve", "score"} & {*found}:
        raise SourceError(f"{path}: has neither a column retrieve nor score; name one in the study: columns")


def _read(
    path: Path,
    declared: Decisions,
    questions: Collection[str],
    kept: dict[tuple[str, str, str], Any],
    log: logging.Logger,
) -> list[QuarantinedRow]:
    """Add the file's decisions to `kept`, the first one for each question and policy; the rows put aside."""
    unread: Counter[str] = Counter()
    rejected = RejectedRows(path.name, most=MOST_ASIDE)
    found = read_table(path, dict(declared.columns), DECISION_MEANINGS, ("id",), rejected)
    _check_decided(path, found.columns)
    for row in found.rows:
        try:
            question_id, policy = row.id() or "", row.text("method") or declared.name
            (retrieves, score), faults = _decision(row)
            if question_id not in questions:
                raise row.refused("id", f"no question of the dataset has the id {question_id}")
            if retrieves is None and score is None:
                nothing = row.refused("retrieve", "yes, no, a number of retrievals, or a score was expected")
                raise next(iter(faults.values()), nothing)
            unread.update({*faults})
            key = (declared.dataset, policy, question_id)
            if key in kept:
                raise row.refused("id", f"decided already: {kept[key]['place']}; that row is kept")
        except RefusedError as refused:
            rejected.put(row.number, str(refused), row.values)
            continue
        kept[key] = {
            "dataset": declared.dataset, "policy": policy, "question_id": question_id, "retrieves": retrieves,
            "score": score, "place": f"{path.name} row {row.number}",
        }  # fmt: skip
    for meaning, n in unread.items():
        log.warning("%s: column %s cannot be read in %d rows, which decide without it", path.name, meaning, n)
    return rejected.told()


def _decision(row: Row) -> tuple[list[Any], dict[str, RefusedError]]:
    """Whether to retrieve, and the score; None where a row has none. The faults by their columns' meaning."""
    found: list[Any] = []
    faults: dict[str, RefusedError] = {}
    for meaning, read in _READERS:
        try:
            found.append(read(row, meaning))
        except RefusedError as refused:
            found.append(None)
            faults[meaning] = refused
    return found, faults


def _retrieves(row: Row, meaning: str) -> bool | None:
    """Yes or no, in words, as a truth, or as the number of retrievals; None where it is missing."""
    truth = _TRUTHS.get(str(row.values.get(meaning)).strip().lower())
    if truth is not None:
        return truth
    try:
        n_retrievals = row.count(meaning)
    except RefusedError:
        said = f"not {str(row.values[meaning])[:40]!r}"
        raise row.refused(meaning, f"yes, no or a number of retrievals was expected, {said}") from None
    return None if n_retrievals is None else n_retrievals > 0


def _score(row: Row, meaning: str) -> float | None:
    """Any number; None where it is missing."""
    text = (row.raw_text(meaning) or "").strip()
    if is_missing(text):
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise row.refused(meaning, f"a number was expected, not {text[:40]!r}")
    return number


_READERS: tuple[tuple[str, Callable[[Row, str], Any]], ...] = (("retrieve", _retrieves), ("score", _score))
