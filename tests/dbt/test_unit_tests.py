"""dbt's unit tests, which studies leave out of their builds: every one is run here, on hand-computed rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.warehouses import AWKWARD, copied_study, run_dbt


def test_every_unit_test_passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    study = copied_study(AWKWARD, monkeypatch, tmp_path / "study")
    listed = run_dbt(study, "--quiet", "list", "--resource-type", "unit_test").split()
    assert len(listed) > 70
    done = run_dbt(study, "test", "--select", "test_type:unit")
    counts = re.search(r"PASS=(\d+) WARN=0 ERROR=0 SKIP=0", done)
    assert counts is not None, done
    assert int(counts[1]) >= len(listed)
