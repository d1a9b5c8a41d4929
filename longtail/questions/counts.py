"""How often a question's subject, and its subject and an answer together, stand in texts: measures beside popularity.

Kandpal et al. (2023, Large language models struggle to learn long-tail knowledge) count documents that have both
entities of a question; here these are articles. A text's sentences end by the rules of `scoring.sentences`, its
passages with the line.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from longtail.errors import SourceError
from longtail.imports.datasets import find_file
from longtail.imports.records import MOST_ASIDE, file_hashes, first_reason
from longtail.imports.table_rows import RefusedError, Row, read_table, rows_of_object
from longtail.parsing.line_files import MOST_LINES, RejectedRows, open_file
from longtail.progress import Progress
from longtail.questions.text_matches import Asked, Phrases, articles, as_words, text_files
from longtail.scoring.match import dpr_tokens
from longtail.scoring.model_answer import sentences
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome, QuarantinedRow
from longtail.study.imports import COUNT_MEANINGS, UNITS, WHATS, Counts
from longtail.study.study import Study

TABLE = "question_counts"
_COLUMNS = ("dataset", "question_id", "subject", "subject_aliases", "gold_answers")
_Counted = Iterator[tuple[tuple[str, str], str, int]]
"""(dataset, question id), measure and number."""


def count_questions(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write lake table question_counts; empty for a study without key counts.

    Errors: `SourceError` where a file is missing or cannot be read, or holds no count for any question.
    """
    declared = [(counts, find_file(counts.place, study)) for counts in study.counts]
    files = [(counts, path, [path] if counts.dataset else text_files(path)) for counts, path in declared]
    slices = [
        [counts.name, counts.dataset, counts.columns, path.name, file_hashes(texts)]
        for counts, path, texts in files
    ]
    stamp = fingerprint(TABLE, slices, lake.content("questions"), code_version(__name__))

    def compute() -> Computed:
        asked = {
            (row["dataset"], row["question_id"]): Asked(
                as_words([row["subject"] or "", *row["subject_aliases"]]), as_words(row["gold_answers"]), None
            )
            for row in lake.read("questions", columns=list(_COLUMNS)).to_pylist()
        }
        rows: list[dict[str, Any]] = []
        rejected: list[QuarantinedRow] = []
        for counts, path, texts in files:
            counted = (
                _read_published(counts, path, asked, rejected)
                if counts.dataset
                else _in_texts(counts, texts, asked, rejected, log)
            )
            rows += [
                {"dataset": dataset, "question_id": question_id, "count_measure": measure, "n_counted": n}
                for (dataset, question_id), measure, n in counted
            ]
        return Computed(rows, rejected)

    return lake.materialise(TABLE, stamp, compute)


def check(path: Path, declared: Counts) -> None:
    """Look at the columns of published counts, and whether a text has files. Errors: `SourceError`."""
    if declared.dataset is None:
        text_files(path)
    elif _whole_object(declared, path) is None:
        _open_table(declared, path, RejectedRows(path.name, most=0))


def _in_texts(
    declared: Counts,
    files: Sequence[Path],
    asked: Mapping[tuple[str, str], Asked],
    rejected: list[QuarantinedRow],
    log: logging.Logger,
) -> _Counted:
    aside = RejectedRows(most=MOST_LINES)
    named = {key: question for key, question in asked.items() if question.names}
    counts = count_in_texts([*named.values()], articles(files, aside), log)
    rejected += aside.list_rows()
    if named and not counts.any():
        raise SourceError(f"{files[0]}: names no subject of the study's questions; is it the right text?")
    of_measures = counts.reshape(-1, len(named)).tolist()
    for measure, numbers in zip(declared.measures, of_measures, strict=True):
        for key, n in zip(named, numbers, strict=True):
            yield key, measure, n


def count_in_texts(asked: Sequence[Asked], texts: Iterable[Iterable[str]], log: logging.Logger) -> np.ndarray:
    """How many units of articles, each given as its passages, have a question's subject, and subject and answer.

    int64[units, 2, n]. An article has what any of its passages has.
    """
    phrases = Phrases(asked)
    counts = np.zeros((len(UNITS), len(WHATS), len(asked)), np.int64)

    def has_subject(unit: int, phrases_found: set[str]) -> bool:
        named = sorted(phrases.questions_of(phrases_found))
        counts[unit, 0, named] += 1
        counts[unit, 1, phrases.filter_by_answer(named, phrases_found)] += 1
        return bool(named)

    with Progress(log, "articles searched for subjects and answers") as progress:
        for passages in texts:
            in_article: set[str] = set()
            for passage in passages:
                phrases_found = phrases.find(dpr_tokens(passage))
                in_article |= phrases_found
                if has_subject(1, phrases_found):
                    for sentence in sentences(passage):
                        has_subject(0, phrases.find(dpr_tokens(sentence)))
            has_subject(2, in_article)
            progress.add(1)
    return counts


def _read_published(
    declared: Counts, path: Path, asked: Mapping[tuple[str, str], Asked], rejected: list[QuarantinedRow]
) -> _Counted:
    """The largest count of each question: names and answers are several, and their texts overlap."""
    aside = RejectedRows(path.name, most=MOST_ASIDE)
    of_id: dict[str, int] = {}
    of_words: dict[str, dict[str | None, int]] = defaultdict(dict)
    for row in _entries(declared, path, aside):
        try:
            question_id, subject, n = row.id(), row.text("subject"), row.count("count")
            if n is None:
                raise row.error("count", "a whole number of at least 0 was expected")
            answer = row.text("answer") if "answer" in row.columns else None
        except RefusedError as refused:
            aside.put(row.number, str(refused), row.values)
            continue
        if question_id is not None:
            of_id[question_id] = max(n, of_id.get(question_id, 0))
        elif subject:
            counts, words = of_words[dpr_tokens(subject)], dpr_tokens(answer) if answer else None
            counts[words] = max(n, counts.get(words, 0))
    rejected += aside.list_rows()
    is_known = False
    for key, question in asked.items():
        answers = {None, *question.answers}
        named = [
            n for name in question.names for words, n in of_words.get(name, {}).items() if words in answers
        ]
        known = [*named, *([of_id[key[1]]] if key[1] in of_id else [])]
        if key[0] == declared.dataset and known:
            is_known = True
            yield key, declared.measures[0], max(known)
    if not is_known:
        raise SourceError(
            f"{path}: holds no count for any question of {declared.dataset}{first_reason(aside.rows)}"
        )


def _entries(declared: Counts, path: Path, aside: RejectedRows) -> Iterable[Row]:
    """The rows of a table, or without `columns` also of one JSON object: subject → count, or subject → answer → count."""
    whole = _whole_object(declared, path)
    if whole is not None:
        return _of_object(whole)
    return _open_table(declared, path, aside)


def _open_table(declared: Counts, path: Path, aside: RejectedRows) -> Iterable[Row]:
    table = read_table(path, dict(declared.columns), COUNT_MEANINGS, ("count",), aside)
    if not {"id", "subject"} & {*table.columns}:
        raise SourceError(f"{path}: has neither a column id nor subject; name one in the study: columns")
    return table.rows


def _whole_object(declared: Counts, path: Path) -> Mapping[str, Any] | None:
    """The one JSON object that a file is; None for a table, of which a line or two are read."""
    if declared.columns:
        return None
    with open_file(path) as stream:
        rows = rows_of_object(stream)
    return rows[0] if rows and len(rows) == 1 and isinstance(rows[0], dict) else None


def _of_object(counts: Mapping[str, Any]) -> Iterator[Row]:
    for number, (subject, value) in enumerate(counts.items(), 1):
        for answer, n in value.items() if isinstance(value, dict) else ((None, value),):
            columns = {
                "subject": "subject",
                "count": subject,
                **({} if answer is None else {"answer": "answer"}),
            }
            yield Row(number, {"subject": subject, "answer": answer, "count": n}, columns)
