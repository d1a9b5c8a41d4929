"""Versions, links and addresses in the files that stand beside the code."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from longtail.storage.home import PROJECT_ROOT as ROOT
from tests.pages import PAGES

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
