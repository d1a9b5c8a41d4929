"""Files that stand beside the code: versions, links and addresses in them, and what the pages tell readers to type. Each
command is one that `make` and `longtail` take, each piece of YAML a study's.

`tests/journeys/test_wheel.py` runs those of docs/python.md and docs/router.md.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from longtail import __main__ as longtail_command
from longtail.storage.home import PROJECT_ROOT
from longtail.storage.home import PROJECT_ROOT as ROOT
from longtail.study.file import load_study
from tests.pages import PAGES, TINY_STUDY, blocks

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_commands_and_files_of_a_page_exist(page: Path) -> None:
    text = page.read_text()
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = re.findall(r"`(?:[A-Z_]+=\S+ )?make ([a-z0-9-]+)(?![a-z0-9<-])", text)
    assert set(named) <= targets
    studies = re.findall(r"\bstudies/[a-z0-9_]+\.yaml", text.replace("studies/mine.yaml", ""))
    assert [study for study in studies if not (ROOT / study).exists()] == []


def test_services_of_compose_answer_this_machine_alone_and_have_no_password_of_ours() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)
    secrets = [
        value
        for service in services.values()
        for name, value in service["environment"].items()
        if re.search("PASSWORD|SECRET|HISTORY|ROW_CACHE|MC_HOST", name)
    ]
    assert secrets
    assert all("${LONGTAIL_PASSWORD:?" in value for value in secrets)
    assert not any(service["image"].endswith(":latest") for service in services.values())


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
