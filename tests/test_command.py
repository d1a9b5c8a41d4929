"""The command `longtail`: an option is a parameter of its function or a variable, and everything else is refused."""

from __future__ import annotations

import importlib
import inspect
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from longtail import __main__ as command
from longtail.storage.home import PROJECT_ROOT
from tests.journeys.commands import environment

GIVEN: dict[tuple[str, ...], tuple[dict[str, str], dict[str, object]]] = {
    ("run", "mine.yaml", "--home", "there", "--limit", "50"): (
        {"LONGTAIL_STUDY": "mine.yaml", "LONGTAIL_HOME": "there", "LONGTAIL_LIMIT": "50"}, {}
    ),
    ("run", "--prepare"): ({}, {"prepare": True}),
    ("run", "--publish-fewer"): ({"LONGTAIL_PUBLISH_FEWER": "1"}, {}),
    ("generate", "mine.yaml", "--shard", "2/4", "--merge", "a:b"): (
        {"LONGTAIL_STUDY": "mine.yaml"}, {"shard": "2/4", "merge": "a:b"}
    ),
    ("plan", "mine.yaml"): ({"LONGTAIL_STUDY": "mine.yaml"}, {}),
    ("clean-up", "mine.yaml", "--remove", "build"): ({"LONGTAIL_STUDY": "mine.yaml"}, {"remove": "build"}),
    ("ui", "--port", "3001"): ({}, {"port": "3001"}),
    ("sql", "mine.yaml", "-c", "select '$1'", "--format", "csv"): (
        {"LONGTAIL_STUDY": "mine.yaml"}, {"query": "select '$1'", "form": "csv"}
    ),
    ("sql", "select 1", "--format", "json"): ({}, {"query": "select 1", "form": "json"}),
    ("sql", f"select '{'a' * 300}'"): ({}, {"query": f"select '{'a' * 300}'"}),
    ("sql", "my study.yaml"): ({"LONGTAIL_STUDY": "my study.yaml"}, {}),
    ("router", "mine.yaml", "--port", "8001"): ({"LONGTAIL_STUDY": "mine.yaml"}, {"port": "8001"}),
    ("compare", "here", "there", "--output", "out"): ({}, {"a": "here", "b": "there", "output": "out"}),
}  # fmt: skip
SET = (
    "LONGTAIL_STUDY", "LONGTAIL_HOME", "LONGTAIL_LIMIT", "LONGTAIL_PUBLISH_FEWER", "LONGTAIL_PREPARE", "LONGTAIL_SHARD",
    "LONGTAIL_MERGE", "PORT", "Q", "FORMAT", "A", "B", "OUTPUT", "REMOVE",
)  # fmt: skip


@pytest.mark.parametrize("given", GIVEN, ids=" ".join)
def test_options_are_parameters_or_variables_and_no_other_variable_changes_a_command(
    given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SET:
        monkeypatch.setenv(name, "before")
    for name in ("DAGSTER_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("DBT_SEND_ANONYMOUS_USAGE_STATS", "true")
    started: list[object] = []

    def program(name: str) -> SimpleNamespace:
        return SimpleNamespace(main=lambda **parameters: started.extend((name, parameters)) or 3)

    monkeypatch.setattr(command, "import_module", program)
    variables, parameters = GIVEN[given]
    assert command.main(given) == 3
    assert started == [f"longtail.commands.{given[0].replace('-', '_')}", parameters]
    assert {name: os.environ[name] for name in SET} == dict.fromkeys(SET, "before") | variables
    assert (os.environ["DAGSTER_DISABLE_TELEMETRY"], os.environ["DO_NOT_TRACK"]) == ("1", "1")
    assert os.environ["DBT_SEND_ANONYMOUS_USAGE_STATS"] == "true"


@pytest.mark.parametrize("threads", ["x", "0", "-3"])
def test_a_number_of_threads_is_checked_before_a_command(
    threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_THREADS", threads)
    with pytest.raises(SystemExit, match=f"^error: LONGTAIL_THREADS: '{threads}' is not a number of threads"):
        command.main(["schema"])


@pytest.mark.parametrize("given", ["clean-up", "--help"])
def test_an_output_that_cannot_be_written_ends_in_no_trace(given: str, tmp_path: Path) -> None:
    typed = shlex.join([sys.executable, "-m", "longtail", given])
    env = environment(tmp_path)
    full = subprocess.run(["bash", "-c", f"{typed} > /dev/full"], env=env, capture_output=True, check=False)
    said = b"error: the output could not be written: No space left on device\n"
    assert (full.returncode, full.stderr) == (1, said)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer) as closed:
        stopped = subprocess.run(
            ["bash", "-c", typed], env=env, stdout=closed, stderr=subprocess.PIPE, check=False
        )
    assert (stopped.returncode, stopped.stderr) == (0, b"")


def test_each_parameter_of_a_command_is_an_option_and_each_option_a_parameter() -> None:
    for name, (_, options) in command._COMMANDS.items():
        program = importlib.import_module(f"longtail.commands.{name.replace('-', '_')}")
        parameters = set(inspect.signature(program.main).parameters)
        assert parameters == {option for option in options if option.islower()}, name


@pytest.mark.parametrize(
    ("given", "helps"),
    [
        (["run", "a", "b"], "longtail run"), (["run", "--study", "x"], "longtail run"),
        (["sql", "--que", "x"], "longtail sql"), (["nope"], "longtail"), ([], "longtail"),
    ],
)  # fmt: skip
def test_an_argument_is_refused_in_one_line(
    given: list[str], helps: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(given)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert f"; `{helps} --help` lists what it takes" in said


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["--help"], ["run", "ui", "sql", "router", "compare", str(PROJECT_ROOT)]),
        (["ui", "--help"], ["$LONGTAIL_STUDY", "$LONGTAIL_HOME", "--port"]),
        (["sql", "--help"], ["box, csv, json, markdown"]),
    ],
)
def test_help_names_commands_options_and_variables(
    given: list[str], named: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as ended:
        command.main(given)
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert [name for name in named if name not in said] == []


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name="dagster")

    monkeypatch.setattr(command, "import_module", fail)
    with pytest.raises(
        SystemExit, match=r"error: package dagster is not installed; run: .*\[platform\]'"
    ) as ended:
        command.main(["run"])
    assert ended.value.code != 0
