"""The dump of articles that a server of the sandbox offers."""

from __future__ import annotations

from pathlib import Path

from longtail.imports.formats.collections.cirrus_search import read_articles
from longtail.parsing.line_files import RejectedRows
from longtail.sandbox.services import DUMP
from longtail.transfer.downloads import download_dump


def test_articles_equal_the_world(world, server, client, log, tmp_path: Path) -> None:
    path = download_dump(client, server.base_url + DUMP, tmp_path / "cache" / "dump.json.gz", log)
    rejected = RejectedRows("dump")
    found = [(one.entity_id, one.title, one.text) for one in read_articles(path, rejected)]
    assert found == [(entity_id, article.title, article.text) for entity_id, article in world.articles()]
    assert rejected.rows == []
