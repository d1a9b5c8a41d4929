"""Two lakes: everything goes wrong at once; questions without Wikidata.

`EDGES`: dataset `flat`, whose subjects are all equally popular; `unknown`, whose subjects have no known views; a
relation of one question; a model always right, one always wrong, one that lacks a partition and a question; rows that
the lake holds twice, some with another text.

`OPEN`: of its 8 questions, dataset `open` has 4 without subject and relation, and 4 of a relation of no set, whose
subjects have a name and no id. Dataset `popqa` has one question without a relation, and one without a subject.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longtail.storage.lake import Lake
from tests.lake_rows import fill
from tests.lakes import MONTHS, LakePlan, make_lake, make_study
from tests.warehouses import build_warehouse, own_folder

EDGES = LakePlan(
    n_relations=3,
    n_questions_per_relation=8,
    datasets=("popqa", "flat", "unknown"),
    models=("right", "wrong", "partial"),
    methods=("closed_book", "genread", "bm25", "oracle"),
    always_right=("right",),
    absent=(("partial", "bm25"),),
    one_question_relation=True,
    share_missing=0,
)
OPEN = LakePlan(
    n_relations=2,
    n_questions_per_relation=4,
    datasets=("popqa", "open"),
    prompts=("few_shot",),
    models=("right", "some"),
    always_right=("right",),
    share_missing=0,
    share_zero=0,
)
ODD_RELATION = """who sang "it's {all}" | [subj]?"""
UNRELATED, UNSUBJECTED = "Q1-P106", "Q2-P106"
"""The questions of popqa without a relation, and without a subject."""

FLAT, UNKNOWN = "Q800000001", "Q800000002"


@functools.cache
def edges_folder() -> Path:
    """A folder with study.yaml and, in `home`, the lake of `EDGES` and its build, all tests passed."""
    return _build(EDGES, _move_subjects, _spoil_answers)


@functools.cache
def open_folder() -> Path:
    """The same of `OPEN`."""
    return _build(OPEN, _forget_wikidata)


def _build(plan: LakePlan, *changes: Callable[[Lake], None]) -> Path:
    folder = _folder(plan)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_HOME", str(folder / "home"))
        study = make_study(folder, plan)
        lake = make_lake(study.home.lake, plan)
        for change in changes:
            change(lake)
        build_warehouse(study)
    return folder


def _folder(plan: LakePlan) -> Path:
    return own_folder(f"longtail-{len(plan.models)}-models-")


def _move_subjects(lake: Lake) -> None:
    """All questions of `flat` ask about one subject of 500 views a month, those of `unknown` about one without."""
    subjects = {"flat": FLAT, "unknown": UNKNOWN}
    questions = lake.read("questions").to_pylist()
    for question in questions:
        question["subject_id"] = subjects.get(question["dataset"], question["subject_id"])
    lake.write("questions", questions, fingerprint="moved")
    more = [
        fill("entities", {"entity_id": id_, "label": id_, "article_title": id_, "source": "sandbox"})
        for id_ in (FLAT, UNKNOWN)
    ]
    lake.write("entities", [*lake.read("entities").to_pylist(), *more], fingerprint="moved")
    known = {"entity_id": FLAT, "article_title": FLAT, "views": 500, "source": "sandbox"}
    for month in MONTHS:
        views = lake.read("page_views", month).to_pylist()
        lake.write(
            "page_views",
            [*views, {**views[0], **known, "month": month}],
            fingerprint="moved",
            partition=month,
        )


def _spoil_answers(lake: Lake) -> None:
    """`wrong` is never right; `partial` lacks a question; all of right|oracle is there twice, of wrong|bm25 three
    rows with another text."""
    for method in EDGES.methods:
        rows = lake.read("answers", f"wrong|{method}").to_pylist()
        for row in rows:
            row |= {name: False for name in row if name.startswith("is_correct") or name == "is_exact_match"}
            row |= {"prediction": "Lead", "raw_text": "Lead", "token_f1": 0.0, "rouge_l": 0.0}
        lake.write("answers", rows, fingerprint="wrong", partition=f"wrong|{method}")
        if method == "bm25":
            others = [{**row, "prediction": "Tin", "is_correct": True} for row in rows[:3]]
            lake.write("answers", others, fingerprint="others", partition="wrong|bm25_again")
    doubled = lake.read("answers", "right|oracle").to_pylist()
    lake.write("answers", doubled, fingerprint="doubled", partition="right|oracle_again")
    lacking = lake.read("answers", "partial|closed_book").to_pylist()
    lake.write("answers", lacking[1:], fingerprint="lacking", partition="partial|closed_book")


def _forget_wikidata(lake: Lake) -> None:
    """Take subjects and relations from questions, and what hangs on subjects: the oracle's passages, paraphrases."""
    datasets = lake.read("datasets").to_pylist()
    datasets[1] |= {"relation_set": None, "relations": []}
    lake.write("datasets", datasets, fingerprint="open")
    questions = [_forgotten(question) for question in lake.read("questions").to_pylist()]
    lake.write("questions", questions, fingerprint="open")
    named = {(q["dataset"], q["question_id"]) for q in questions if q["subject"]}
    linked = {(q["dataset"], q["question_id"]) for q in questions if q["subject_id"]}
    _keep(lake, "retrieved_passages", ["oracle"], lambda key, _: key in linked)
    _keep(lake, "answers", [f"{model}|oracle" for model in OPEN.models], lambda key, _: key in linked)
    for table, partitions in (("paraphrases", ["all"]), ("paraphrase_answers", list(OPEN.models))):
        _keep(lake, table, partitions, lambda key, row: key in named or row["paraphrase_id"] == 0)


def _forgotten(question: dict[str, Any]) -> dict[str, Any]:
    nobody = {"subject_id": None, "subject": None}
    nothing = {"relation": None, "property_id": None}
    if question["dataset"] == "open":
        unlinked = {"subject_id": None, "relation": ODD_RELATION, "property_id": None}
        less = {**nobody, **nothing} if question["relation"] == "occupation" else unlinked
        return {**question, **less, "object_ids": [], "objects": []}
    return {**question, **{UNRELATED: nothing, UNSUBJECTED: nobody}.get(question["question_id"], {})}


def _keep(
    lake: Lake, table: str, partitions: list[str], keeps: Callable[[tuple[str, str], dict[str, Any]], bool]
) -> None:
    for partition in partitions:
        rows = lake.read(table, partition).to_pylist()
        kept = [row for row in rows if keeps((row["dataset"], row["question_id"]), row)]
        lake.write(table, kept, fingerprint="open", partition=partition)
