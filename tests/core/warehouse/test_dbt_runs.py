"""dbt on a study: where it writes, what a failing test does, and that two passes make one whole."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dagster_project.core.errors import PublishError
from dagster_project.core.home import PROJECT_ROOT
from dagster_project.core.study import Study
from dagster_project.core.warehouse.build import (
    AFTER_GAINS,
    BuildVerdict,
    dbt_command,
    dbt_environment,
    read_verdict,
)
from tests.lake_rows import fill
from tests.warehouses import UNANSWERED, copied_study, lake_of


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Study:
    return copied_study(UNANSWERED, monkeypatch, tmp_path / "study")


def test_nothing_is_written_into_the_repository(study: Study) -> None:
    environment = dbt_environment(study)
    for name in ("LONGTAIL_LAKE", "LONGTAIL_BUILD", "DBT_TARGET_PATH", "DBT_LOG_PATH"):
        assert Path(environment[name]).is_relative_to(study.home.root)
    before = sorted((PROJECT_ROOT / "dbt").rglob("*"))
    assert dbt_command(study, ["parse"]).returncode == 0
    assert sorted((PROJECT_ROOT / "dbt").rglob("*")) == before


def test_a_failing_test_stops_the_build_and_is_named_in_the_verdict(study: Study) -> None:
    lake = lake_of(study)
    questions = lake.read("questions").to_pylist()
    lake.write("questions", [*questions, fill("questions", questions[0])], fingerprint="doubled")
    done = dbt_command(study, ["build", "--exclude", AFTER_GAINS])
    assert done.returncode == 1
    with duckdb.connect() as connection:
        connection.execute(f"attach '{study.home.build_warehouse}' as build (read_only)")
        verdict = read_verdict(connection)
    assert any("unique_key" in failure and "questions" in failure for failure in verdict.failures)


def test_models_that_were_never_built_count_as_failures(study: Study) -> None:
    study.home.build_warehouse.unlink()
    assert dbt_command(study, ["build", "--select", "stg_study__models"]).returncode == 0
    with duckdb.connect() as connection:
        connection.execute(f"attach '{study.home.build_warehouse}' as build (read_only)")
        assert any("fct_adaptive_accuracy: not built yet" in f for f in read_verdict(connection).failures)


def test_a_file_that_dbt_never_wrote_has_no_verdict(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"attach '{tmp_path / 'empty.duckdb'}' as build")
        with pytest.raises(PublishError, match="build the warehouse first"):
            read_verdict(connection)


def verdict_of(study: Study) -> BuildVerdict:
    with duckdb.connect() as connection:
        connection.execute(f"attach '{study.home.build_warehouse}' as build (read_only)")
        return read_verdict(connection)


def test_marts_older_than_what_they_are_made_from_are_named_until_they_are_built_again(study: Study) -> None:
    assert verdict_of(study).failures == ()
    upstream = "int_adaptive_split_accuracy"
    assert dbt_command(study, ["run", "--select", upstream]).returncode == 0
    (failure,) = verdict_of(study).failures
    assert f"fct_adaptive_accuracy ({upstream} is newer)" in failure
    assert f"fct_leaderboard ({upstream} is newer)" in failure  # which reads it through fct_adaptive_accuracy
    assert "fct_accuracy " not in failure
    assert "build them again" in failure
    assert dbt_command(study, ["run", "--select", f"{upstream}+"]).returncode == 0
    assert verdict_of(study).failures == ()


def test_after_a_run_that_was_killed_only_what_is_built_again_is_known(study: Study) -> None:
    with duckdb.connect(str(study.home.build_warehouse)) as connection:
        connection.execute("insert into audit.invocations values ('killed', '1', now(), null)")
    with pytest.raises(PublishError, match="did not finish"):
        verdict_of(study)
    assert dbt_command(study, ["run", "--select", "stg_study__models"]).returncode == 0
    failures = verdict_of(study).failures
    assert any("fct_accuracy: not known since a dbt run was killed" in failure for failure in failures)
    assert not any("stg_study__models: " in failure for failure in failures)
