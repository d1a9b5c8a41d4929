"""`make ui` serves the report and its answers, and nothing else of the published folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from dagster_project.webserver import _Pages


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("report.html", 200), ("answers.html", 200), ("answers/0a1b.bin", 200), ("docs.html", 404),
        ("warehouse.duckdb", 404),
        ("answers/other.html", 404), ("../secret", 404), ("exports/answers/0a.bin", 404), ("", 404),
    ],
)  # fmt: skip
def test_only_the_pages_and_what_they_load_are_served(path: str, status: int, tmp_path: Path) -> None:
    published = tmp_path / "published"
    for name in ("report.html", "answers.html", "answers/0a1b.bin", "docs.html", "warehouse.duckdb", "answers/other.html",
                 "../secret", "exports/answers/0a.bin"):  # fmt: skip
        (published / name).parent.mkdir(parents=True, exist_ok=True)
        (published / name).write_text("here", encoding="utf-8")
    client = TestClient(Starlette(routes=[Mount("/published", _Pages(directory=published))]))
    assert client.get(f"/published/{path}").status_code == status
