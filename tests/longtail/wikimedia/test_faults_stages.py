"""Whole stages that fail: stopped in the middle, on a full disk, for an incomplete month, for a relation without facts.

A local server's addresses replace Wikimedia's; everything else is as for the live source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo

import pytest

from longtail.errors import LakeError, SourceError
from longtail.sandbox.dumps import literal
from longtail.sandbox.world import World
from longtail.storage.lake import Lake, Outcome
from longtail.study.study import Study
from longtail.wikimedia import page_views
from longtail.wikimedia.ingest import ingest_entities, ingest_triples
from longtail.wikimedia.page_views import ingest_page_view_months
from tests import faults
from tests.faults import FaultyServer
from tests.longtail.wikimedia.conftest import empty_lake
from tests.small_disk import files_up_to

TODAY = date(2026, 11, 20)
MONTHS = ["2025-12", "2026-01"]
STAGES = ("triples", "entities", "page_views")
WIKIDATA = 'kind: wikidata, snapshot: "2026-10"'
WD = "http://www.wikidata.org/entity/"
WDT = "http://www.wikidata.org/prop/direct/"
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"


@pytest.fixture
def make_live(make_study: Callable[..., Study]) -> Callable[..., Study]:
    """Load a live study of these relations."""

    def make(
        home: str = "home", relations: str = "[occupation, father, mother, genre, color, sport]"
    ) -> Study:
        datasets = f"[{{name: first, relations: {relations}}}]"
        return make_study(WIKIDATA, datasets, "page_views, redirects: sum", home=home)

    return make


def _run(stage: str, study: Study, lake: Lake, log) -> list[Outcome]:
    if stage == "page_views":
        return ingest_page_view_months(study, lake, MONTHS, log, TODAY)
    return [(ingest_triples if stage == "triples" else ingest_entities)(study, lake, log)]


def _contents(lake: Lake) -> dict[str, object]:
    return {
        f"{table}/{partition}": lake.read(table, partition).to_pylist()
        for table in (*STAGES, "quarantine")
        for partition in lake.partitions(table)
    }


def test_stopped_in_every_stage_and_resumed(make_live, serve_live, log) -> None:
    """The rows are equal. No request is repeated that was answered before the service refused all others."""
    with FaultyServer(World(5, 12)) as server:
        serve_live(server)
        whole_study = make_live("whole")
        whole, asked = empty_lake(whole_study), {}
        for stage in STAGES:
            server.requests.clear()
            _run(stage, whole_study, whole, log)
            asked[stage] = Counter(request.path for request in server.requests)
        study = make_live("stopped")
        lake = empty_lake(study)
        for stage in STAGES:
            total = asked[stage].total()
            server.requests.clear()
            server.faults.add("", faults.slow(0), times=max(2, total // 2))
            server.faults.add("", faults.Fault(401, b"stop"), times=1_000)
            with pytest.raises(SourceError, match="stop"):
                _run(stage, study, lake, log)
            server.faults.clear()
            assert stage not in {name.split("/")[0] for name in _contents(lake)}
            [*outcomes] = _run(stage, study, lake, log)
            assert not any(outcome.was_current for outcome in outcomes)
            answered = Counter(request.path for request in server.requests if request.status == 200)
            assert answered == asked[stage]
        assert _contents(lake) == _contents(whole)
        assert (
            list((study.home.cache / "unfinished").iterdir()) == []
        )  # removed when the rows are in the lake


def test_two_refreshes_in_a_row(make_live, serve_live, log, world) -> None:
    """The second refresh sends no request. A new month fetches only that month."""
    with FaultyServer(world) as server:
        serve_live(server)
        study = make_live()
        lake = empty_lake(study)
        for stage in STAGES:
            _run(stage, study, lake, log)
        server.requests.clear()
        assert all(outcome.was_current for stage in STAGES for outcome in _run(stage, study, lake, log))
        assert len(server.requests) == 0
        before = {path: path.stat().st_mtime_ns for path in lake.root.rglob("*.parquet")}
        [new] = ingest_page_view_months(study, lake, ["2026-02"], log, TODAY)
        rows = new.stamp.n_rows
        views = [request.path for request in server.requests if "/per-article/" in request.path]
        assert len(views) == len(set(views)) >= rows
        assert all(path.endswith("/monthly/2026020100/2026022800") for path in views)
        assert 0 < len(server.requests) - len(views) <= rows // 50 + 2
        changed = {
            path for path in lake.root.rglob("*.parquet") if before.get(path) != path.stat().st_mtime_ns
        }
        assert changed == {lake.path("page_views", "2026-02")}


def test_a_full_disk_is_one_clear_line_and_leaves_no_partial_file(make_live, serve_live, log) -> None:
    """At several sizes: while answers, the cache, or the lake's own file are written."""
    with FaultyServer(World(5, 8)) as server:
        serve_live(server)
        server.content.store()
        whole_study = make_live("whole")
        whole, said = empty_lake(whole_study), []
        for stage in STAGES:
            _run(stage, whole_study, whole, log)
        study = make_live("full")
        lake = empty_lake(study)
        for stage in STAGES:
            for n_bytes in (100, 3_000, 9_000, 40_000):
                try:
                    with files_up_to(n_bytes):
                        _run(stage, study, lake, log)
                except LakeError as error:
                    said.append(str(error))
                assert not list(lake.root.rglob(".staging/*"))
            _run(stage, study, lake, log)
        assert _contents(lake) == _contents(whole)
    assert len(said) > 5
    assert all("what was there is unchanged" in line and "\n" not in line for line in said)


class _Evening(datetime):
    """The evening of the second in UTC, when it is the third in Kiritimati, where the machine is."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime(2026, 3, 2, 23, 30, tzinfo=UTC).astimezone(tz or timezone(timedelta(hours=14)))


def test_a_month_ends_in_utc(make_live, log, monkeypatch) -> None:
    monkeypatch.setattr(page_views, "datetime", _Evening)
    study = make_live()
    with pytest.raises(
        SourceError, match="month 2026-02 is refused; complete months here are 2015-07 to 2026-01"
    ):
        ingest_page_view_months(study, empty_lake(study), ["2026-02"], log)


def test_a_relation_without_facts_is_counted_and_is_no_error(make_live, serve_live, log, serve_rdf) -> None:
    server = serve_rdf(
        f"<{WD}Q1> {LABEL} {literal('Ada')} .",
        f"<{WD}Q1> <{WDT}P106> <{WD}Q10> .",
        f"<{WD}Q10> {LABEL} {literal('writer')} .",
    )
    serve_live(server)
    study = make_live(relations="[occupation, capital]")
    lake = empty_lake(study)
    [triples], [entities] = (_run(stage, study, lake, log) for stage in ("triples", "entities"))
    assert triples.notes["triples"] == {"occupation": 1, "capital": 0}
    assert (triples.stamp.n_rows, entities.stamp.n_rows) == (1, 2)
    assert entities.notes["without_article"] == 2
    [views] = ingest_page_view_months(study, lake, ["2026-02"], log, TODAY)
    assert (views.stamp.n_rows, views.notes["articles"]) == (0, 0)
