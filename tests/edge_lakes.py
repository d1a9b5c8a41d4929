"""A lake where everything goes wrong at once.

What belongs here: the lake, built once a process. What does not: what it should give (`tests/dbt`).

Dataset `flat`, whose subjects are all equally popular; `unknown`, of whose subjects no views are known; a
relation of one question; a model always right, one always wrong, one that lacks a partition and a question; rows that
the lake holds twice, some with another text.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

import pytest

from dagster_project.core.lake import Lake
from tests.lake_rows import fill
from tests.lakes import MONTHS, LakePlan, make_lake, make_study
from tests.warehouses import build_warehouse

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
FLAT, UNKNOWN = "Q800000001", "Q800000002"


@functools.cache
def edges_folder() -> Path:
    """A folder with study.yaml and, in `home`, the lake of `EDGES` and its build, all tests passed."""
    folder = _folder(EDGES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_HOME", str(folder / "home"))
        study = make_study(folder, EDGES)
        lake = make_lake(study.home.lake, EDGES)
        _move_subjects(lake)
        _spoil_answers(lake)
        build_warehouse(study, lake)
    return folder


def _folder(plan: LakePlan) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"longtail-{len(plan.models)}-models-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


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
