"""Real Wikipedia passages, read as a study of PopQA names them: no row is lost without a reason."""

from __future__ import annotations

import gzip
import json
import logging
from collections import Counter
from pathlib import Path

import pytest

from longtail.imports.datasets import import_entities
from longtail.retrieval.passages import build_passages
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from tests.real_data import REAL_DATA, needs_real_data

STUDY = """
name: real
description: Real passages
datasets: [{name: popqa, import: {format: popqa, path_env: DATA, path: popqa/popQA.tsv.gz}}]
prompts: [{name: plain}]
models: [{name: fake, path: "fake:echo", backend: fake}]
methods: [bm25, oracle]
popularity: {measure: imported}
collections:
  - {name: psgs, format: dpr, path_env: DATA, path: wikipedia/psgs_w100_sample.tsv.gz, source: W, date: 2018-12-20,
     licence: CC BY-SA 3.0}
  - {name: leads, format: articles, path_env: DATA, path: wikipedia/leads.jsonl.gz, source: W, date: unknown,
     licence: CC BY-SA 4.0}
  - {name: openings, format: articles, path_env: DATA, path: popqa/paragraphs.jsonl.gz, source: W, date: unknown,
     licence: CC BY-SA 4.0}
"""


def articles(name: str) -> dict[str, list[str]]:
    """The words of each article of a file."""
    with gzip.open(REAL_DATA / name, "rt", encoding="utf-8") as stream:
        return {row["title"]: row["text"].split() for row in map(json.loads, stream)}


@needs_real_data
def test_three_real_collections_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DATA", str(REAL_DATA))
    path = tmp_path / "real.yaml"
    path.write_text(STUDY, encoding="utf-8")
    study, log = load_study(path), logging.getLogger("test")
    lake = Lake(study.home.lake)
    lake.write("entities", [], fingerprint="none")
    import_entities(study, lake, log)
    outcome = build_passages(study, lake, log)

    rows = lake.read("passages").to_pylist()
    assert len({row["passage_id"] for row in rows}) == len(rows)
    assert Counter(row["collection"] for row in rows) == {"psgs": 7_816, "leads": 11_720, "openings": 2_914}
    rejected = lake.read("quarantine", "passages|all").to_pylist()
    assert Counter(row["reason"].partition(" ")[0] for row in rejected) == {"title:": 1, "kept": 3}
    assert outcome.notes["collections"]["psgs"]["rows rejected"] == 1

    kept_once = {
        row["row_key"].rpartition(" ")[2] for row in rejected if row["reason"].startswith("kept once")
    }
    for collection, name in (
        ("leads", "wikipedia/leads.jsonl.gz"),
        ("openings", "popqa/paragraphs.jsonl.gz"),
    ):
        found: dict[str, list[str]] = {}
        for row in rows:
            if row["collection"] == collection:
                found.setdefault(row["title"], []).extend(row["text"].split())
        written = articles(name)
        differ = [title for number, title in enumerate(written, 1) if found.get(title) != written[title]]
        numbers = {str(number) for number, title in enumerate(written, 1) if title in differ}
        assert numbers <= (kept_once if collection == "openings" else set())

    titles = {row["entity_id"]: row["article_title"] for row in lake.read_all("entities").to_pylist()}
    linked = [row for row in rows if row["entity_id"]]
    assert Counter(row["collection"] for row in linked)["openings"] > 2_500
    assert all(titles[row["entity_id"]] == row["title"] for row in linked)
