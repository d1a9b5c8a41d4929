"""dbt's unit tests, which studies leave out of their builds: every one is run here, on hand-computed rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.in_process_dbt import invoke_dbt
from tests.warehouses import AWKWARD, copied_study


def test_every_unit_test_passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    study = copied_study(AWKWARD, monkeypatch, tmp_path / "study")
    listed = invoke_dbt(study, "list", "--resource-type", "unit_test")
    assert len(listed) > 70
    done = invoke_dbt(study, "test", "--select", "test_type:unit").results
    tested = [
        result for result in done if result.node.resource_type.value == "unit_test"
    ]  # hooks have results too
    assert {result.status.value for result in tested} == {"pass"}
    assert len(tested) == len(listed)
