"""`make mutants` names the faults that the nearest tests miss, and leaves the tree as it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.mutants import code as mutants

CODE = """LEAST = 5


def is_enough(values: list[int], log: object) -> bool:
    log.info("of %d", len(values))
    if not values:
        raise ValueError("nothing")
    return len(values) >= LEAST
"""
TEST = """import logging
from longtail.small import enough


def test_enough() -> None:
    assert enough.is_enough([1] * 9, logging.getLogger())
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one module and one test, which asks of nine values whether they are enough."""
    files = {"longtail/small/enough.py": CODE, "tests/longtail/small/test_enough.py": TEST}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "longtail/__init__.py").touch()
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "one")
    monkeypatch.setattr(mutants, "PROJECT", tmp_path)
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True)


def changes(planned: list[mutants.Mutant]) -> set[str]:
    return {line.strip() for mutant in planned for line in mutant.diff().splitlines() if "+" in line}


def test_survivors_are_told_and_the_tree_stays(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = "longtail/small/enough.py"
    halved, never = (
        mutants.Mutant(path, line, "by hand", CODE.replace(*change))
        for line, change in ((1, ("LEAST = 5", "LEAST = 2")), (8, (">= LEAST", "< LEAST")))
    )
    verdicts = project / "verdicts"
    found = mutants.judge([halved, never], 2, False, verdicts)
    assert found == {halved.name: "survived", never.name: "caught"}
    said = capfd.readouterr().out
    assert f"survived {path}:1 by hand\n    -LEAST = 5\n    +LEAST = 2\n" in said
    assert (project / path).read_text() == CODE
    assert mutants.judge([halved, never], 1, False, verdicts) == found
    assert capfd.readouterr().out == "", "a verdict that was kept is not asked for again"


def test_faults_are_planted_in_code_and_not_in_what_readers_are_told(project: Path) -> None:
    lines = mutants.lines_of("longtail/small/enough")
    found = changes(mutants.planned(lines, 100, seed=0))
    assert {"+    return len(values) > LEAST", "+    if False:", "+LEAST = 6"} <= found
    assert not [one for one in found if "nothing" in one or "log" in one or "bool" in one]
    assert mutants.planned(lines, 3, seed=1) == mutants.planned(lines, 3, seed=1)


def test_a_commit_is_judged_by_its_own_lines(project: Path) -> None:
    path = "longtail/small/enough.py"
    (project / path).write_text(CODE.replace(">= LEAST", "> LEAST"))
    lines = mutants.changed_lines("HEAD")
    assert lines == {path: {8}}
    assert changes(mutants.planned(lines, 100, seed=0)) <= {
        f"+    return {one}" for one in ("len(values) >= LEAST", "len(None) > LEAST")
    }


def test_the_nearest_tests_are_those_of_the_name_and_those_that_import_the_module() -> None:
    found = mutants.nearest("longtail/statistics/prediction_fit.py", False)
    folder = "tests/longtail/statistics"
    assert {f"{folder}/test_prediction_fit.py", f"{folder}/test_prediction.py"} <= found
    assert found < mutants.nearest("longtail/statistics/prediction_fit.py", True)
