"""The home: its allowed paths."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from longtail.errors import LongtailError
from longtail.storage import home
from longtail.storage.home import longtail_home, study_file


@pytest.mark.parametrize("name", ["a*b", "a?b", "a[b]", "a%41b", "%2e%2e", "a%2Fb", "a%00b", "a%2541", "a#b"])
def test_a_home_that_duckdb_dbt_or_dagster_would_read_as_another_path_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / name))
    with pytest.raises(LongtailError, match="set LONGTAIL_HOME to another folder") as caught:
        longtail_home()
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["plain", "it's {braced} & spaced", "é]", "100% 1;", "%4", "%zz"])
def test_other_characters_are_allowed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / name))
    assert longtail_home() == tmp_path.resolve() / name


@pytest.mark.parametrize("variable", ["LONGTAIL_HOME", "LONGTAIL_STUDY"])
@pytest.mark.parametrize(
    "path", ["~no-such-user/x", "/" + "a/" * 3_000, "/tmp/" + "a" * 300], ids=["user", "path", "name"]
)
def test_an_unresolvable_path_is_a_one_line_error(
    variable: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, path)
    with pytest.raises(LongtailError, match=f"^{variable}: ") as caught:
        longtail_home() if variable == "LONGTAIL_HOME" else study_file()
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


def test_backslashes_and_bytes_that_are_no_text_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", os.fsdecode(bytes(tmp_path / "a") + b"\xff"))
    with pytest.raises(LongtailError, match="must be valid UTF-8"):
        longtail_home()
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "a\\b"))
    with pytest.raises(LongtailError, match="DuckDB reads as a pattern"):
        longtail_home()


@pytest.mark.parametrize(
    ("is_clone", "typed", "place"),
    [
        (True, "make sql STUDY='my study.yaml' LIMIT=50{} PORT=8", "data"),
        (False, "longtail sql 'my study.yaml' --limit 50{} --port 8", "longtail_data"),
    ],
)
def test_a_clone_is_told_make_and_has_its_state_beside_it(
    is_clone: bool, typed: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home, "IS_CLONE", is_clone)
    monkeypatch.setattr(home, "PROJECT_ROOT", tmp_path / "project")
    monkeypatch.delenv("LONGTAIL_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGTAIL_STUDY", "my study.yaml")
    monkeypatch.setenv("LONGTAIL_LIMIT", "50")
    assert home.command("sql", port=8) == typed.format("")
    assert home.longtail_home() == (tmp_path / "project" if is_clone else tmp_path) / place
    monkeypatch.setenv("LONGTAIL_HOME", "there")
    assert home.command("sql", port=8) == typed.format(
        " LONGTAIL_HOME=there" if is_clone else " --home there"
    )
