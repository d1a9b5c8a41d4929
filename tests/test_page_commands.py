"""What the pages tell readers to type: each command is one that `make` and `longtail` take, each piece of YAML a study's.

`tests/journeys/test_wheel.py` runs those of docs/python.md and docs/router.md.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from longtail import __main__ as longtail_command
from longtail.storage.home import PROJECT_ROOT
from longtail.study.file import load_study
from tests.pages import PAGES, TINY_STUDY, blocks


def commands(program: str) -> Iterator[list[str]]:
    """The words of every command of a program in the pages, variables that stand before it included."""
    for page in PAGES:
        for line in "".join(blocks(page)).splitlines():
            for one in re.split(r";|&(?= |$)", line):
                if re.match(rf"(?:[A-Z_]+=\S+ )?(?:\.venv/bin/)?{program} ", one.strip()):
                    yield shlex.split(one, comments=True)


def pieces_of_studies() -> Iterator[pytest.ParameterSet]:
    for page in PAGES:
        for number, block in enumerate(blocks(page) if page.parent.name != "dbt" else []):
            if re.match(r"(- name|(?!storage)[a-z_]+):(?! int = | Annotated)", block):
                yield pytest.param(block.partition("\nmake ")[0], id=f"{page.stem} {number}")


@pytest.mark.parametrize("words", commands("make"), ids=" ".join)
def test_make_knows_each_command_and_its_variables(words: list[str]) -> None:
    variables = [word.partition("=")[0] for word in words if re.match(r"[A-Z_]+=", word)]
    makefile = (PROJECT_ROOT / "Makefile").read_text(encoding="utf-8")
    assert [name for name in variables if name not in makefile and not name.startswith("LONGTAIL_")] == []
    env = dict(word.split("=", 1) for word in words[: words.index("make")])
    shown = subprocess.run(
        ["make", "-n", *words[words.index("make") + 1 :]],
        cwd=PROJECT_ROOT, env={"PATH": "/usr/bin:/bin", **env}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert ".venv" in shown.stdout


@pytest.mark.parametrize("words", commands("longtail"), ids=" ".join)
def test_longtail_takes_each_command(words: list[str]) -> None:
    longtail_command._parser().parse_args(words[2 if "=" in words[0] else 1 :])


@pytest.mark.parametrize("text", pieces_of_studies())
def test_each_piece_of_yaml_is_of_a_study(text: str, tmp_path: Path) -> None:
    piece = yaml.safe_load(text)
    if isinstance(piece, list):
        piece = {"models": piece}
    whole = piece if "questions" in piece else yaml.safe_load(TINY_STUDY) | piece
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(whole), encoding="utf-8")
    assert load_study(tmp_path / "mine.yaml").models


def test_operators_find_every_variable() -> None:
    """But for those by which the library tells dbt where it works."""
    files = [path for name in ("longtail", "dagster_project") for path in (PROJECT_ROOT / name).rglob("*.py")]
    read = {
        name
        for path in files
        for name in re.findall(r"LONGTAIL_[A-Z_]+[A-Z]", path.read_text(encoding="utf-8"))
    }
    page = (PROJECT_ROOT / "docs/operations.md").read_text(encoding="utf-8")
    table = page[page.index("| variable |") : page.index("## The web interface")]
    assert read - {"LONGTAIL_LAKE", "LONGTAIL_BUILD", "LONGTAIL_SEED"} <= set(
        re.findall(r"`(LONGTAIL_\w+)`", table)
    )
