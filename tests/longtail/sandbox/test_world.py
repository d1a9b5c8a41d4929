"""The sandbox's world: the same for the same seed, streamed at any size, and with the promised properties."""

from __future__ import annotations

import math
from collections import Counter
from hashlib import sha256
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.errors import LongtailError
from longtail.relations.relation import relation_set
from longtail.sandbox.population import NAMESAKE, SHARED_KINDS
from longtail.sandbox.randomness import Permutation, mix, uniform
from longtail.sandbox.rdf import lines
from longtail.sandbox.world import World, WorldEntity

# The world that the shipped weights have memorised. After a change here, train them again.
DEFAULT_WORLD_SHA256 = "e1594b78077e682ccb81766db58ebafdafa1222ce197c8c2a95f7e5720ffbab0"


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture(scope="module")
def named(world: World) -> list[WorldEntity]:
    """The entities that are subjects of questions."""
    return [entity for entity in world.entities() if entity.kind in SHARED_KINDS]


def _digest(world: World) -> str:
    found = sha256()
    for line in lines(world):
        found.update(line.encode())
    for entity_id, article in world.articles():
        found.update(f"{entity_id}\t{article.title}\t{article.text}\n".encode())
    return found.hexdigest()


def test_the_default_world_is_the_one_that_the_weights_were_trained_on(world: World) -> None:
    assert _digest(world) == DEFAULT_WORLD_SHA256


def test_another_seed_is_another_world() -> None:
    assert _digest(World(0, 20)) == _digest(World(0, 20)) != _digest(World(1, 20))


def test_each_relation_has_its_number_of_questions(world: World) -> None:
    facts = list(world.facts())
    assert Counter(fact.relation.name for fact in facts) == {
        relation.name: 140 for relation in relation_set("popqa")
    }
    assert len({(fact.subject_id, fact.relation.name) for fact in facts}) == len(facts)
    several = sum(len(fact.object_ids) > 1 for fact in facts) / len(facts)
    assert 0.07 < several < 0.13
    assert all(len(set(fact.object_ids)) == len(fact.object_ids) >= 1 for fact in facts)


def test_facts_join_the_kinds_of_their_relation(world: World) -> None:
    for fact in world.facts():
        assert world.entity(fact.subject_id).kind in fact.relation.subject_kinds
        assert {world.entity(one).kind for one in fact.object_ids} == {fact.relation.object_kind}
        assert fact.subject_id not in fact.object_ids


def test_facts_of_a_subject_equal_those_in_the_stream(world: World) -> None:
    streamed = {(fact.subject_id, fact.relation.name, fact.object_ids) for fact in world.facts()}
    asked = {
        (fact.subject_id, fact.relation.name, fact.object_ids)
        for entity in world.entities()
        for fact in world.facts_about(entity.entity_id)
    }
    assert asked == streamed


def test_capitals_agree_in_both_directions(world: World) -> None:
    pairs = {(triple.property_id, triple.subject_id, triple.object_id) for triple in world.triples()}
    capitals = {(city, region) for name, region, city in pairs if name == "P36"}
    assert {(city, region) for name, city, region in pairs if name == "P1376"} == capitals


def test_popularity_spans_six_decades(named: list[WorldEntity]) -> None:
    logs = [math.log10(entity.popularity) for entity in named]
    assert max(logs) - min(logs) > 6
    assert 3.2 < sum(logs) / len(logs) < 3.6


def test_popular_names_have_namesakes_more_often(named: list[WorldEntity]) -> None:
    labels = Counter(entity.label for entity in named)
    ranked = sorted(named, key=lambda entity: entity.popularity)
    third = len(ranked) // 3
    shares = [
        sum(labels[one.label] > 1 for one in part) / third for part in (ranked[:third], ranked[-third:])
    ]
    assert shares[1] > shares[0] + 0.15


def test_titles_are_unique_and_distinguish_namesakes(world: World) -> None:
    entities = list(world.entities())
    titles = [entity.article_title for entity in entities if entity.article_title]
    assert len(set(titles)) == len(titles)
    assert sum(title.endswith(")") for title in titles) > 50


def test_article_only_namesakes_have_popular_names_and_facts_outside_the_graph(world: World) -> None:
    entities = list(world.entities())
    popularity = {entity.label: entity.popularity for entity in entities if entity.kind in SHARED_KINDS}
    namesakes = [entity for entity in entities if entity.kind == NAMESAKE]
    assert 100 < len(namesakes) < 300
    for entity in namesakes:
        assert entity.label in popularity
        assert not world.facts_about(entity.entity_id)
        article = world.article(entity.entity_id)
        assert article is not None
        assert article.title == f"{entity.label} ({entity.description})"
    owners = sorted(popularity[entity.label] for entity in namesakes)
    assert owners[len(owners) // 2] > 10 * sorted(popularity.values())[len(popularity) // 2]


def test_a_rare_name_has_no_namesake_entity(world: World) -> None:
    known = {entity.entity_id for entity in world.entities()}
    absent = [
        f"Q{number}"
        for number in range(9_000_000_000, 9_000_000_000 + world.n_entities)
        if f"Q{number}" not in known
    ]
    assert len(known) + len(absent) == world.n_entities
    with pytest.raises(LongtailError, match="no entity"):
        world.entity(absent[0])


def test_entities_without_an_article_have_no_views(world: World) -> None:
    without = [entity for entity in world.entities() if entity.article_title is None]
    assert 0.01 < len(without) / sum(1 for _ in world.entities()) < 0.04
    for entity in without:
        assert world.monthly_views(entity.entity_id, "2025-06") is None
        assert world.article(entity.entity_id) is None


def test_some_months_have_no_views_at_all(world: World, named: list[WorldEntity]) -> None:
    views = [world.monthly_views(entity.entity_id, "2025-06") for entity in named]
    assert 0 < views.count(0) < 50


def test_views_vary_around_popularity_in_any_month(world: World, named: list[WorldEntity]) -> None:
    popular = max(named, key=lambda entity: entity.popularity)
    months = [f"{year}-{month:02d}" for year in (2015, 2025, 2031) for month in range(1, 13)]
    views = [world.monthly_views(popular.entity_id, month) or 0 for month in months]
    assert len(set(views)) == len(views)
    assert sum(views) / len(views) == pytest.approx(popular.popularity, rel=0.25)


@pytest.mark.parametrize("month", ["2025-13", "2025", "25-01", "2025-1", "2025/01", "²025-01"])
def test_a_malformed_month_is_refused(world: World, month: str) -> None:
    entity = next(world.entities())
    with pytest.raises(LongtailError, match="YYYY-MM"):
        world.monthly_views(entity.entity_id, month)


@pytest.mark.parametrize("entity_id", ["Q1", "", "P31", "Q", "Q-9000000000", "Q9999999999"])
def test_an_unknown_entity_is_refused(world: World, entity_id: str) -> None:
    with pytest.raises(LongtailError, match="no entity"):
        world.entity(entity_id)


def test_articles_state_every_fact_after_naming_their_subject(world: World) -> None:
    for entity_id, article in world.articles():
        assert article.text.startswith(world.label_of(entity_id))
        assert 3 <= article.text.count(". ") + 1 <= 5
        assert len(article.text.split()) < 100
        for fact in world.facts_about(entity_id):
            assert all(world.label_of(object_id) in article.text for object_id in fact.object_ids)


def test_names_outside_ascii_have_an_ascii_alias(named: list[WorldEntity]) -> None:
    accented = [entity for entity in named if not entity.label.isascii()]
    assert 0.05 < len(accented) / len(named) < 0.35
    assert all(any(alias.isascii() for alias in entity.aliases) for entity in accented)
    assert any(not alias.isascii() for entity in named if entity.label.isascii() for alias in entity.aliases)


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


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=4))
def test_draws_are_numbers_between_zero_and_one(keys: list[int]) -> None:
    assert 0 < uniform(*keys) < 1
    assert mix(*keys) != mix(*keys, 0)
