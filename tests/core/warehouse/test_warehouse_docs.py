"""The documentation page: of the published build, without the network, made again only where the project changed."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from dagster_project.core.errors import PublishError
from dagster_project.core.home import PROJECT_ROOT
from dagster_project.core.study.study import Study
from dagster_project.core.warehouse.docs import _page_of, publish_docs
from dagster_project.core.warehouse.publish import publish_warehouse
from tests.browser import chromium
from tests.warehouses import UNANSWERED, copied_study

LOG = logging.getLogger(__name__)


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Study:
    return copied_study(UNANSWERED, monkeypatch, tmp_path / "study")


def test_the_page_is_of_the_published_build_and_gives_no_path_away(study: Study) -> None:
    with pytest.raises(PublishError, match="run `make run`"):
        publish_docs(study, LOG)
    published = publish_warehouse(study, LOG)
    report = publish_docs(study, LOG)
    page = report.path.read_text(encoding="utf-8")
    assert f'name="longtail:dbt-invocation-id" content="{published.invocation_id}"' in page
    assert "The warehouse of Longtail" in page
    assert str(study.home.root) not in page
    assert str(PROJECT_ROOT) not in page
    assert not re.search(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="?https?:', page)
    made = report.path.stat().st_ino
    again = publish_docs(study, LOG)
    assert report.was_made
    assert not again.was_made
    assert report.path.read_text(encoding="utf-8") == page
    assert report.path.stat().st_ino != made


def test_a_page_that_was_cut_is_made_again(tmp_path: Path) -> None:
    page, target = '<html><meta name="longtail:inputs" content="ab12"><p>é</p></html>', tmp_path / "docs.html"
    assert _page_of(target, "ab12") is None
    target.write_text(page, encoding="utf-8")
    assert _page_of(target, "ab12") == page
    assert _page_of(target, "cd34") is None
    whole = target.read_bytes()
    for n_bytes in range(len(whole)):
        target.write_bytes(whole[:n_bytes])
        assert _page_of(target, "ab12") is None


def test_a_browser_opens_it_from_the_disk_and_nothing_is_fetched(study: Study, tmp_path: Path) -> None:
    publish_warehouse(study, LOG)
    page = publish_docs(study, LOG).path
    with chromium(tmp_path / "profile", "the page was not looked at", logs="performance") as driver:
        from selenium.webdriver.common.by import By
        from selenium.webdriver.support.ui import WebDriverWait

        driver.get(f"{page.as_uri()}#!/model/model.longtail.fct_answers")
        WebDriverWait(driver, 30).until(
            lambda d: "the prediction contains a gold answer" in d.find_element(By.TAG_NAME, "body").text
        )
        messages = [entry["message"] for entry in driver.get_log("performance")]
    sent = [
        url for m in messages if "requestWillBeSent" in m for url in re.findall(r'"url":"(https?:[^"]+)"', m)
    ]
    assert messages
    assert sent == []
