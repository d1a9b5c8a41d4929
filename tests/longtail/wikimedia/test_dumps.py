"""Articles from a dump, from the server and from disk."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from longtail.errors import SourceError
from longtail.sandbox.rest import DUMP
from longtail.transfer.downloads import download_dump
from longtail.wikimedia.dumps.articles import ArticleText, read_articles


def test_articles_equal_the_world(world, server, client, log, tmp_path: Path) -> None:
    path = download_dump(client, server.base_url + DUMP, tmp_path / "cache" / "dump.json.gz", log)
    rejected: list[object] = []
    found = [(a.entity_id, a.title, a.text) for a in read_articles(path, rejected.append)]
    assert found == [(entity_id, article.title, article.text) for entity_id, article in world.articles()]
    assert rejected == []


def _line(**fields: object) -> str:
    return json.dumps(fields)


@pytest.mark.parametrize("is_gzip", [True, False])
def test_broken_lines_are_put_aside_by_number(tmp_path: Path, is_gzip: bool) -> None:
    lines = [
        _line(index={"_id": "1"}),
        _line(title="Ada", text="Ada was a writer.", wikibase_item="Q7259", timestamp="2026-10-01T00:00:00Z"),
        _line(index={"_id": "2"}),
        '{"title": "Broken',
        _line(index={"_id": "3"}),
        _line(title="Empty", text="  "),
        "[1, 2]",
        "",
        _line(title="Bob\x00\n", text="Bob is\x07 here."),
    ]
    data = "\n".join(lines).encode()
    path = tmp_path / "dump"
    path.write_bytes(gzip.compress(data) if is_gzip else data)
    rejected = []
    found = list(read_articles(path, rejected.append))
    assert found == [
        ArticleText("Ada", "Ada was a writer.", "Q7259", "2026-10-01T00:00:00Z"),
        ArticleText("Bob", "Bob is here.", None, None),
    ]
    assert [(row.row_key, row.reason) for row in rejected] == [
        ("4", "line is not a JSON object"),
        ("6", "article without title or text"),
        ("7", "line is not a JSON object"),
    ]


def test_a_damaged_or_missing_dump(tmp_path: Path) -> None:
    path = tmp_path / "dump.gz"
    whole = gzip.compress(b"\n".join(_line(title=f"T{n}", text="x" * n).encode() for n in range(2_000)))
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match="damaged gzip file after line"):
        list(read_articles(path, [].append))
    with pytest.raises(SourceError, match=r"absent: cannot be read"):
        list(read_articles(tmp_path / "absent", [].append))
