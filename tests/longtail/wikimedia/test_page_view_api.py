"""Monthly page views: those of the world, unusual titles, and missing views."""

from __future__ import annotations

from datetime import date

import pytest

from longtail.errors import SourceError
from longtail.sandbox.world import Pages
from longtail.storage.lake import QuarantinedRow
from longtail.study.source import newest_complete_month, window
from longtail.wikimedia.articles import fetch_page_views, per_article_url
from longtail.wikimedia.ingest import ingest_entities, ingest_triples
from longtail.wikimedia.page_views import ingest_page_view_months
from tests import faults
from tests.longtail.wikimedia.conftest import empty_lake

ROUTE = "/api/rest_v1/metrics/pageviews/per-article"
ODD_TITLES = [
    "AC/DC",
    "Who's Afraid of Virginia Woolf?",
    "100% Wolf",
    "C# (language)",
    "A+B & C=D; E",
    "Ångström",
    "東京",
    "👩🏽‍🚀",
    "Trailing dot.",
    "...And Justice",
    "a%2Fb",
    '"Quoted" \\ back',
]


class _OddTitles(Pages):
    """Articles with unusual titles; the number of views is the title's position, from 0."""

    def views(self, title: str, month: str) -> int | None:
        return ODD_TITLES.index(title) if title in ODD_TITLES and month != "2026-02" else None


def test_views_equal_the_world(world, server, client, log) -> None:
    entities = [entity for entity in world.entities() if entity.article_title]
    titles = [Pages(world).title(entity) for entity in entities]
    months = ["2026-01", "2026-02", "2025-12"]
    found = fetch_page_views(client, server.base_url + ROUTE, titles, months, log)
    assert found == [
        {month: world.monthly_views(entity.entity_id, month) for month in sorted(months)}
        for entity in entities
    ]
    assert len(server.requests) == len(titles)


def test_all_agents_of_one_month_are_counted_as_popqa_did_and_every_row_says_so(make_study, log) -> None:
    """PopQA's popularity: agent all, October 2021. The default: users, the mean of twelve months."""
    source = 'kind: sandbox, seed: 5, facts_per_relation: 8, snapshot: "2026-10"'
    months = [f"2020-{n}" for n in (11, 12)] + [f"2021-{n:02}" for n in range(1, 11)]
    rows = {}
    for agent, asked in (("user", months), ("all", months[-1:])):
        measure = f'page_views, agent: {agent}, n_months: {len(asked)}, last_month: "2021-10"'
        study = make_study(source, measure=measure, name=agent)
        assert list(window(study)) == asked
        lake = empty_lake(study)
        ingest_triples(study, lake, log)
        ingest_entities(study, lake, log)
        assert len(ingest_page_view_months(study, lake, asked, log)) == len(asked)
        rows[agent] = lake.read("page_views", asked[-1]).sort_by("entity_id")
        assert set(rows[agent]["agent"].to_pylist()) == {agent}
        assert {o.was_current for o in ingest_page_view_months(study, lake, asked, log)} == {True}
    pairs = list(zip(*(rows[agent]["views"].to_pylist() for agent in ("user", "all")), strict=True))
    assert len(pairs) > 80
    assert all((a is None) == (b is None) and (a is None or b > a) for a, b in pairs)


def test_odd_titles_zero_and_missing(world, server, client, log) -> None:
    server.content.pages = _OddTitles(world)
    titles = [*ODD_TITLES, "No such article"]
    found = fetch_page_views(client, server.base_url + ROUTE, titles, ["2026-01", "2026-02"], log)
    assert [views["2026-01"] for views in found] == [*range(len(ODD_TITLES)), None]
    assert found[0]["2026-01"] == 0  # zero views are views
    assert all(views["2026-02"] is None for views in found)


def test_a_title_without_an_address_is_put_aside(server, client, log) -> None:
    server.faults.add(ROUTE, faults.Fault(400, b"invalid title"))
    rejected: list[QuarantinedRow] = []
    titles = [".", "..", "bad"]
    found = fetch_page_views(client, server.base_url + ROUTE, titles, ["2026-03"], log, rejected)
    assert found == [{"2026-03": None}] * 3
    assert [row.row_key for row in rejected] == titles
    assert "answered 400 (invalid title)" in rejected[2].reason
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "row",
    [
        b'{"views": 3}',
        b'{"timestamp": "2026030100", "views": -3}',
        b'{"timestamp": "2026030100", "views": 1e999}',
        b'{"timestamp": "2026030100", "views": 1' + b"0" * 400 + b"}",
    ],
)
def test_json_of_another_shape_is_refused(server, client, log, row: bytes) -> None:
    server.faults.add(ROUTE, faults.Fault(200, b'{"items": [' + row + b"]}", "application/json"))
    with pytest.raises(SourceError, match="without items, timestamps and views"):
        fetch_page_views(client, server.base_url + ROUTE, ["actor"], ["2026-03"], log)


def test_the_request_covers_whole_months() -> None:
    url = per_article_url("http://host/per-article", "AC/DC live", "2023-12", "2024-02")
    assert url == (
        "http://host/per-article/en.wikipedia/all-access/user/AC%2FDC_live/monthly/2023120100/2024022900"
    )
    as_popqa = per_article_url("http://host", "Q", "2021-10", "2021-10", "all")
    assert as_popqa == "http://host/en.wikipedia/all-access/all-agents/Q/monthly/2021100100/2021103100"


@pytest.mark.parametrize(
    ("today", "month"),
    [
        (date(2026, 11, 1), "2026-09"),
        (date(2026, 11, 2), "2026-09"),
        (date(2026, 11, 3), "2026-10"),
        (date(2026, 11, 30), "2026-10"),
        (date(2026, 1, 2), "2025-11"),
        (date(2026, 1, 3), "2025-12"),
        (date(2026, 3, 1), "2026-01"),
    ],
)
def test_the_newest_complete_month(today: date, month: str) -> None:
    assert newest_complete_month(today) == month
