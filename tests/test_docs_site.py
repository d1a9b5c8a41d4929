"""The documentation site: built without a warning, it has every page, needs no network, and shows every table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from mkdocs.commands.build import build
from mkdocs.config import load_config

from longtail.storage.home import PROJECT_ROOT

MARTS = PROJECT_ROOT / "dbt/models/marts"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build is strict: a link or an anchor that leads nowhere, or a page outside the navigation, ends it."""
    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(PROJECT_ROOT / "mkdocs.yml"), site_dir=str(folder)))
    return folder


def test_every_page_of_docs_is_there_and_in_the_navigation(site: Path) -> None:
    start = (site / "index.html").read_text(encoding="utf-8")
    for page in (PROJECT_ROOT / "docs").glob("*.md"):
        assert (site / page.name).with_suffix(".html").exists()
    linked = set(re.findall(r'href="([\w/]+\.html)"', start))
    pages = {str(path.relative_to(site)) for path in site.rglob("*.html")} - {"404.html"}
    assert pages <= linked | {"index.html"}


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*(?:src|href)=["']?(?:https?:)?//[^"'>\s]+""")
    found = [
        found for path in site.rglob("*.html") for found in loaded.findall(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_every_mart_and_column_has_its_meaning(site: Path) -> None:
    for path in MARTS.rglob("*.yml"):
        page = (site / "tables" / f"{path.parent.name}.html").read_text(encoding="utf-8")
        for model in yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)["models"]:
            assert f'id="{model["name"]}"' in page
            for column in model.get("columns", []):
                assert f"<code>{column['name']}</code>" in page
        assert "doc(" not in page
        assert "<td></td>\n</tr>" not in page
