"""NQ-open as the reference of popularity, one line of study.yaml each way of linking: from the file to the marts."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.sandbox.world import World
from tests.journeys.small_world import FACTS, MONTHS, SEED, Small, named_entities

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("small_study")]


@pytest.fixture(scope="module")
def views() -> list[float]:
    """The popularity of each question that names somebody."""
    world = World(SEED, FACTS)
    return [
        float(np.mean([world.monthly_views(one, month) or 0 for month in MONTHS]))
        for one in named_entities().values()
    ]


def test_quantiles_are_those_of_the_world(small: Small, views: list[float]) -> None:
    with small.published() as warehouse:
        rows = warehouse.sql(
            "select dataset, n_questions, n_missing, p25, median, maximum from marts.fct_popularity_quantiles"
            " where is_reference order by 1"
        ).fetchall()
    p25, median = np.quantile(views, [0.25, 0.5])
    expected = (len(views) + 1, 1, pytest.approx(p25), pytest.approx(median), pytest.approx(max(views)))
    assert rows == [("nq_names", *expected), ("nq_tagme", *expected)]


def test_distributions_stand_beside_each_other(small: Small, views: list[float]) -> None:
    with small.published() as warehouse:
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
        rejected = warehouse.sql(
            "select n from marts.fct_quarantine where table_name = 'reference_questions'"
        ).fetchall()
    bins, numbers = np.unique(np.floor(2 * np.log10(views)), return_counts=True)
    assert counts == dict(zip(bins.astype(int).tolist(), numbers.tolist(), strict=True))
    assert last == [("nq_names", 1.0), ("nq_tagme", 1.0), ("small", 1.0)]
    assert linked == [("nq_names", "names", len(views), 1), ("nq_tagme", "tagme", len(views), 1)]
    assert rejected == [(2,)]


def test_popularity_drifts_from_month_to_month(small: Small) -> None:
    with small.published() as warehouse:
        rows = warehouse.sql(
            "select distinct month, rank_correlation, share_bin_changed, median_ratio"
            " from marts.fct_popularity_drift order by 1"
        ).fetchall()
    assert [row[0] for row in rows] == list(MONTHS)
    for _, correlation, changed, ratio in rows:
        assert 0.9 < correlation < 1
        assert 0 < changed < 1  # its value is a unit test's of dbt: so few subjects change bins easily
        assert 0.5 < ratio < 2
