"""A new generated table is one lake table and one task: the toy's scores land in the lake, and no stop loses any."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
import toy_scores
from small_study import fill_lake, small_study, stop_before_every_batch, with_model

from dagster_project.defs.generation import generation_asset
from dagster_project.defs.resources import models_of
from dagster_project.stages import plan
from longtail.errors import BackendError
from longtail.generation.tasks.registry import TASKS
from longtail.preflight import misses
from longtail.storage.lake import Lake
from longtail.study.study import Study
from longtail.tables import TABLES


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    monkeypatch.setitem(TASKS, toy_scores.TABLE.name, toy_scores.ToyScores())
    monkeypatch.setitem(TABLES, toy_scores.TABLE.name, toy_scores.TABLE)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    made = small_study(tmp_path, f"fake:passage?ledger={tmp_path / 'ledger'}")
    fill_lake(Lake(made.home.lake), 4)
    return made


def rows(study: Study) -> pa.Table:
    return Lake(study.home.lake).read("toy_scores", "tiny")


def test_scores_land_in_the_lake_with_their_accounts(study: Study) -> None:
    outcome = toy_scores.score(with_model(study, device_hour_usd=1.0))
    assert (outcome.notes["rows"], outcome.notes["computed"], outcome.notes["failed"]) == (20, 20, 0)
    for row in rows(study).to_pylist():
        assert len(row["scores"]) == len(row["candidates"]) == 4
        assert all(score < 0 for score in row["scores"])
        assert row["new_tokens"] == 8  # four candidates of two words
        assert row["decoding"] == "v1 score"
        assert row["cost_usd"] >= 0
    assert toy_scores.score(with_model(study, device_hour_usd=1.0)).was_current


def test_a_stop_before_every_batch_repeats_nothing(study: Study, tmp_path: Path) -> None:
    assert len(stop_before_every_batch(study, toy_scores.score, "toy_scores", tmp_path / "ledger")) == 20


def test_a_service_that_cannot_score_is_refused_before_anything_loads(study: Study) -> None:
    service = with_model(study, backend="openai", path="m")
    assert (
        "models[0]: model tiny: backend openai cannot score; backends that can: fake, fusion_in_decoder, transformers"
        in misses(service)
    )
    with pytest.raises(BackendError, match="backend openai cannot score"):
        toy_scores.score(service)


def test_its_asset_and_stage_are_made_as_for_other_tables(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    asset = generation_asset("toy_scores")
    assert asset.key.path[1:] == ["lake", "toy_scores"]
    assert asset.specs_by_key[asset.key].description == toy_scores.TABLE.grain
    study_resource = {"study": dg.ResourceDefinition.none_resource()}
    graph = dg.Definitions(assets=[asset], resources=study_resource).resolve_asset_graph()
    assert asset.partitions_def is not None
    names = asset.partitions_def.get_partition_keys()
    of_partitions = tuple(dataclasses.replace(study.models[0], name=name) for name in names)
    study = dataclasses.replace(study, models=of_partitions)
    assert [stage.title for stage in plan(study, graph)] == [f"toy scores of {name}" for name in names]
    monkeypatch.setattr(toy_scores.ToyScores, "is_asked", lambda *_: False)
    assert models_of("toy_scores").get_partition_keys() == []
