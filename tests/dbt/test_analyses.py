"""The ready questions for analysts run on the warehouse, and find something."""

from __future__ import annotations

import duckdb

from dagster_project.core.home import PROJECT_ROOT
from dagster_project.core.study import Study
from tests.warehouses import run_dbt


def test_every_analysis_runs_and_returns_rows(awkward: Study) -> None:
    run_dbt(awkward, "compile", "--select", "path:analyses")
    compiled = awkward.home.build / "dbt" / "target" / "compiled" / "longtail" / "analyses"
    names = sorted(file.name for file in (PROJECT_ROOT / "dbt" / "analyses").glob("*.sql"))
    assert len(names) >= 6
    with duckdb.connect(str(awkward.home.build_warehouse), read_only=True) as connection:
        rows = {name: len(connection.execute((compiled / name).read_text()).fetchall()) for name in names}
    assert all(rows.values()), rows
