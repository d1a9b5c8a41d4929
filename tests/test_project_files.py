"""The files that tell users what they may do: licence, citation, contributing."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_licence_is_the_declared_one() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert PROJECT["license"] == "Apache-2.0"
    assert re.match(r"\s*Apache License\s+Version 2\.0, January 2004", text)
    assert "9. Accepting Warranty or Additional Liability." in text


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert citation["title"].startswith("Longtail")
    for work in (citation, *citation["references"]):
        assert work["authors"]
        assert work["title"]


def test_links_and_commands_of_contributing_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)", text)) <= targets


def test_every_section_that_is_named_is_in_the_specification() -> None:
    """`SPEC §6` stands in tables, figures and study files: a reader finds it in docs/specification.md."""
    sections = set(
        re.findall(r"^## (\d+)\. ", (ROOT / "docs/specification.md").read_text(), flags=re.MULTILINE)
    )
    assert sections == {str(number) for number in range(1, 11)}
    texts = [
        *(ROOT / name for name in ("README.md", "study.yaml")),
        *(path for folder in ("docs", "studies", "dbt/models") for path in (ROOT / folder).rglob("*.[my]*")),
        *(ROOT / "dagster_project/core/report/figures").glob("*.py"),
    ]
    named = {number for path in texts for number in re.findall(r"SPEC §(\d+)", path.read_text())}
    assert named <= sections
    assert len(named) > 5
