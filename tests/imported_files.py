"""Invented files in the formats of other projects, written independently: PopQA, PopQA-TP, results, logs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from longtail.imports.formats.questions.popqa import COLUMNS
from longtail.relations.relation import relation_set
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.study.imports import Results
from longtail.study.parts import read_part
from longtail.study.study import Study

N_SUBJECTS = 12


def results(format_: str, **options: Any) -> Results:
    """A declaration of answers to dataset popqa, read as study.yaml would be, at a place of no meaning."""
    raw = {"format": format_, "path": "x", "dataset": "popqa", **options}
    return read_part(Results, raw, Path("study.yaml"), "results[0]")


def study_of_files(folder: Path, **keys: Any) -> tuple[Study, Lake]:
    """A study without a source, with `keys` beside what every study needs, and a lake whose source's tables are empty."""
    needed = {
        "name": "files", "description": "d", "prompts": [{"name": "plain"}], "methods": ["closed_book"],
        "models": [{"name": "fake", "path": "fake:echo", "backend": "fake"}], "popularity": {"measure": "imported"},
    }  # fmt: skip
    (folder / "study.yaml").write_text(yaml.safe_dump(needed | keys), encoding="utf-8")
    return load_study(folder / "study.yaml"), empty_lake(folder / "lake")


def empty_lake(folder: Path) -> Lake:
    lake = Lake(folder)
    lake.ensure_schemas()
    for table in ("triples", "entities"):
        lake.write(table, [], fingerprint="none")
    return lake


TP_COLUMNS = ("id", "template_id", "paraphrase", "prop", "possible_answers")


def popqa_rows(
    relations: Sequence[str] = ("occupation", "capital", "author"), n: int = N_SUBJECTS
) -> list[dict[str, str]]:
    """`n` questions of each relation about invented subjects; a larger number in the name means more views."""
    by_name = {relation.name: relation for relation in relation_set("popqa")}
    rows = []
    for r, name in enumerate(relations):
        for i in range(n):
            number = 100 * r + i
            subject, answer = f"Subject {number}", f"Answer {number % 7}"
            rows.append(
                {
                    "id": str(400_000 + number),
                    "subj": subject,
                    "prop": name,
                    "obj": answer,
                    "subj_id": str(7_000 + number),
                    "prop_id": str(r),
                    "obj_id": str(9_000 + number % 7),
                    "s_aliases": json.dumps([f"S-{number}"]),
                    "o_aliases": json.dumps([f"A. {number % 7}"]),
                    "s_uri": f"http://www.wikidata.org/entity/Q{50_000 + number}",
                    "o_uri": f"http://www.wikidata.org/entity/Q{90_000 + number % 7}",
                    "s_wiki_title": subject.replace(" ", "_"),
                    "o_wiki_title": answer,
                    "s_pop": str(10 ** (1 + i % 5) + i),
                    "o_pop": str(1_000 + number % 7),
                    "question": by_name[name].question(subject),
                    "possible_answers": json.dumps([answer, f"A. {number % 7}"]),
                }
            )
    return rows


def delimited(
    rows: Iterable[Mapping[str, str]], columns: Sequence[str], delimiter: str, end: str = "\n"
) -> str:
    """Rows as CSV or TSV, quoted where necessary, with doubled quotes."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, columns, delimiter=delimiter, lineterminator=end, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def write_popqa(path: Path, rows: Iterable[Mapping[str, str]], end: str = "\n") -> Path:
    path.write_text(delimited(rows, COLUMNS, "\t", end), encoding="utf-8", newline="")
    return path


def popqa_tp_rows(rows: Iterable[Mapping[str, str]], n: int = 2) -> list[dict[str, str]]:
    """For each row, the question itself and `n` wordings."""
    found = []
    for row in rows:
        wordings = [row["question"], *(f"Wording {k} about {row['subj']}?" for k in range(1, n + 1))]
        found += [{**row, "template_id": str(k), "paraphrase": wording} for k, wording in enumerate(wordings)]
    return found


def write_popqa_tp(path: Path, rows: Iterable[Mapping[str, str]]) -> Path:
    path.write_text(delimited(rows, TP_COLUMNS, ","), encoding="utf-8", newline="")
    return path


def result_name(model: str, method: str, n: int, shots: int = 0, suffix: str = "") -> str:
    return f"model={model}-input=popQA-method={method}-shots={shots}-n={n}{suffix}.csv"


def result_rows(rows: Sequence[Mapping[str, str]], is_right: Sequence[bool]) -> list[dict[str, str]]:
    """Answers to the rows, right or wrong as declared, with the columns that the reference writes beside them."""
    return [
        {
            **row,
            "is_correct": str(right),
            "prompt": f"Q: {row['question']} A:",
            "pred": f" {row['obj']}" if right else " something else",
            "generation": f"Q: {row['question']} A: and more",
            "has_answer": "True",
            "retrieval_id": f"psg{i}",
            "gen_passage": f"A text about {row['subj']} and {row['obj']}.",
        }
        for i, (row, right) in enumerate(zip(rows, is_right, strict=True))
    ]


def write_results(
    folder: Path, name: str, rows: Sequence[Mapping[str, str]], columns: Sequence[str] = ()
) -> Path:
    """A result file with the unnamed index column of pandas."""
    method = name.split("-method=")[1].split("-")[0]
    own = {"vanilla": (), "genread": ("has_answer", "gen_passage")}.get(
        method, ("has_answer", "retrieval_id")
    )
    names = ["", *(columns or (*COLUMNS, "is_correct", "prompt", "pred", "generation", *own))]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(
        delimited([{"": str(i), **row} for i, row in enumerate(rows)], names, ","),
        encoding="utf-8",
        newline="",
    )
    return path


def log_lines(
    rows: Sequence[Mapping[str, str]], is_right: Sequence[bool], filter_: str = "none"
) -> list[dict[str, Any]]:
    """The objects of a sample log, one per row."""
    return [
        {
            "doc_id": i,
            "doc": {"id": int(row["id"]), "question": row["question"]},
            "target": row["obj"],
            "arguments": {"gen_args_0": {"arg_0": f"Q: {row['question']} A:", "arg_1": {"until": ["\n"]}}},
            "resps": [[f" {row['obj']}\nand more" if right else " no"]],
            "filtered_resps": [f" {row['obj']}" if right else " no"],
            "filter": filter_,
            "metrics": ["exact_match"],
            "doc_hash": "0",
            "exact_match": float(right),
        }
        for i, (row, right) in enumerate(zip(rows, is_right, strict=True))
    ]


def choice_lines(rows: Sequence[Mapping[str, Any]], *, is_older: bool = False) -> list[dict[str, Any]]:
    """The objects of a log of multiple choice; rows have `id`, `choices`, `target`, and the `likelihoods` of choices.

    `is_older`: as versions up to 0.4.2 wrote them, lists of arguments, and numbers and truths as such.
    """
    lines = []
    for i, row in enumerate(rows):
        likelihoods = row["likelihoods"]
        best = likelihoods.index(max(likelihoods))
        ratios = [value / len(choice) for value, choice in zip(likelihoods, row["choices"], strict=True)]
        by_length = ratios.index(max(ratios))
        pairs = [(likelihood, k == best) for k, likelihood in enumerate(likelihoods)]
        asked = [(f"Question: {row['id']}\nAnswer:", f" {one}") for one in row["choices"]]
        named = {f"gen_args_{k}": {"arg_0": a, "arg_1": b} for k, (a, b) in enumerate(asked)}
        texts: list[Any] = pairs if is_older else [(str(value), str(greedy)) for value, greedy in pairs]
        lines.append(
            {
                "doc_id": i, "doc": {"id": row["id"], **row.get("doc", {})}, "filter": "none",
                "target": row["target"] if is_older else str(row["target"]),
                "arguments": asked if is_older else named, "resps": [[pair] for pair in texts],
                "filtered_resps": texts, "acc": float(best == row["target"]),
                "acc_norm": float(by_length == row["target"]),
            }
        )  # fmt: skip
    return lines


def write_log(path: Path, lines: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def write_entity_questions(
    folder: Path, split: str, questions: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Path:
    """The dataset's folder; property → its questions."""
    place = folder / "dataset" / split
    place.mkdir(parents=True, exist_ok=True)
    for property_id, items in questions.items():
        (place / f"{property_id}.{split}.json").write_text(json.dumps(list(items)), encoding="utf-8")
    return folder
