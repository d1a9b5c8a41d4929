"""The home: which paths it may have."""

from __future__ import annotations

from pathlib import Path

import pytest

from dagster_project.core.errors import LongtailError
from dagster_project.core.home import longtail_home


@pytest.mark.parametrize("name", ["a*b", "a?b", "a[b]"])
def test_a_home_that_duckdb_would_read_as_a_pattern_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / name))
    with pytest.raises(LongtailError, match="set LONGTAIL_HOME to another folder") as caught:
        longtail_home()
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["plain", "it's {braced} & spaced", "é]"])
def test_other_characters_are_allowed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / name))
    assert longtail_home() == tmp_path.resolve() / name
