"""What goes wrong is one clear line, an exit code, and no stack trace; nothing half-made stays behind.

One of these runs is a process of its own; the others end before anything is started, and call the command.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from longtail.commands import run, ui
from tests.journeys.commands import environment, run_python, run_study, small_study

pytestmark = pytest.mark.journey
Refuse = Callable[[Path], str]


def one_error(said: str) -> str:
    """The one line that begins with `error: `; there is no trace."""
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert "Traceback" not in said
    return line


@pytest.fixture
def refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refuse:
    """Run a study that must be refused, in `home` unless the test has chosen another; its error."""
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DAGSTER_HOME", "set by the run")

    def refuse(study: Path) -> str:
        monkeypatch.setenv("LONGTAIL_STUDY", str(study))
        assert run.main() == 1
        return one_error(capsys.readouterr().err)

    return refuse


def test_an_unknown_key_of_the_study(tmp_path: Path) -> None:
    study = small_study(tmp_path, "fake:digest", edit={"methods:": "metods:"})
    done = run_study(tmp_path / "home", study)
    assert done.returncode == 1
    line = one_error(done.stderr)
    assert all(word in line for word in (str(study), "metods", "did you mean methods"))


def test_a_misspelt_model_folder_is_told_before_anything_is_computed(tmp_path: Path, refuse: Refuse) -> None:
    (tmp_path / "tiny").mkdir()
    edit = {"backend: fake": "backend: transformers"}
    line = refuse(small_study(tmp_path, f"{tmp_path}/tinny", edit=edit))
    assert f"model scripted: there is no folder {tmp_path}/tinny, and no hub id looks like it" in line
    assert not (tmp_path / "home").exists()


def test_a_study_file_that_is_missing(tmp_path: Path, refuse: Refuse) -> None:
    assert "no such study file" in refuse(tmp_path / "none.yaml")


def test_a_home_that_cannot_be_made(tmp_path: Path, refuse: Refuse, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "file/home"))
    line = refuse(small_study(tmp_path, "fake:digest"))
    assert str(tmp_path / "file") in line
    assert "LONGTAIL_HOME=<folder>" in line


def test_a_run_history_that_cannot_be_opened(tmp_path: Path, refuse: Refuse) -> None:
    for name in ("storage/runs.db", "history/runs.db"):
        (tmp_path / "home/dagster" / name).mkdir(parents=True)
    line = refuse(small_study(tmp_path, "fake:digest"))
    assert str(tmp_path / "home") in line
    assert "LONGTAIL_HOME=<folder>" in line


@pytest.mark.parametrize("port", ["three", "0", "70000", "-1", "3000.5"])
def test_the_ui_on_a_port_that_is_none(capsys: pytest.CaptureFixture[str], port: str) -> None:
    assert ui.main(port) == 1
    assert one_error(capsys.readouterr().err).startswith("error: --port: ")


def test_the_ui_on_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_python("-m", "longtail", "ui", "--port", str(port), env=environment(tmp_path), timeout=60)
    assert done.returncode == 1
    assert f"port {port} is taken" in done.stderr
