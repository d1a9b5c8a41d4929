"""dbt's unit tests, which studies leave out of their builds: every one is run here, on hand-computed rows."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from longtail.storage.home import PROJECT_ROOT
from tests.in_process_dbt import invoke_dbt
from tests.warehouses import AWKWARD, copied_study


def test_every_unit_test_passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    study = copied_study(AWKWARD, monkeypatch, tmp_path / "study")
    declared = [
        one["name"]
        for file in (PROJECT_ROOT / "dbt/models").rglob("*.yml")
        for one in yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader).get("unit_tests", [])
    ]
    assert len(declared) > 70
    done = invoke_dbt(study, "test", "--select", "test_type:unit").results
    tested = [
        result for result in done if result.node.resource_type.value == "unit_test"
    ]  # hooks have results too
    assert {result.status.value for result in tested} == {"pass"}
    assert sorted(result.node.name for result in tested) == sorted(declared)
