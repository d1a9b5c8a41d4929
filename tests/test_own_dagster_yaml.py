"""LONGTAIL_DAGSTER_YAML: an operator's own settings of Dagster, such as a run history in Postgres."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from benchmarks.cluster import postgres_programs, postgres_server
from dagster_project.operations import RUN_SETTINGS, open_instance
from longtail.errors import LongtailError
from longtail.storage.home import PROJECT_ROOT
from longtail.study.file import load_study
from longtail.study.study import Study
from tests.in_process_dbt import put_parsed
from tests.journeys.commands import environment, read_until, run_python, run_study, small_study, start_study
from tests.pages import blocks

(SETTINGS,) = (text for text in blocks(PROJECT_ROOT / "docs/operations.md") if text.startswith("storage:"))


@dataclass(frozen=True)
class Postgres:
    """A server of this module's own: `control` starts, stops and restarts it."""

    url: str
    control: Callable[[str], None]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    if not postgres_programs():
        pytest.skip("no postgresql on this machine: a history in Postgres was not tried")
    pytest.importorskip("dagster_postgres")
    with postgres_server("-c fsync=off") as (address, control):
        yield Postgres(address.replace("://", "+psycopg2://"), control)


@dataclass(frozen=True)
class Home:
    """A small study with a history in Postgres."""

    folder: Path
    study: Path
    more: dict[str, str]


@pytest.fixture
def home(postgres: Postgres, tmp_path: Path) -> Home:
    (tmp_path / "mine.yaml").write_text(SETTINGS)
    more = {"LONGTAIL_DAGSTER_YAML": str(tmp_path / "mine.yaml"), "HISTORY": postgres.url}
    study = small_study(tmp_path, "fake:digest", facts=8)
    put_parsed(tmp_path / "home", study)
    return Home(tmp_path, study, more)


def runs_of(postgres: Postgres) -> list[tuple[str, str]]:
    """The status and the study of every run."""
    from sqlalchemy import create_engine, text

    query = text("select status, value from runs join run_tags using (run_id) where key = 'longtail/study'")
    with create_engine(postgres.url).connect() as connection:
        return [(status, study) for status, study in connection.execute(query)]


def test_a_history_in_postgres_goes_on_after_a_restart_of_its_server(postgres: Postgres, home: Home) -> None:
    """A new connection is waited for. One that breaks in the midst of a statement ends the run, in one line."""
    process, said = start_study(home.folder / "home", home.study, "--prepare", **home.more), []
    read_until(process, "] questions", said)
    postgres.control("restart")
    assert process.stdout is not None
    rest = process.stdout.read()
    errors = [line for line in rest.splitlines() if line.startswith("error: ")]
    assert (process.wait(), "Prepared." in rest, len(errors)) in [(0, True, 0), (1, False, 1)], rest
    assert "Traceback" not in rest
    assert "INFO" not in rest  # no line twice
    again = run_study(home.folder / "home", home.study, options=["--prepare"], **home.more)
    assert (again.returncode, "Prepared." in again.stdout) == (0, True), again.stderr
    runs = runs_of(postgres)
    assert {study for _, study in runs} == {"small"}
    statuses = [status for status, _ in runs]
    assert {*statuses} <= {"SUCCESS", "FAILURE"}  # what nobody could record, the next start has marked
    assert statuses.count("FAILURE") <= len(errors)
    assert statuses.count("SUCCESS") > 5
    assert not (home.folder / "home/dagster/history").exists()


def test_without_its_server_one_line_says_so(postgres: Postgres, home: Home) -> None:
    postgres.control("stop")
    try:
        done = run_python(
            "-m", "longtail", "ui", env=environment(home.folder / "home", home.study, **home.more)
        )
    finally:
        postgres.control("start")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: the run history's database: ")
    assert "check that it runs, and what LONGTAIL_DAGSTER_YAML says of it" in line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file or directory"),
        ("a: [", "while parsing a flow node"),
        ("- storage", "keys of Dagster's dagster.yaml are expected"),
        ("storage: {postgres: {}}", "Dagster refuses it: "),
        ("foo: 1", r'Dagster refuses it: Received unexpected config entry "foo" at the root\.$'),
        ("storage: {custom: {module: not_installed, class: Nothing}}", "Dagster refuses it: .*not_installed"),
    ],
)
def test_settings_that_cannot_be_used_are_one_line(
    text: str | None, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study = _study_with(text, monkeypatch, tmp_path)
    with (
        pytest.raises(LongtailError, match=rf"LONGTAIL_DAGSTER_YAML \(.*mine\.yaml\): .*{said}"),
        open_instance(study),
    ):
        pass


def test_own_keys_replace_the_projects_and_a_changed_limit_of_a_pool_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    logs = {"module": "dagster", "class": "LocalComputeLogManager", "config": {"base_dir": str(tmp_path)}}
    own = {"run_monitoring": {"enabled": False}, "compute_logs": logs}
    study = _study_with(yaml.safe_dump(own), monkeypatch, tmp_path)
    with open_instance(study) as instance:
        assert not instance.run_monitoring_enabled
        assert instance.telemetry_enabled is False
        instance.event_log_storage.set_concurrency_slots("gpu", 3)
    written = yaml.safe_load((study.home.dagster / "dagster.yaml").read_text())
    assert (study.home.dagster / "dagster.yaml").stat().st_mode & 0o777 == 0o600  # it may hold a password
    assert written["telemetry"] == {"enabled": False}
    of_run = yaml.safe_load((study.home.dagster / RUN_SETTINGS).read_text())
    assert of_run["compute_logs"] == logs
    with open_instance(study) as instance:
        storage = instance.event_log_storage
        storage.initialize_concurrency_limit_to_default(
            "warehouse"
        )  # as Dagster does when a step asks for it
        limits = {limit.name: limit.limit for limit in storage.get_pool_limits()}
    assert limits == {"gpu": 3, "warehouse": 1}


def _study_with(text: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Study:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LONGTAIL_DAGSTER_YAML", str(tmp_path / "mine.yaml"))
    monkeypatch.setenv("DAGSTER_HOME", "set by open_instance")
    if text is not None:
        (tmp_path / "mine.yaml").write_text(text)
    return load_study(small_study(tmp_path, "fake:digest"))
