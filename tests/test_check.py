"""`make check` lints again what has changed, and only that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check


def test_sql_is_linted_again_where_it_or_a_rule_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linted: list[list[str]] = []
    bad: set[str] = set()

    def lint(files: list[str]) -> int:
        linted.append(sorted(files))
        return int(not bad.isdisjoint(files))

    def look() -> tuple[int | str | None, list[str]]:
        linted.clear()
        return check.lint_changed(tmp_path), [file for files in linted for file in files]

    monkeypatch.setattr(check, "_lint", lint)
    one, other, macro = "dbt/models/marts/one.sql", "dbt/tests/other.sql", "dbt/macros/macro.sql"
    for name in (one, other, macro, ".sqlfluff"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert look() == (0, [one, other])
    assert look() == (0, [])
    (tmp_path / one).write_text("changed")
    bad.add(one)
    assert look() == look() == (1, [one])
    bad.clear()
    assert look() == (0, [one])
    for common in (macro, ".sqlfluff"):
        (tmp_path / common).write_text("changed")
        assert look() == (0, [one, other])
    monkeypatch.setattr(check, "version", lambda _package: "another")
    assert look() == (0, [one, other])
