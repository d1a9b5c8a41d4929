"""The documentation page: of the published build, without the network, made again only where the project changed."""

from __future__ import annotations

import logging
import re
import subprocess
from pathlib import Path

import pytest

from longtail.errors import PublishError
from longtail.storage.checksums import record_files
from longtail.storage.home import PROJECT_ROOT
from longtail.study.study import Study
from longtail.tables import TABLES
from longtail.warehouse import build
from longtail.warehouse.docs import _page_of, publish_docs
from longtail.warehouse.publication import read_publication, record_of
from tests.browser import chromium
from tests.flipped_bits import flip_bit
from tests.lakes import make_study
from tests.warehouses import OWN_PREFIX, UNANSWERED, documentation, published_study

LOG = logging.getLogger(__name__)
pytestmark = pytest.mark.xdist_group("warehouse_docs")


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Study:
    return published_study(UNANSWERED, monkeypatch)


def test_before_a_publication_there_is_nothing_to_document(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    with pytest.raises(PublishError, match="run `make run "):
        publish_docs(make_study(tmp_path, UNANSWERED), LOG)


def test_the_page_is_of_the_published_build_and_gives_no_path_away(study: Study) -> None:
    text = documentation().read_text(encoding="utf-8")
    published = read_publication(study.home.published_warehouse)
    assert f'name="longtail:dbt-invocation-id" content="{published.invocation_id}"' in text
    assert "The warehouse of Longtail" in text
    assert OWN_PREFIX not in text  # which is in the path of every home that may have made it
    assert OWN_PREFIX in str(study.home.root)
    assert str(PROJECT_ROOT) not in text
    assert not re.search(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="?https?:', text)


def test_a_current_page_is_written_again_and_not_made_again(study: Study) -> None:
    page = documentation()
    text, inode = page.read_text(encoding="utf-8"), page.stat().st_ino
    again = publish_docs(study, LOG)
    assert not again.was_made
    assert again.path.read_text(encoding="utf-8") == text
    assert again.path.stat().st_ino != inode


def test_a_page_that_was_cut_or_damaged_is_made_again(tmp_path: Path) -> None:
    page, target = '<html><meta name="longtail:inputs" content="ab12"><p>é</p></html>', tmp_path / "docs.html"
    assert _page_of(target, "ab12") is None
    target.write_text(page, encoding="utf-8")
    assert _page_of(target, "ab12") is None, "nothing says how it was written"
    record_files(record_of(target), [target])
    assert _page_of(target, "ab12") == page
    assert _page_of(target, "cd34") is None
    whole = target.read_bytes()
    for n_bytes in range(len(whole)):
        target.write_bytes(whole[:n_bytes])
        assert _page_of(target, "ab12") is None
        target.write_bytes(whole)
        flip_bit(target, n_bytes / len(whole))
        assert _page_of(target, "ab12") is None


def test_what_dbt_says_of_a_full_disk_is_one_line(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "IO Error: No space left on device\n" * 300
    monkeypatch.setattr(build, "dbt_command", lambda *_: subprocess.CompletedProcess([], 2, said, ""))
    with pytest.raises(
        PublishError, match=r"^dbt parse: .*: the disk is full .*make room and run again"
    ) as caught:
        build.require_dbt(study, "parse")
    assert "\n" not in str(caught.value)


def test_a_browser_opens_it_from_the_disk_and_nothing_is_fetched(tmp_path: Path) -> None:
    with chromium(tmp_path / "profile", "the page was not looked at", logs="performance") as driver:
        from selenium.webdriver.common.by import By
        from selenium.webdriver.support.ui import WebDriverWait

        driver.get(f"{documentation().as_uri()}#!/model/model.longtail.fct_answers")
        WebDriverWait(driver, 30).until(
            lambda d: "the prediction contains a gold answer" in d.find_element(By.TAG_NAME, "body").text
        )
        driver.get(f"{documentation().as_uri()}#!/source/source.longtail.lake.answers")
        columns = TABLES["answers"].columns
        WebDriverWait(driver, 30).until(
            lambda d: columns[-1].description in d.find_element(By.TAG_NAME, "body").text
        )
        source = driver.find_element(By.TAG_NAME, "body").text
        messages = [entry["message"] for entry in driver.get_log("performance")]
    sent = [
        url for m in messages if "requestWillBeSent" in m for url in re.findall(r'"url":"(https?:[^"]+)"', m)
    ]
    assert messages
    assert sent == []
    assert [one.name for one in columns if not {one.name, one.description} <= {*source.splitlines()}] == []
