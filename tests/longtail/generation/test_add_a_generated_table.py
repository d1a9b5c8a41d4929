"""A new generated table is one lake table and one task: the toy's scores land in the lake."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from small_study import fill_lake, made, small_study, with_model

from dagster_project.defs.generation import generation_asset
from dagster_project.defs.resources import models_of
from dagster_project.stages import plan
from longtail.errors import BackendError
from longtail.generation.backends.base import Scored
from longtail.generation.engine.task import Plan, Request, Scope, Task
from longtail.generation.prompts.build import read_questions
from longtail.generation.tasks.questions import Group, QuestionItem, decisive_keys
from longtail.generation.tasks.registry import TASKS
from longtail.preflight import misses
from longtail.storage.lake import Lake, Outcome
from longtail.study.backends import SCORE
from longtail.study.models import Model
from longtail.study.study import Study
from longtail.tables import TABLES, Column, Table

TABLE = Table(
    "toy_scores",
    "One row per (dataset, question, model).",
    (
        *TABLES["generated_passages"].columns[:3],  # dataset, question, model
        Column("candidates", pa.list_(pa.string()), "answers to choose from"),
        Column("scores", pa.list_(pa.float64()), "their log-likelihoods"),
        Column("has_answer", pa.bool_(), "the likeliest one is right"),
        *TABLES["grounded_answers"].columns[6:],  # the hash of the prompt, and the accounts of the request
    ),
    partitioned_by=("model",),
)


class ToyScores(Task):
    """Which of its relation's answers does the model find likeliest?"""

    table = TABLE.name
    keys = ("dataset", "question_id")
    capability = SCORE

    def is_asked(self, study: Study) -> bool:
        return True

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        return decisive_keys(scope.study, ["Q: {question} A:"])

    def plan(self, scope: Scope) -> Plan[QuestionItem]:
        by_relation: dict[str, set[str]] = {}
        questions = [(d, q) for d, some in read_questions(scope.study, scope.lake).items() for q in some]
        for _, question in questions:
            by_relation.setdefault(question.relation, set()).add(f" {question.answer}")
        groups = {
            (dataset, name): Group(
                dataset, None, "Q: {question} A:", Request(candidates=tuple(sorted(candidates)))
            )
            for dataset in {dataset for dataset, _ in questions}
            for name, candidates in by_relation.items()
        }
        return Plan([QuestionItem(groups[dataset, q.relation], q) for dataset, q in questions])

    def row(self, model: Model, item: QuestionItem, part: int, result: Scored) -> Mapping[str, Any]:
        candidates = item.request.candidates
        scores = [score.log_likelihood for score in result.scores]
        best = candidates[scores.index(max(scores))]
        return {
            "candidates": candidates, "scores": scores,
            "has_answer": best.strip() in item.question.gold_answers,
        }  # fmt: skip


def score(study: Study) -> Outcome:
    """Partition `tiny` of toy_scores."""
    return made(study, TASKS[TABLE.name])


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    monkeypatch.setitem(TASKS, TABLE.name, ToyScores())
    monkeypatch.setitem(TABLES, TABLE.name, TABLE)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    asked = small_study(tmp_path, f"fake:passage?ledger={tmp_path / 'ledger'}")
    fill_lake(Lake(asked.home.lake), 4)
    return asked


def rows(study: Study) -> pa.Table:
    return Lake(study.home.lake).read("toy_scores", "tiny")


def test_scores_land_in_the_lake_with_their_accounts(study: Study) -> None:
    outcome = score(with_model(study, device_hour_usd=1.0))
    assert (outcome.notes["rows"], outcome.notes["computed"], outcome.notes["failed"]) == (20, 20, 0)
    for row in rows(study).to_pylist():
        assert len(row["scores"]) == len(row["candidates"]) == 4
        assert all(score < 0 for score in row["scores"])
        assert row["new_tokens"] == 8  # four candidates of two words
        assert row["decoding"] == "v1 score"
        assert row["cost_usd"] >= 0
    assert score(with_model(study, device_hour_usd=1.0)).was_current


def test_a_service_that_cannot_score_is_refused_before_anything_loads(study: Study) -> None:
    service = with_model(study, backend="openai", path="m")
    assert (
        "models[0]: model tiny: backend openai cannot score; backends that can: fake, fusion_in_decoder, transformers"
        in misses(service)
    )
    with pytest.raises(BackendError, match="backend openai cannot score"):
        score(service)


def test_its_asset_and_stage_are_made_as_for_other_tables(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    asset = generation_asset("toy_scores")
    assert asset.key.path[1:] == ["lake", "toy_scores"]
    assert asset.specs_by_key[asset.key].description == TABLE.grain
    study_resource = {"study": dg.ResourceDefinition.none_resource()}
    graph = dg.Definitions(assets=[asset], resources=study_resource).resolve_asset_graph()
    assert asset.partitions_def is not None
    names = asset.partitions_def.get_partition_keys()
    of_partitions = tuple(dataclasses.replace(study.models[0], name=name) for name in names)
    study = dataclasses.replace(study, models=of_partitions)
    assert [stage.title for stage in plan(study, graph)] == [f"toy scores of {name}" for name in names]
    monkeypatch.setattr(ToyScores, "is_asked", lambda *_: False)
    assert models_of("toy_scores").get_partition_keys() == []
