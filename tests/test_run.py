"""The one line that says what failed."""

from __future__ import annotations

import dagster as dg
import pytest

from dagster_project.run import _why


@dg.asset
def numbers() -> None: ...


@dg.asset_check(asset=numbers, blocking=True)
def numbers_are_whole() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=False, description="two rows\n  are missing")


@dg.asset_check(asset=numbers)
def numbers_are_many() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.WARN, description="only a few")


@dg.asset(deps=[numbers])
def sums() -> None: ...


@dg.asset
def broken() -> None:
    raise ValueError("no\n  number")


def why(*definitions: object) -> str:
    job = dg.Definitions(
        assets=[d for d in definitions if not isinstance(d, dg.AssetChecksDefinition)],
        asset_checks=[d for d in definitions if isinstance(d, dg.AssetChecksDefinition)],
        executor=dg.in_process_executor,
    ).resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        outcome = job.execute_in_process(instance=instance, raise_on_error=False)
    assert not outcome.success
    return _why(outcome.all_events)


@pytest.mark.filterwarnings("ignore")
def test_a_failed_check_speaks_before_the_step_that_it_failed() -> None:
    line = why(numbers, sums, numbers_are_whole, numbers_are_many)
    assert line == "failed check numbers_are_whole of numbers: two rows are missing"


def test_a_failed_step_is_one_line() -> None:
    line = why(broken)
    assert line.startswith("broken: ")
    assert "no number" in line
    assert "\n" not in line
