"""The sandbox's world: the same for the same seed, streamed at any size, and with the promised properties."""

from __future__ import annotations

import bz2
import re
from hashlib import sha256
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.generated_wiki import write_dump
from longtail.errors import LongtailError
from longtail.sandbox.dumps import page_view_lines, triple_lines, truthy_lines
from longtail.sandbox.population import Permutation
from longtail.sandbox.world import Pages, World

# The world that the shipped weights have memorised. After a change here, train them again.
DEFAULT_WORLD_SHA256 = "e1594b78077e682ccb81766db58ebafdafa1222ce197c8c2a95f7e5720ffbab0"

DEFAULT_VIEWS_SHA256 = "9e44abe9468954cf021640ee6b1ba9c5c2991779df57162fda716393804b0b36"


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def _digest(world: World) -> str:
    found = sha256()
    for line in triple_lines(world):
        found.update(line.encode())
    for entity_id, article in world.articles():
        found.update(f"{entity_id}\t{article.title}\t{article.text}\n".encode())
    return found.hexdigest()


def test_the_default_world_is_the_one_that_the_weights_were_trained_on(world: World) -> None:
    assert _digest(world) == DEFAULT_WORLD_SHA256


def test_its_page_views_are_those_that_its_published_numbers_rest_on(world: World) -> None:
    pages, digest = Pages(world), sha256()
    for entity in world.entities():
        for month in ("2020-01", "2025-06"):
            for title, views in pages.counted(entity, month):
                digest.update(f"{month}\t{title}\t{views}\n".encode())
    assert digest.hexdigest() == DEFAULT_VIEWS_SHA256


def test_another_seed_is_another_world() -> None:
    assert _digest(World(0, 20)) == _digest(World(0, 20)) != _digest(World(1, 20))


def test_facts_of_a_subject_equal_those_in_the_stream(world: World) -> None:
    streamed = {(fact.subject_id, fact.relation.name, fact.object_ids) for fact in world.facts()}
    asked = {
        (fact.subject_id, fact.relation.name, fact.object_ids)
        for entity in world.entities()
        for fact in world.facts_about(entity.entity_id)
    }
    assert asked == streamed


@pytest.mark.parametrize("month", ["2025-13", "2025", "25-01", "2025-1", "2025/01", "²025-01"])
def test_a_malformed_month_is_refused(world: World, month: str) -> None:
    entity = next(world.entities())
    with pytest.raises(LongtailError, match="YYYY-MM"):
        world.monthly_views(entity.entity_id, month)


@pytest.mark.parametrize("entity_id", ["Q1", "", "P31", "Q", "Q-9000000000", "Q9999999999"])
def test_an_unknown_entity_is_refused(world: World, entity_id: str) -> None:
    with pytest.raises(LongtailError, match="no entity"):
        world.entity(entity_id)


def test_a_world_of_a_million_facts_answers_at_once() -> None:
    large = World(7, 62_500)
    assert large.n_entities > 700_000
    assert all(large.entity(fact.subject_id) for fact in islice(large.facts(), 50))


@given(st.integers(1, 10_000), st.integers(0, 2**64 - 1))
def test_permutations_go_back_and_forth(size: int, key: int) -> None:
    permutation = Permutation(size, key)
    places = range(0, size, max(1, size // 50))
    assert [permutation.backward(permutation.forward(place)) for place in places] == list(places)
    assert all(0 <= permutation.forward(place) < size for place in places)


def test_large_bzip2_files_have_many_streams(tmp_path: Path) -> None:
    path = write_dump(truthy_lines(World(0, 140)), tmp_path / "facts.nt.bz2")
    data = path.read_bytes()
    assert len(re.findall(rb"BZh91AY&SY", data)) > 1
    assert len(bz2.decompress(data)) > 900_000


def test_page_view_lines_have_the_real_shape() -> None:
    line = re.compile(r"[a-z.]+ \S+ (\d+|null) (desktop|mobile-web|mobile-app) \d+ ([A-Z]\d+)+\n")
    lines = list(page_view_lines(World(seed=4, facts_per_relation=30), "2026-03"))
    assert [text for text in lines if not line.fullmatch(text)] == []
    projects = [text.split(" ", 1)[0] for text in lines]
    assert projects == sorted(projects)
    assert {"en.wikipedia", "en.wikipedia.m", "de.wikipedia"} <= set(projects)
    days = [sum(map(int, re.findall(r"[A-Z](\d+)", text.split()[5]))) for text in lines]
    assert days == [int(text.split()[4]) for text in lines]
