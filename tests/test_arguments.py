"""Programs that take no arguments say so: a study file behind one of them would otherwise be ignored."""

from __future__ import annotations

import sys

import pytest

from dagster_project import sql
from dagster_project.arguments import take_none


@pytest.mark.parametrize("given", [["studies/popqa.yaml"], ["--study", "x"], ["--hel"]])
def test_an_argument_is_refused_in_one_line(
    given: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", *given])
    with pytest.raises(SystemExit) as ended:
        take_none("run", __doc__)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: unrecognized arguments: {' '.join(given)}; ")
    assert said.count("\n") == 1
    assert "LONGTAIL_STUDY=<file>" in said


def test_help_names_the_variables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        take_none("run", __doc__)
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "python -m dagster_project.run" in said
    assert all(name in said for name in ("LONGTAIL_STUDY", "LONGTAIL_QUICK", "LONGTAIL_HOME", "PORT"))
    assert sql.main(["--help"]) == 0
    assert "FORMAT is box, csv, json, markdown" in capsys.readouterr().out
