"""The script `.ci/run`: when it fails, and what it says did not run. make, pip, chromium and Postgres are stand-ins."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Case:
    """What the machine has and which commands fail; the exit code, the last target, what did not run, and the error."""

    code: int
    last: str
    left_out: tuple[str, ...] = ()
    error: str = ""
    fails: tuple[str, ...] = ()
    has_data: bool = True
    answers: bool = True
    has_programs: bool = True


UNAVAILABLE = "error: SmolLM2 could not be installed, though the package registry answers"
UNUSED = "error: the real study did not run on ../shared/data/popqa: SmolLM2 could not be installed"
CASES = {
    "all": Case(0, "test"),
    "no data": Case(0, "test", (NO_DATA,), has_data=False),
    "run fails": Case(2, "run", fails=("run",)),
    "the real study fails": Case(2, REAL, fails=(REAL,)),
    "check fails": Case(2, "check", fails=("check",)),
    "test fails without data": Case(2, "test", (NO_DATA,), fails=("test",), has_data=False),
    "no model, data": Case(1, "smollm2", error=UNAVAILABLE, fails=("smollm2",)),
    "no model, no data": Case(1, "smollm2", error=UNAVAILABLE, fails=("smollm2",), has_data=False),
    "no registry, data": Case(1, "smollm2", error=UNUSED, fails=("smollm2",), answers=False),
    "nothing": Case(
        0, "test", (BROWSER, POSTGRES, NO_MODEL), fails=("smollm2",), has_data=False, answers=False, has_programs=False
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_ran_what_did_not_and_what_failed(case: Case, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.fails(*case.fails)
    if case.has_data:
        (tmp_path / "shared/data/popqa").mkdir(parents=True)
    if not case.answers:
        machine.registry(f'echo "$*" > {tmp_path}/pip; exit 1')
    for name in () if case.has_programs else ("chromium", "pg_lsclusters"):
        (machine.tools / name).unlink()
    code, asked, left_out, error = machine.run()
    assert (code, asked[-1], tuple(left_out)) == (case.code, case.last, case.left_out)
    assert error.startswith(case.error)
    assert bool(error) == bool(case.error)
    if case.code == 0:
        there = [] if not case.has_data else [REAL]
        assert asked == ["run", "run", "smollm2", *there, "check", "test"]
    if not case.answers:  # it asks the same index as make
        assert (tmp_path / "pip").read_text().startswith("-m pip download")
