"""`longtail doctor`: what a person reads, and pastes into an issue."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

import pytest

from longtail.commands import doctor
from longtail.storage.home import DEFAULT_STUDY_FILE


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LONGTAIL_STUDY", str(DEFAULT_STUDY_FILE))
    return tmp_path / "home"


def test_the_default_study_needs_nothing_more(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main() == 0
    said = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert list(said) == ["longtail", "machine", "GPUs", "extras", "study", "home", "Everything"]
    assert {"faiss-cpu", "postgres"} <= set(said["extras"].split(", "))
    assert "dev" not in said["extras"]
    assert said["home"].startswith(f"{home}, ")
    assert [path for path in home.rglob("*") if path.is_file()] == []


def test_all_problems_are_told_at_once_and_no_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LONGTAIL_ROW_CACHE", "postgresql://me:s3cr/et@x@127.0.0.1:9/x")
    monkeypatch.setenv("LONGTAIL_OBJECT_STORE", "gs://bucket")
    assert doctor.main() == 1
    out = capsys.readouterr().out
    problems = [line.split()[1] for line in out.splitlines() if line.startswith("problem")]
    assert problems == ["LONGTAIL_OBJECT_STORE:", "LONGTAIL_ROW_CACHE:"]
    assert "LONGTAIL_ROW_CACHE=postgresql://…@127.0.0.1:9/x" in out
    assert "s3cr" not in out
    assert "et@" not in out


def test_a_study_that_cannot_be_read_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("LONGTAIL_STUDY", str(tmp_path / "none.yaml"))
    assert doctor.main() == 1
    assert "none.yaml" in capsys.readouterr().out.splitlines()[-2]


def test_what_stops_a_run_at_once_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, home: Path
) -> None:
    other = tmp_path / "other.yaml"
    shutil.copyfile(DEFAULT_STUDY_FILE, other)
    (home / "sandbox").mkdir(parents=True)
    (home / "sandbox/study_file").write_text(str(other))
    (tmp_path / "own.yaml").write_text("foo: 1")
    mine = shutil.copyfile(DEFAULT_STUDY_FILE, tmp_path / "mine.yaml")
    monkeypatch.setenv("LONGTAIL_STUDY", str(mine))
    monkeypatch.setenv("LONGTAIL_DAGSTER_YAML", str(tmp_path / "own.yaml"))
    assert doctor.main() == 1
    problems = [line for line in capsys.readouterr().out.splitlines() if line.startswith("problem")]
    assert len(problems) == 2
    assert f"is also the name of {other}" in problems[0]
    assert problems[1].endswith('Dagster refuses it: Received unexpected config entry "foo" at the root.')
    assert (home / "sandbox/study_file").read_text() == str(other)


def test_a_home_without_locks_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    """Some network file systems grant every lock."""
    monkeypatch.setattr(fcntl, "flock", lambda descriptor, operation: None)
    assert doctor.main() == 1
    assert f"problem   {home}: locks have no effect" in capsys.readouterr().out
