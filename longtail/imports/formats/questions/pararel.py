"""ParaRel: `graphs_json/P*.jsonl` (patterns) and `trex_lms_vocab/P*.jsonl` (facts), one file per relation (SPEC §8).

The files have no names of relations: a relation is called by its property, as in P36.

Facts are keyed by their uuid, never by a label: labels repeat, of subjects and of whole facts, and each fact counts. A
question is the relation's first pattern with its subject; [Y] stays in the object's place. Candidates are the distinct
objects of all facts of the relation, sorted, whatever part of the facts is asked.

`edges.jsonl`, where the folder has it, says of pairs of patterns what changes from one to the other: relation, from, to,
and true or false for syntactic, lexical and determiner.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from longtail.errors import SourceError
from longtail.imports.format import (
    LONGEST_QUESTION,
    Ambiguous,
    ImportedDataset,
    ImportedPattern,
    LinkingCounts,
    Names,
    QuestionFormat,
    names_for,
    question_row,
)
from longtail.imports.lines import clean
from longtail.imports.records import first_reason, read_json_lines
from longtail.parsing.line_files import RejectedRows
from longtail.parsing.terms import LONGEST_LABEL
from longtail.relations.cloze import OBJECT, SUBJECT, fill_subject
from longtail.study.datasets import Dataset
from longtail.study.imports import Import
from longtail.study.parts import Part

PATTERNS, FACTS, EDGES = "graphs_json", "trex_lms_vocab", "edges.jsonl"
_FILE = re.compile(r"P[1-9]\d*\.jsonl")
_NOT_SAID = ("", "?", "-")
_CHANGES: dict[tuple[object, ...], str] = {
    (True, False, False): "syntactic",
    (False, True, False): "lexical",
    (True, True, False): "both",
    (False, False, False): "no_change",
}
"""(syntactic, lexical, determiner) → the type of the pair; with another determiner, it is `determiner`. The first three
are apart from determiners as in the reference (yanaiela/pararel, `encode_consistency_probe.py`, `analyze_results`)."""


def read_pararel(
    folder: Path,
    relations: Iterable[str],
    entities: Mapping[str, Iterable[str]],
    popularity: Mapping[str, float] = {},
) -> ImportedDataset:
    """Read ParaRel's folder. `relations`: properties, empty for all. `entities`: a name → ids of those that bear it.

    Rows that cannot be used are put aside, and so is a relation without patterns or without facts. Lines count
    facts whose subject's label repeats in their relation, and relations of one pattern. Errors: `SourceError` where a
    folder or an asked relation is missing, or no fact can be used.
    """
    dataset = ImportedDataset()
    there = {file.stem for file in find_files(folder) if file.name != EDGES}
    wanted = list(dict.fromkeys(relations)) or sorted(there, key=_number)
    if missing := [name for name in wanted if name not in there]:
        known = ", ".join(sorted(there, key=_number))
        raise SourceError(f"{folder}: holds no file of relation {missing[0]}; it has: {known}")
    for relation in wanted:
        _add_relation(dataset, folder, relation, entities, popularity)
    if (folder / EDGES).is_file():
        _add_edges(dataset, folder / EDGES, there)
    if not dataset.questions:
        raise SourceError(f"{folder}: holds no fact that can be asked{first_reason(dataset.rejected)}")
    _tell(dataset)
    return dataset


def find_files(folder: Path) -> list[Path]:
    """The files of patterns, of facts, and of edges. Errors: `SourceError` where one of the two folders has none."""
    paths = [folder / EDGES] if (folder / EDGES).is_file() else []
    for name in (PATTERNS, FACTS):
        place = folder / name
        files = (
            sorted(file for file in place.iterdir() if _FILE.fullmatch(file.name)) if place.is_dir() else []
        )
        if not files:
            raise SourceError(f"{folder}: has no folder {name} with files P*.jsonl")
        paths += files
    return paths


def _number(relation: str) -> int:
    return int(relation[1:])


def _add_relation(
    dataset: ImportedDataset,
    folder: Path,
    relation: str,
    entities: Mapping[str, Iterable[str]],
    popularity: Mapping[str, float],
) -> None:
    name = f"{relation}.jsonl"
    counts = dataset.linking.setdefault(relation, LinkingCounts())
    of_patterns, of_facts = RejectedRows(f"{PATTERNS}/{name}"), RejectedRows(f"{FACTS}/{name}")
    patterns = _patterns(folder / PATTERNS / name, of_patterns)
    facts = _facts(folder / FACTS / name, of_facts, dataset)
    if not patterns or not facts:
        lacking = "facts" if patterns else "patterns"
        of_facts.put(0, f"relation without {lacking}: none of its facts is asked", relation)
    else:
        dataset.patterns[relation] = patterns
        dataset.candidates[relation] = sorted({fact["object"] for fact in facts.values()})
        for question_id, fact in facts.items():
            counts.n_questions += 1
            subject_id = counts.link(entities.get(fact["subject"], ()), popularity)
            dataset.questions[question_id] = question_row(
                question_id,
                fill_subject(patterns[0].text, fact["subject"]),
                [fact["object"]],
                relation=relation,
                property_id=relation,
                subject_id=subject_id,
                subject=fact["subject"],
                objects=[fact["object"]],
            )
    counts.n_put_aside = len(of_facts.rows)
    counts.n_questions += counts.n_put_aside
    dataset.rejected += [*of_patterns.rows, *of_facts.rows]


def _patterns(file: Path, rejected: RejectedRows) -> list[ImportedPattern]:
    if not file.is_file():
        return []
    patterns: dict[str, ImportedPattern] = {}
    for number, row in read_json_lines(file, rejected):
        text = _clean(row.get("pattern"), LONGEST_QUESTION)
        fault = next((sign for sign in (SUBJECT, OBJECT) if text.count(sign) != 1), None)
        if fault:
            rejected.put(number, f"key pattern: {fault} was expected once", row)
        elif text in patterns:
            rejected.put(number, "key pattern: the relation has it already; the first is kept", row)
        else:
            said = {key: _said(row.get(key)) for key in ("lemma", "extended_lemma", "tense")}
            patterns[text] = ImportedPattern(text, **said)
    return list(patterns.values())


def _add_edges(dataset: ImportedDataset, file: Path, there: Container[str]) -> None:
    """The types of the pairs of the relations that are asked. Edges of patterns that are not there are put aside."""
    rejected = RejectedRows(file.name)
    for number, row in read_json_lines(file, rejected):
        relation, ends = row.get("relation"), [row.get("from"), row.get("to")]
        known = {pattern.text for pattern in dataset.patterns.get(str(relation), ())}
        if not known and relation in there:
            continue
        texts = [_clean(end, LONGEST_QUESTION) for end in ends]
        said = tuple(row.get(key) for key in ("syntactic", "lexical", "determiner"))
        if unknown := [text for text in texts if text not in known]:
            rejected.put(number, f"key from or to: {relation} has no such pattern: {unknown[0][:100]!r}", row)
        elif not all(isinstance(value, bool) for value in said):
            rejected.put(number, "keys syntactic, lexical and determiner: true or false was expected", row)
        elif (str(relation), *texts) in dataset.changes:
            rejected.put(number, "keys from and to: the pair is there already; the first is kept", row)
        else:
            dataset.changes[str(relation), texts[0], texts[1]] = _CHANGES.get(said, "determiner")
    dataset.rejected += rejected.rows
    if rejected.rows:
        first = f"{rejected.rows[0].row_key}: {rejected.rows[0].reason}"
        dataset.says.append(
            f"{len(rejected.rows)} edges put aside, their pairs have no type; the first: {first}"
        )


def _said(value: object) -> str | None:
    text = _clean(value)
    return None if text in _NOT_SAID else text


def _clean(value: object, longest: int = LONGEST_LABEL) -> str:
    """The text, clean; empty for anything else."""
    return clean(value, longest) if isinstance(value, str) else ""


def _facts(file: Path, rejected: RejectedRows, dataset: ImportedDataset) -> dict[str, dict[str, str]]:
    """Uuid → subject and object."""
    facts: dict[str, dict[str, str]] = {}
    for number, row in read_json_lines(file, rejected) if file.is_file() else ():
        values = {
            name: _clean(row.get(key))
            for name, key in (("id", "uuid"), ("subject", "sub_label"), ("object", "obj_label"))
        }
        fault = _fact_fault(values)
        if not fault and (values["id"] in facts or values["id"] in dataset.questions):
            fault = "key uuid: another fact has it already; the first is kept"
        if fault:
            rejected.put(number, fault, row)
        else:
            facts[values["id"]] = values
    return facts


def _fact_fault(values: Mapping[str, str]) -> str | None:
    if not values["id"]:
        return "key uuid: a text was expected"
    if not values["object"]:
        return "key obj_label: the object is no candidate, since it has no label"
    if not values["subject"] or any(sign in values["subject"] for sign in (SUBJECT, OBJECT)):
        return f"key sub_label: a text without {SUBJECT} and {OBJECT} was expected"
    return None


def _tell(dataset: ImportedDataset) -> None:
    subjects = Counter((row["relation"], row["subject"]) for row in dataset.questions.values())
    repeated = sum(n for n in subjects.values() if n > 1)
    single = [relation for relation, patterns in dataset.patterns.items() if len(patterns) == 1]
    dataset.says.append(f"{repeated} facts share their subject's label with another fact of their relation")
    if single:
        dataset.says.append(f"one pattern alone, so that nothing can be consistent: {', '.join(single)}")


def _read(place: Path, declared: Import, dataset: Dataset, names: Names) -> ImportedDataset:
    return read_pararel(place, dataset.relations, *names_for(declared, names))


@dataclass(frozen=True)
class ParaRelKeys(Part):
    ambiguous: Ambiguous = "left_out"


FORMAT = QuestionFormat(
    links_subjects=True,
    has_candidates=True,
    read=_read,
    files=lambda place, _declared: find_files(place),
    keys=ParaRelKeys,
)
