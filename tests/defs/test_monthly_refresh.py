"""The monthly refresh by Dagster: requests and a file for the new month, and no other change in the lake.

`test_definitions` checks which assets the refresh includes; the journey `test_schedule` checks that answers stay.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.journeys.commands import run_python

STUDY = """\
name: live
description: for tests
source: {kind: wikidata, snapshot: "2026-08", views_from: api}
datasets: [{name: all, relations: [occupation, color]}]
prompts: [{name: zero_shot}]
models: [{name: m, path: fake, backend: fake}]
methods: [closed_book]
popularity: {measure: page_views, n_months: 60}
"""
CHILD = """
import json
import dagster as dg
from longtail.sandbox.world import World
from longtail.wikimedia import services
from dagster_project.defs.ingest import entities, page_views, triples
from dagster_project.defs.resources import chosen_study
from dagster_project.defs.resources import StudyResource
from tests.longtail.wikimedia.conftest import LIVE
from tests.faults import FaultyServer

assets, lake = [triples, entities, page_views], chosen_study().home.lake

def materialise(month, selection, instance):
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*.parquet")}
    server.requests.clear()
    done = dg.materialize(
        assets, instance=instance, selection=selection, partition_key=month, resources={"study": StudyResource()}
    )
    changed = [p for p in lake.rglob("*.parquet") if before.get(p) != p.stat().st_mtime_ns]
    return done.success, [r.path for r in server.requests], sorted(str(p.relative_to(lake)) for p in changed)

with FaultyServer(World(3, 8)) as server, dg.DagsterInstance.ephemeral() as instance:
    for name, path in LIVE.items():
        setattr(services, name, server.base_url + path)
    steps = [materialise("2026-08", assets, instance)]
    steps += [materialise("2026-09", [page_views], instance) for _ in range(2)]
    print(json.dumps(steps))
"""


def test_a_refresh_changes_only_the_new_month(tmp_path: Path) -> None:
    (tmp_path / "live.yaml").write_text(STUDY, encoding="utf-8")
    more = {
        "LONGTAIL_HOME": str(tmp_path / "home"),
        "LONGTAIL_STUDY": str(tmp_path / "live.yaml"),
        "LONGTAIL_CONTACT": "mailto:someone@example.org",
    }
    done = run_python("-c", CHILD, env={**os.environ, **more})
    assert done.returncode == 0, done.stderr[-3000:]
    first, refresh, again = json.loads(done.stdout.strip().splitlines()[-1])
    assert [first[0], refresh[0], again[0]] == [True, True, True]
    assert "page_views/2026-08.parquet" in first[2]
    n_articles = sum("/per-article/" in path for path in first[1])
    assert n_articles > 20
    assert len(refresh[1]) == n_articles + -(-n_articles // 50)  # their views, and where their titles lead
    assert sum(path.endswith("/2026090100/2026093000") for path in refresh[1]) == n_articles
    assert refresh[2] == ["page_views/2026-09.parquet"]
    assert again[1:] == [[], []]
