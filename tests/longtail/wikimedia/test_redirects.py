"""Moved titles and redirects: where they lead, and whose views count under each setting."""

from __future__ import annotations

import functools
import json
from datetime import date

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longtail.errors import SourceError
from longtail.sandbox import services
from longtail.sandbox.dumps import page_view_lines
from longtail.sandbox.world import Pages, World
from longtail.storage.lake import Lake
from longtail.study.source import Popularity
from longtail.wikimedia.articles import Resolved, resolve_titles
from longtail.wikimedia.ingest import ingest_entities, ingest_triples
from longtail.wikimedia.page_views import ingest_page_view_months, views_origin
from tests import faults
from tests.longtail.wikimedia.conftest import empty_lake

API = services.TITLES_PATH
TODAY = date(2026, 11, 20)
SEED, FACTS = 5, 8
SANDBOX = f'kind: sandbox, seed: {SEED}, facts_per_relation: {FACTS}, snapshot: "2026-10"'


def _pages(world: World) -> list[tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
    """For each article: (title in the graph, title now, redirects to the whole article, redirects to a section)."""
    pages = Pages(world)
    return [
        (
            entity.article_title,
            pages.title(entity) or "",
            tuple(sorted(one.title for one in pages.redirects(entity) if one.section is None)),
            tuple(one.title for one in pages.redirects(entity) if one.section),
        )
        for entity in world.entities()
        if entity.article_title
    ]


def test_titles_lead_to_the_current_articles(world, server, client, log) -> None:
    listed = _pages(world)
    titles = [old for old, *_ in listed]
    found = resolve_titles(client, server.base_url + API, titles, log)
    assert found == [Resolved(now) for _, now, *_ in listed]
    assert 0 < sum(old != now for old, now, *_ in listed) < len(listed) / 10
    assert len(server.requests) < len(titles) / 40
    found = resolve_titles(client, server.base_url + API, titles, log, with_redirects=True)
    assert found == [Resolved(now, redirects=redirects) for _, now, redirects, _ in listed]
    assert sum(len(one.redirects) for one in found) > len(found) / 4


def test_redirects_lead_to_articles_and_section_redirects_are_not_followed(
    world, server, client, log
) -> None:
    whole = {title: now for _, now, redirects, _ in _pages(world) for title in redirects}
    sections = [title for *_, titles in _pages(world) for title in titles]
    found = resolve_titles(client, server.base_url + API, [*whole, *sections, "No such page"], log)
    assert [one.title for one in found] == [*whole.values(), *sections, "No such page"]
    assert [one.exists for one in found] == [True] * (len(found) - 1) + [False]


def test_redirects_in_several_answers_are_combined(world, server, client, log, monkeypatch) -> None:
    titles = [old for old, *_ in _pages(world)][:120]
    whole = resolve_titles(client, server.base_url + API, titles, log, with_redirects=True)
    server.requests.clear()
    monkeypatch.setattr(services, "_MOST_REDIRECTS", 7)
    parts = resolve_titles(client, server.base_url + API, titles, log, with_redirects=True)
    assert parts == whole
    assert len(server.requests) > 6


def _answered(server, client, log, document: object, *titles: str) -> list[Resolved]:
    body = json.dumps(document).encode()
    server.faults.add(API, faults.Fault(200, body, "application/json; charset=utf-8"))
    return resolve_titles(client, server.base_url + API, titles, log)


def test_the_apis_answers_to_unusual_titles(server, client, log) -> None:
    """Underscores, decomposed letters, double and circular redirects, other wikis, impossible titles."""
    document = {
        "query": {
            "normalized": [
                {"fromencoded": False, "from": "ada_lovelace", "to": "Ada lovelace"},
                {"fromencoded": True, "from": "E%CC%81lan", "to": "Élan"},
            ],
            "redirects": [
                {"from": "Ada lovelace", "to": "Ada"},
                {"from": "Ada", "to": "Ada Lovelace"},
                {"from": "Left", "to": "Right"},
                {"from": "Right", "to": "Left"},
                {"from": "Away", "to": "Elsewhere", "tointerwiki": "de"},
            ],
            "pages": [
                {"pageid": 974, "ns": 0, "title": "Ada Lovelace"},
                {"pageid": 5, "ns": 0, "title": "Élan"},
                {"pageid": 6, "ns": 0, "title": "Left"},
                {"pageid": 7, "ns": 0, "title": "Right"},
                {"title": "a[b", "invalidreason": "invalid characters", "invalid": True},
                {"ns": 0, "title": "Gone", "missing": True},
            ],
        }
    }
    asked = ["ada_lovelace", "E\u0301lan", "Left", "Away", "a[b", "Gone"]
    found = _answered(server, client, log, document, *asked)
    assert [(one.title, one.exists) for one in found] == [
        ("Ada Lovelace", True),
        ("Élan", True),
        ("Left", True),
        ("Away", True),
        ("a[b", False),
        ("Gone", False),
    ]


def test_an_impossible_title_does_not_lose_its_batch(world, server, client, log) -> None:
    """Titles also come from imported files and from linking services."""
    known = next(now for _, now, *_ in _pages(world))
    titles = ["Foo|Bar", known, "", "a\x1fb", known]
    found = resolve_titles(client, server.base_url + API, titles, log)
    assert [(one.title, one.exists) for one in found] == [
        ("Foo|Bar", False),
        (known, True),
        ("", False),
        ("a\x1fb", False),
        (known, True),
    ]
    assert resolve_titles(client, server.base_url + API, ["|"], log) == [Resolved("|", exists=False)]


def test_a_title_of_another_wiki_has_no_page(server, client, log) -> None:
    document = {
        "query": {
            "normalized": [{"fromencoded": False, "from": "de:berlin_x", "to": "de:berlin x"}],
            "interwiki": [{"title": "de:berlin x", "iw": "de"}],
            "pages": [{"pageid": 974, "ns": 0, "title": "Ada Lovelace"}],
        }
    }
    found = _answered(server, client, log, document, "de:berlin_x", "Ada Lovelace")
    assert found == [Resolved("de:berlin_x", exists=False), Resolved("Ada Lovelace")]


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"query": {"pages": []}}, "answered nothing about the title 'Ada'"),
        ({"error": {"code": "toomanyvalues", "info": "Too many."}}, "toomanyvalues: Too many"),
        ([], "JSON without query"),
        ({"query": {"pages": [7]}}, "JSON without query"),
    ],
)
def test_answers_of_another_shape_are_refused(server, client, log, document: object, says: str) -> None:
    with pytest.raises(SourceError, match=says):
        _answered(server, client, log, document, "Ada")


def test_long_titles_are_asked_for_in_smaller_batches(server, client, log) -> None:
    titles = [f"{number} {'東' * 80}" for number in range(50)]
    found = resolve_titles(client, server.base_url + API, titles, log)
    assert [one.exists for one in found] == [False] * 50
    assert len(server.requests) > 5
    assert max(len(request.path) for request in server.requests) < 8_000


@functools.cache
def _views_by_title(month: str) -> dict[str, int]:
    """Views of the month's dump, by a simple reader."""
    by_title: dict[str, int] = {}
    for line in page_view_lines(World(SEED, FACTS), month):
        project, title, _, _, views, _ = line.split(" ")
        if project == "en.wikipedia":
            name = title.replace("_", " ")
            by_title[name] = by_title.get(name, 0) + int(views)
    return by_title


def _expected(world: World, setting: str, month: str) -> dict[str, int | None]:
    """Views by entity, from the titles that count under this setting."""
    by_title, pages = _views_by_title(month), Pages(world)
    expected: dict[str, int | None] = {}
    for entity in world.entities():
        now = pages.title(entity)
        if now is None or entity.article_title is None:
            continue
        added = [one.title for one in pages.redirects(entity) if one.section is None]
        titles = {"ignore": [entity.article_title], "resolve": [now], "sum": [now, *added]}[setting]
        counts = [by_title[title] for title in titles if title in by_title]
        expected[entity.entity_id] = sum(counts) if counts else None
    return expected


def _titles_now(world: World, lake: Lake) -> list[tuple[dict, str | None]]:
    pages, rows = Pages(world), [row for row in lake.read("entities").to_pylist() if row["article_title"]]
    return [(row, pages.title(world.entity(row["entity_id"]))) for row in rows]


def test_api_and_dumps_give_the_same_views_under_every_setting(make_study, log) -> None:
    world, found = World(SEED, FACTS), {}
    months = ["2020-12", "2021-01", "2026-09"]  # before, amid and after the moves
    study = make_study(SANDBOX)
    lake = empty_lake(study)
    ingest_triples(study, lake, log)
    ingest_entities(study, lake, log)
    moves = sum(row["article_title"] != title for row, title in _titles_now(world, lake))
    for setting in ("ignore", "resolve", "sum"):
        for origin in ("api", "dump"):
            measure = f"page_views, redirects: {setting}"
            study = make_study(
                f"{SANDBOX}, views_from: {origin}", measure=measure, name=f"{setting}_{origin}"
            )
            outcomes = ingest_page_view_months(study, lake, months, log, TODAY)
            assert {one.notes.get("moved", 0) for one in outcomes} == {0 if setting == "ignore" else moves}
            for month in months:
                rows = lake.read("page_views", month).to_pylist()
                expected = _expected(world, setting, month)
                assert {row["entity_id"]: row["views"] for row in rows} == {
                    row["entity_id"]: expected[row["entity_id"]] for row in rows
                }
                assert {(row["redirects"], row["views_from"]) for row in rows} == {(setting, origin)}
                found[setting, origin, month] = [
                    (row["entity_id"], row["views"], row["resolved_title"], row["n_redirects"])
                    for row in rows
                ]
    for setting, origin, month in found:
        assert found[setting, origin, month] == found[setting, "api", month]
    total = {
        setting: sum(row[1] or 0 for row in found[setting, "api", "2026-09"])
        for setting in ("ignore", "resolve", "sum")
    }
    assert total["ignore"] < total["resolve"] < total["sum"]
    assert any(
        row[1] is None for row in found["resolve", "api", "2020-12"]
    )  # the article had another title then
    assert not any(row[1] is None for row in found["sum", "api", "2020-12"])
    assert all(row[2:] == (None, None) for row in found["ignore", "api", "2026-09"])


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10_000), month=st.integers(0, 140))
def test_no_two_pages_share_a_title_and_each_is_found_again(seed: int, month: int) -> None:
    world = World(seed, 8)
    pages, seen = Pages(world), set()
    name = f"{2015 + month // 12}-{month % 12 + 1:02d}"
    for entity in world.entities():
        if entity.article_title is None:
            continue
        titles = {entity.article_title, pages.title(entity), *(one.title for one in pages.redirects(entity))}
        assert not titles & seen
        seen |= titles
        counted = dict(pages.counted(entity, name))
        for title in titles:
            assert pages.views(title, name) == counted.get(title)
            assert pages.lead_to(title)[0] == pages.title(entity)
        assert world.monthly_views(entity.entity_id, name) in counted.values()


def test_a_sum_is_read_from_dumps_earlier(make_study) -> None:
    source = make_study(f"{SANDBOX}, views_from: auto", measure="page_views, redirects: sum").source
    moved, one = Popularity(redirects="sum"), Popularity(redirects="resolve")
    assert [views_origin(source, n, moved) for n in (5_000, 5_001)] == ["api", "dump"]
    assert [views_origin(source, n, one) for n in (20_000, 20_001)] == ["api", "dump"]
    assert views_origin(source, 10**9, Popularity(agent="all")) == "api"
