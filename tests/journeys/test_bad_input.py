"""What goes wrong is one clear line, an exit code, and no stack trace; nothing half-made stays behind."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from longtail.commands import ui
from tests.in_process_dbt import put_parsed
from tests.journeys.commands import PROJECT, command, environment, run_python, run_study, small_study
from tests.journeys.small_world import FACTS, SEED, Small

pytestmark = pytest.mark.journey


def refused(home: Path, study: Path, **more: str) -> str:
    """The one error of a run that must fail: its line, and the lines below it that name what is missing."""
    done = run_study(home, study, **more)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr + done.stdout
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, done.stderr
    return done.stderr[done.stderr.index(errors[0]) :].rstrip("\n")


def test_an_unknown_key_of_the_study(tmp_path: Path) -> None:
    study = small_study(tmp_path, "fake:digest", edit={"methods:": "metods:"})
    line = refused(tmp_path / "home", study)
    assert str(study) in line
    assert "metods" in line
    assert "did you mean methods" in line


def test_an_unknown_model(tmp_path: Path) -> None:
    """A hub id of nobody, or a relative folder misspelt: both are looked for before anything is computed."""
    edit = {"backend: fake": "backend: transformers"}
    line = refused(tmp_path / "home", small_study(tmp_path, "models/optt", edit=edit), HF_HUB_OFFLINE="1")
    assert "models/optt is no folder, not in the local hub cache" in line
    assert "scripted" in line
    assert not (tmp_path / "home" / "small").exists()


def test_a_misspelt_model_folder_is_told_before_anything_is_computed(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    edit = {"backend: fake": "backend: transformers"}
    line = refused(tmp_path / "home", small_study(tmp_path, f"{tmp_path}/tinny", edit=edit))
    assert f"model scripted: there is no folder {tmp_path}/tinny, and no hub id looks like it" in line
    assert not (tmp_path / "home").exists()


def test_a_study_file_that_is_missing(tmp_path: Path) -> None:
    assert "no such study file" in refused(tmp_path / "home", tmp_path / "none.yaml")


def test_a_home_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    study = small_study(tmp_path, "fake:digest")
    line = refused(tmp_path / "file/home", study)
    assert str(tmp_path / "file") in line
    assert "LONGTAIL_HOME=<folder>" in line


def test_a_run_history_that_cannot_be_opened(tmp_path: Path) -> None:
    study = small_study(tmp_path, "fake:digest")
    for name in ("storage/runs.db", "history/runs.db"):
        (tmp_path / "home/small/dagster" / name).mkdir(parents=True)
    line = refused(tmp_path / "home", study)
    assert str(tmp_path / "home") in line
    assert "LONGTAIL_HOME=<folder>" in line


def test_two_study_files_of_one_name(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    first, second = (small_study(folder, "fake:digest", facts=8) for folder in (tmp_path, other))
    (tmp_path / "home/small").mkdir(parents=True)
    note = tmp_path / "home/small/study_file"
    note.write_text(f"{first}\n")
    line = refused(tmp_path / "home", second)
    assert str(first) in line
    assert str(second) in line
    assert note.read_text() == f"{first}\n"


def test_an_rdf_file_that_is_missing(tmp_path: Path) -> None:
    """That a variable is not set is told the same way: `test_ingest` has its words."""
    study = PROJECT / "studies/wikidata_people.yaml"
    put_parsed(tmp_path / "home", study)
    assert "nowhere.nt" in refused(tmp_path / "home", study, LONGTAIL_PEOPLE_RDF=str(tmp_path / "nowhere.nt"))


@pytest.mark.xdist_group("small_study")
def test_a_live_fetch_without_a_contact_address(changing: Small) -> None:
    text = changing.study.read_text(encoding="utf-8")
    sandbox = f"kind: sandbox, seed: {SEED}, facts_per_relation: {FACTS},"
    assert sandbox in text
    changing.study.write_text(text.replace(sandbox, "kind: wikidata,"), encoding="utf-8")
    said = refused(changing.home, changing.study, LONGTAIL_CONTACT="")
    assert "nothing was computed" in said
    assert "LONGTAIL_CONTACT" in said


def test_sql_before_any_run(tmp_path: Path) -> None:
    done = subprocess.run(
        command("sql", "-c", "select 1"),
        cwd=PROJECT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "make run" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("port", ["three", "0", "70000", "-1", "3000.5"])
def test_the_ui_on_a_port_that_is_none(capsys: pytest.CaptureFixture[str], port: str) -> None:
    assert ui.main(port) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: --port: ")
    assert len(said.splitlines()) == 1


def test_the_ui_on_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_python("-m", "longtail", "ui", "--port", str(port), env=environment(tmp_path), timeout=60)
    assert done.returncode == 1
    assert f"port {port} is taken" in done.stderr
