"""The command `longtail`: an option sets the variable that a program reads, and everything else is refused."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from longtail import __main__ as command
from longtail.storage.home import PROJECT_ROOT

GIVEN = {
    ("run", "mine.yaml", "--home", "there", "--limit", "50"): {
        "LONGTAIL_STUDY": "mine.yaml", "LONGTAIL_HOME": "there", "LONGTAIL_LIMIT": "50"
    },
    ("run", "--prepare"): {"LONGTAIL_PREPARE": "1"},
    ("run", "--publish-fewer"): {"LONGTAIL_PUBLISH_FEWER": "1"},
    ("generate", "mine.yaml"): {"LONGTAIL_STUDY": "mine.yaml"},
    ("plan", "mine.yaml"): {"LONGTAIL_STUDY": "mine.yaml"},
    ("ui", "--port", "3001"): {"PORT": "3001"},
    ("sql", "mine.yaml", "-c", "select '$1'", "--format", "csv"): {
        "LONGTAIL_STUDY": "mine.yaml", "Q": "select '$1'", "FORMAT": "csv"
    },
    ("sql", "select 1", "--format", "json"): {"Q": "select 1", "FORMAT": "json"},
    ("sql", "my study.yaml"): {"LONGTAIL_STUDY": "my study.yaml"},
    ("router", "mine.yaml", "--port", "8001"): {"LONGTAIL_STUDY": "mine.yaml", "PORT": "8001"},
    ("compare", "here", "there", "--output", "out"): {"A": "here", "B": "there", "OUTPUT": "out"},
    ("check",): {},
}  # fmt: skip
SET = (
    "LONGTAIL_STUDY", "LONGTAIL_HOME", "LONGTAIL_LIMIT", "LONGTAIL_PREPARE", "LONGTAIL_PUBLISH_FEWER",
    "PORT", "Q", "FORMAT", "A", "B", "OUTPUT",
)  # fmt: skip


@pytest.mark.parametrize("given", GIVEN, ids=" ".join)
def test_options_set_variables_and_a_variable_that_no_option_names_stays(
    given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SET:
        monkeypatch.setenv(name, "before")
    for name in ("DAGSTER_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("DBT_SEND_ANONYMOUS_USAGE_STATS", "true")
    started = []
    monkeypatch.setattr(
        command, "import_module", lambda name: SimpleNamespace(main=lambda: started.append(name) or 3)
    )
    assert command.main(given) == 3
    assert started == [f"longtail.commands.{given[0]}"]
    assert {name: os.environ[name] for name in SET} == dict.fromkeys(SET, "before") | GIVEN[given]
    assert (os.environ["DAGSTER_DISABLE_TELEMETRY"], os.environ["DO_NOT_TRACK"]) == ("1", "1")
    assert os.environ["DBT_SEND_ANONYMOUS_USAGE_STATS"] == "true"


@pytest.mark.parametrize(
    "given", [["run", "a", "b"], ["run", "--study", "x"], ["sql", "--que", "x"], ["nope"], []]
)
def test_an_argument_is_refused_in_one_line(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(given)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert "--help` lists what it takes" in said


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["--help"], ["run", "ui", "sql", "router", "compare", "check", str(PROJECT_ROOT)]),
        (["ui", "--help"], ["$LONGTAIL_STUDY", "$LONGTAIL_HOME", "$PORT"]),
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
