"""NQ-open as the reference of popularity, one line of study.yaml each way of linking: from the file to the marts."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dagster_project.core.sandbox.world import World
from tests.journeys.commands import run_study

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("reference")]

FACTS = 24
MONTHS = ("2026-09", "2026-10")
STUDY = f"""\
name: reference
description: A small world, its questions beside reference questions
source: {{kind: sandbox, seed: 0, facts_per_relation: {FACTS}, snapshot: "2026-10"}}
datasets:
  - name: world
prompts:
  - {{name: zero_shot, format: qa}}
models:
  - {{name: scripted, path: "fake:passage", backend: fake}}
methods: [closed_book, bm25]
popularity: {{last_month: "2026-10", n_months: 2}}
reference_questions:
  - {{name: nq_names, format: nq_open, path: nq.jsonl}}
  - {{name: nq_tagme, format: nq_open, path: nq.jsonl, tagme: {{}}}}
"""


def names_of_one(world: World) -> dict[str, str]:
    """Label → id of the entities that alone bear it, have an article, and are in some fact."""
    stated = {one for triple in world.triples() for one in (triple.subject_id, triple.object_id)}
    bearers: dict[str, set[str]] = {}
    for entity in world.entities():
        for name in (entity.label, *entity.aliases):
            bearers.setdefault(name.casefold(), set()).add(entity.entity_id)
    known = (e for e in world.entities() if e.article_title and e.entity_id in stated)
    return {e.label: e.entity_id for e in known if " " in e.label and len(bearers[e.label.casefold()]) == 1}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[float]]:
    """The published warehouse, and the popularity of each question that names somebody."""
    folder = tmp_path_factory.mktemp("reference")
    world = World(0, FACTS)
    named = list(names_of_one(world).items())[::5]
    questions = [f"who or what was {label.lower()}" for label, _ in named]
    lines = [json.dumps({"question": text, "answer": ["x"]}) for text in [*questions, "nothing at all"]]
    (folder / "nq.jsonl").write_text("\n".join([*lines, "{broken"]), encoding="utf-8")
    (folder / "study.yaml").write_text(STUDY, encoding="utf-8")
    done = run_study(folder / "home", folder / "study.yaml", timeout=1200)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    views = [float(np.mean([world.monthly_views(one, month) or 0 for month in MONTHS])) for _, one in named]
    return folder / "home/reference/published/warehouse.duckdb", views


def test_quantiles_are_those_of_the_world(finished: tuple[Path, list[float]]) -> None:
    path, views = finished
    with duckdb.connect(str(path), read_only=True) as warehouse:
        rows = warehouse.sql(
            "select dataset, n_questions, n_missing, p25, median, maximum from marts.fct_popularity_quantiles"
            " where is_reference order by 1"
        ).fetchall()
    p25, median = np.quantile(views, [0.25, 0.5])
    expected = (len(views) + 1, 1, pytest.approx(p25), pytest.approx(median), pytest.approx(max(views)))
    assert rows == [("nq_names", *expected), ("nq_tagme", *expected)]


def test_distributions_stand_beside_each_other(finished: tuple[Path, list[float]]) -> None:
    path, views = finished
    with duckdb.connect(str(path), read_only=True) as warehouse:
        counts = dict(
            warehouse.sql(
                "select bin, n from marts.fct_popularity_distribution where dataset = 'nq_tagme' and n > 0"
            ).fetchall()
        )
        last = warehouse.sql(
            "select dataset, max(cumulative_share) from marts.fct_popularity_distribution where relation = 'all'"
            " group by 1 order by 1"
        ).fetchall()
        linked = warehouse.sql(
            "select dataset, linker, n_linked, n_no_entity from marts.fct_entity_linking order by 1"
        ).fetchall()
        aside = warehouse.sql(
            "select n from marts.fct_quarantine where table_name = 'reference_questions'"
        ).fetchall()
    bins, numbers = np.unique(np.floor(2 * np.log10(views)), return_counts=True)
    assert counts == dict(zip(bins.astype(int).tolist(), numbers.tolist(), strict=True))
    assert last == [("nq_names", 1.0), ("nq_tagme", 1.0), ("world", 1.0)]
    assert linked == [("nq_names", "names", len(views), 1), ("nq_tagme", "tagme", len(views), 1)]
    assert aside == [(2,)]


def test_popularity_drifts_from_month_to_month(finished: tuple[Path, list[float]]) -> None:
    with duckdb.connect(str(finished[0]), read_only=True) as warehouse:
        rows = warehouse.sql(
            "select month, rank_correlation, share_bin_changed, median_ratio from marts.fct_popularity_drift order by 1"
        ).fetchall()
    assert [row[0] for row in rows] == list(MONTHS)
    for _, correlation, changed, ratio in rows:
        assert 0.9 < correlation < 1
        assert 0 < changed < 0.5
        assert 0.5 < ratio < 2
