"""The script `.ci/run`: when it fails, and what it says did not run. make, pip, chromium and Postgres are stand-ins."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / ".ci/run"
TOOLS = ("bash", "dirname", "mktemp", "realpath", "rm")
BROWSER = "NOT run: browser tests: chromium could not be installed"
POSTGRES = "NOT run: the run history in Postgres: postgresql could not be installed"
NO_DATA = "NOT run: the real study: ../shared/data has no folder popqa"
NO_MODEL = "NOT run: the real study, and tests that need SmolLM2: the package registry does not answer"
REAL = "run STUDY=studies/popqa_real.yaml QUICK=1"


class Machine:
    """A clone of the project in a folder, with a PATH of its own. `fails`: the targets of make that fail."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tools = folder, folder / "bin"
        self.asked = folder / "asked"
        (folder / "project/.ci").mkdir(parents=True)
        shutil.copy(SCRIPT, folder / "project/.ci/run")
        self.tools.mkdir()
        for name in TOOLS:
            (self.tools / name).symlink_to(str(shutil.which(name)))
        self.put("bin/id", "echo 1000")
        self.put("bin/chromium", "")
        self.put("bin/pg_lsclusters", "")
        self.registry("exit 0")
        self.fails()

    def put(self, name: str, script: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{shutil.which('bash')}\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def fails(self, *targets: str) -> None:
        failing = " ".join(f'"{target}") exit 2;;' for target in targets)
        self.put("bin/make", f'echo "$*" >> {self.asked}\ncase "$*" in {failing} esac')

    def registry(self, script: str) -> None:
        self.put("project/.venv/bin/python", script)

    def run(self) -> tuple[int, list[str], list[str], str]:
        """The exit code, what make was asked for, the lines that say what did not run, and the errors."""
        done = subprocess.run(
            [str(self.folder / "project/.ci/run")], capture_output=True, text=True, check=False, timeout=60,
            env={"PATH": str(self.tools), "LONGTAIL_HOME": str(self.folder / "home")},
        )  # fmt: skip
        said = [line for line in done.stdout.splitlines() if line.startswith("NOT run")]
        assert said == done.stdout.splitlines()[-len(said) :] or not said  # at the very end
        errors = "\n".join(line for line in done.stderr.splitlines() if line.startswith("error"))
        return done.returncode, self.asked.read_text().splitlines(), said, errors


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def with_data(machine: Machine) -> None:
    (machine.folder / "shared/data/popqa").mkdir(parents=True)


def test_with_the_data_the_real_study_runs_and_nothing_is_left_out(machine: Machine) -> None:
    with_data(machine)
    assert machine.run() == (0, ["run", "run", "smollm2", REAL, "check", "test"], [], "")


def test_without_the_data_the_end_says_that_the_real_study_did_not_run(machine: Machine) -> None:
    code, asked, said, _ = machine.run()
    assert (code, said) == (0, [NO_DATA])
    assert asked == ["run", "run", "smollm2", "check", "test"]


@pytest.mark.parametrize("target", ["run", REAL, "check", "test"])
def test_it_fails_with_each_of_its_commands(machine: Machine, target: str) -> None:
    with_data(machine)
    machine.fails(target)
    code, asked, _, _ = machine.run()
    assert (code, asked[-1]) == (2, target)


@pytest.mark.parametrize("has_data", [True, False])
def test_a_registry_that_answers_must_have_the_model(machine: Machine, has_data: bool) -> None:
    if has_data:
        with_data(machine)
    machine.fails("smollm2")
    code, asked, _, errors = machine.run()
    assert (code, asked[-1]) == (1, "smollm2")
    assert errors == "error: SmolLM2 could not be installed, though the package registry answers"


def test_without_a_registry_the_data_must_be_used_all_the_same(machine: Machine) -> None:
    with_data(machine)
    machine.fails("smollm2")
    machine.registry("exit 1")
    code, asked, _, errors = machine.run()
    assert (code, asked[-1]) == (1, "smollm2")
    assert "the real study did not run on ../shared/data/popqa" in errors


def test_without_registry_data_and_browser_the_end_says_all_of_it(machine: Machine) -> None:
    machine.fails("smollm2")
    machine.registry("exit 1")
    for name in ("chromium", "pg_lsclusters"):
        (machine.tools / name).unlink()
    code, asked, said, errors = machine.run()
    assert (code, asked[-1], errors) == (0, "test", "")
    assert said == [BROWSER, POSTGRES, NO_MODEL]


def test_what_did_not_run_is_said_after_a_failure_too(machine: Machine) -> None:
    machine.fails("test")
    code, _, said, _ = machine.run()
    assert (code, said) == (2, [NO_DATA])


def test_the_registry_is_asked_for_a_package_of_the_same_index(machine: Machine) -> None:
    machine.fails("smollm2")
    machine.registry(f'echo "$*" > {machine.folder}/pip; exit 1')
    machine.run()
    words = (machine.folder / "pip").read_text().split()
    assert words[:3] == ["-m", "pip", "download"]
    assert not {"--index-url", "--no-index", "--find-links"} & set(words)
