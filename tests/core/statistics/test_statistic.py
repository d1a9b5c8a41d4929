"""What every statistic has in common: it is computed once, and says what it needs."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from dagster_project.core.errors import LakeError
from dagster_project.core.statistics.registry import STATISTICS
from dagster_project.core.statistics.statistic import Statistic, materialise
from dagster_project.core.storage.lake import Lake
from tests.lakes import LakePlan, make_study
from tests.warehouses import AWKWARD, built_study, lake_of

LOG = logging.getLogger(__name__)
each_statistic = pytest.mark.parametrize("statistic", STATISTICS, ids=lambda one: one.name)


@each_statistic
def test_a_second_call_is_current(statistic: Statistic, monkeypatch: pytest.MonkeyPatch) -> None:
    study = built_study(AWKWARD, monkeypatch)
    outcomes = materialise(statistic, study, lake_of(study), LOG)
    assert [outcome.table for outcome in outcomes] == list(statistic.tables)
    assert all(outcome.was_current for outcome in outcomes)


@each_statistic
def test_without_a_build_it_says_what_to_do(
    statistic: Statistic, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    study = make_study(tmp_path, LakePlan())
    with pytest.raises(LakeError, match="first pass"):
        materialise(statistic, study, Lake(study.home.lake), LOG)
