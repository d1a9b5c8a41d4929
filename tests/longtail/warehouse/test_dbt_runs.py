"""dbt on a study: where it writes, what a failing test does, and that it knows what is outdated."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from longtail.errors import PublishError
from longtail.study.study import Study
from longtail.warehouse.build import (
    BuildVerdict,
    clear_build,
    read_verdict,
)
from tests.in_process_dbt import invoke_dbt
from tests.warehouses import UNANSWERED, copied_study


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Study:
    return copied_study(UNANSWERED, monkeypatch, tmp_path / "study")


def test_models_that_were_never_built_count_as_failures(study: Study) -> None:
    study.home.build_warehouse.unlink()
    invoke_dbt(study, "build", "--select", "stg_study__models")
    with duckdb.connect() as connection:
        connection.execute(f"attach '{study.home.build_warehouse}' as build (read_only)")
        assert any("fct_adaptive_accuracy: not built yet" in f for f in read_verdict(connection).failures)


def test_a_file_that_dbt_never_wrote_has_no_verdict(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"attach '{tmp_path / 'empty.duckdb'}' as build")
        with pytest.raises(PublishError, match="build the warehouse first"):
            read_verdict(connection)


@pytest.mark.parametrize("n_bytes", [0, 4_096, 8_192, 20_000])
def test_a_build_that_nothing_opens_any_more_is_removed(
    n_bytes: int, study: Study, caplog: pytest.LogCaptureFixture
) -> None:
    """What a disk that is full while DuckDB begins the file leaves."""
    build, log = study.home.build_warehouse, logging.getLogger(__name__)
    clear_build(study, log)
    with duckdb.connect(str(build)):
        clear_build(study, log)  # it is open, in this very process
    assert build.exists()
    build.write_bytes(build.read_bytes()[:n_bytes])
    clear_build(study, log)
    assert not build.exists()
    assert "built again" in caplog.text
    with duckdb.connect(str(build)) as connection:
        connection.execute("create table rows (a integer)")


def test_a_build_that_another_process_holds_is_left_alone(study: Study) -> None:
    build = study.home.build_warehouse
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(build)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        clear_build(study, logging.getLogger(__name__))
        assert build.exists()
    finally:
        holder.kill()
        holder.communicate()


def verdict_of(study: Study) -> BuildVerdict:
    with duckdb.connect() as connection:
        connection.execute(f"attach '{study.home.build_warehouse}' as build (read_only)")
        return read_verdict(connection)


def test_marts_older_than_what_they_are_made_from_are_named_until_they_are_built_again(study: Study) -> None:
    assert verdict_of(study).failures == ()
    upstream = "int_adaptive_split_accuracy"
    invoke_dbt(study, "run", "--select", upstream)
    (failure,) = verdict_of(study).failures
    assert f"fct_adaptive_accuracy ({upstream} is newer)" in failure
    assert f"fct_leaderboard ({upstream} is newer)" in failure  # which reads it through fct_adaptive_accuracy
    assert "fct_accuracy " not in failure
    assert "build them again" in failure
    with duckdb.connect(str(study.home.build_warehouse)) as connection:  # before the clock was set back
        connection.execute(
            "update audit.invocations set started_at = '2099-01-01', finished_at = '2099-01-01'"
        )
        before = connection.execute("select max_by(invocation_id, number) from audit.invocations").fetchone()
    invoke_dbt(study, "run", "--select", f"{upstream}+")
    verdict = verdict_of(study)
    assert verdict.failures == ()
    assert (verdict.invocation_id,) != before


def test_after_a_run_that_was_killed_only_what_is_built_again_is_known(study: Study) -> None:
    with duckdb.connect(str(study.home.build_warehouse)) as connection:
        connection.execute("insert into audit.invocations values ('killed', '1', now(), null, 1000)")
    with pytest.raises(PublishError, match="did not finish"):
        verdict_of(study)
    invoke_dbt(study, "run", "--select", "stg_study__models")
    failures = verdict_of(study).failures
    assert any("model fct_accuracy: not known since a dbt run was killed" in failure for failure in failures)
    assert not any("model stg_study__models: " in failure for failure in failures)
