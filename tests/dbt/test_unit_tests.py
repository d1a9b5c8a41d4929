"""dbt's unit tests, which studies leave out of their builds: every one is run here, on hand-computed rows."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import yaml
from dbt.adapters.duckdb.impl import DuckDBAdapter
from sqlparse.engine import grouping

from longtail.storage.home import PROJECT_ROOT
from tests.in_process_dbt import invoke_dbt
from tests.warehouses import UNANSWERED, copied_study


def test_every_unit_test_passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    study = copied_study(UNANSWERED, monkeypatch, tmp_path / "study")
    declared = [
        test["name"]
        for file in (PROJECT_ROOT / "dbt/models").rglob("*.yml")
        for test in yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader).get("unit_tests", [])
    ]
    assert len(declared) > 70
    # dbt looks for a `with` and has the whole query parsed for it; and no column changes meanwhile.
    monkeypatch.setattr(grouping, "group", lambda statement: statement)
    columns = functools.cache(DuckDBAdapter.get_columns_in_relation)
    monkeypatch.setattr(
        DuckDBAdapter, "get_columns_in_relation", lambda self, relation: columns(self, relation)
    )
    done = invoke_dbt(study, "test", "--select", "test_type:unit").results
    tested = [
        result for result in done if result.node.resource_type.value == "unit_test"
    ]  # hooks have results too
    assert {result.status.value for result in tested} == {"pass"}
    assert sorted(result.node.name for result in tested) == sorted(declared)
