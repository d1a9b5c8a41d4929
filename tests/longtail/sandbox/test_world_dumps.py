"""The sandbox's dumps: one content in three forms, from files and from the server, in the form of the real dumps."""

from __future__ import annotations

import bz2
import gzip
import re
import urllib.error
import urllib.request
from pathlib import Path

import pyoxigraph as ox
import pytest

from longtail.errors import LongtailError
from longtail.sandbox.dumps import SUFFIXES, page_view_lines, truthy_lines, write_dump
from longtail.sandbox.server import SandboxServer
from longtail.sandbox.world import World

OPEN = {"": bytes, ".gz": gzip.decompress, ".bz2": bz2.decompress}
TRUTHY = "/wikidatawiki/entities/latest-truthy.nt"


@pytest.fixture(scope="module")
def world() -> World:
    return World(seed=4, facts_per_relation=30)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_one_content_in_three_forms(world: World, tmp_path: Path, suffix: str) -> None:
    expected = "".join(truthy_lines(world)).encode()
    path = write_dump(truthy_lines(world), tmp_path / "new" / f"facts.nt{suffix}")
    assert OPEN[suffix](path.read_bytes()) == expected
    with SandboxServer(world) as server:
        assert OPEN[suffix](urllib.request.urlopen(f"{server.base_url}{TRUTHY}{suffix}").read()) == expected
        url = f"{server.base_url}/other/pageview_complete/monthly/2026/2026-03/pageviews-202603-user{suffix}"
        assert OPEN[suffix](urllib.request.urlopen(url).read()).decode() == "".join(
            page_view_lines(world, "2026-03")
        )


def test_large_bzip2_files_have_many_streams(tmp_path: Path) -> None:
    path = write_dump(truthy_lines(World(0, 140)), tmp_path / "facts.nt.bz2")
    data = path.read_bytes()
    assert len(re.findall(rb"BZh91AY&SY", data)) > 1
    assert len(bz2.decompress(data)) > 900_000


@pytest.mark.parametrize(
    "path", ["2026/2026-13/pageviews-202613-user.bz2", "2026/2025-03/pageviews-202603-user.bz2"]
)
def test_an_unknown_dump_is_404(world: World, path: str) -> None:
    with SandboxServer(world) as server, pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{server.base_url}/other/pageview_complete/monthly/{path}")


def test_the_truthy_dump_has_the_facts_and_terms_but_no_articles(world: World) -> None:
    text = "".join(truthy_lines(world))
    assert text.isascii()
    assert re.search(r"\\u00[0-9A-F]{2}", text)
    quads = list(ox.parse(text.encode(), format=ox.RdfFormat.N_TRIPLES))
    predicates = {quad.predicate.value for quad in quads}
    direct = "http://www.wikidata.org/prop/direct/"
    assert sum(name.value.startswith(direct) for name in (quad.predicate for quad in quads)) == sum(
        1 for _ in world.triples()
    )
    assert "http://wikiba.se/ontology#sitelinks" not in predicates
    assert not any("wikipedia.org" in str(quad.subject) for quad in quads)
    subjects = [quad.subject.value for quad in quads if quad.predicate.value.endswith("#label")]
    assert subjects == [f"http://www.wikidata.org/entity/{entity.entity_id}" for entity in world.entities()]


def test_page_view_lines_have_the_real_shape(world: World) -> None:
    line = re.compile(r"[a-z.]+ \S+ (\d+|null) (desktop|mobile-web|mobile-app) \d+ ([A-Z]\d+)+\n")
    lines = list(page_view_lines(world, "2026-03"))
    assert [text for text in lines if not line.fullmatch(text)] == []
    projects = [text.split(" ", 1)[0] for text in lines]
    assert projects == sorted(projects)
    assert {"en.wikipedia", "en.wikipedia.m", "de.wikipedia"} <= set(projects)
    days = [sum(map(int, re.findall(r"[A-Z](\d+)", text.split()[5]))) for text in lines]
    assert days == [int(text.split()[4]) for text in lines]


def test_a_month_of_another_form_is_refused(world: World) -> None:
    with pytest.raises(LongtailError, match="month 'March' is not of the form YYYY-MM"):
        list(page_view_lines(world, "March"))
