"""A sampled study on a small sandbox world, stage by stage, over the protocols that the services speak."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from datetime import date

import pytest

from longtail.questions.build import build_paraphrases, build_questions
from longtail.questions.sampling import measure_frequencies, sample_facts
from longtail.sandbox.world import Pages, World
from longtail.storage.lake import Lake, Outcome
from longtail.study.study import Study
from longtail.wikimedia.ingest import ingest_entities, ingest_triples
from longtail.wikimedia.page_views import ingest_page_view_months

FACTS, KEPT = 24, 6
TODAY = date(2026, 11, 20)
SAMPLE = f', sample: {{frequency: popularity, month: "2026-09", per_relation: {KEPT}}}'
STUDY = f"""
name: sampled_world
description: d
source: {{kind: sandbox, seed: 3, facts_per_relation: {FACTS}, snapshot: "2026-10"{SAMPLE}}}
datasets: [{{name: facts}}, {{name: fathers, relations: [father], max_questions_per_relation: 2}}]
prompts: [{{name: zero_shot, generations: [questions, paraphrases]}}]
models: [{{name: tiny, path: nowhere, backend: fake}}]
methods: [closed_book, bm25]
popularity: {{measure: page_views, last_month: "2026-10", redirects: ignore}}
"""
Run = Callable[[str], tuple[Study, Lake, list[Outcome]]]


def run(study: Study, lake: Lake, log: logging.Logger) -> list[Outcome]:
    """The stages from facts to questions, and the page views of another month than the sample's."""
    done = [ingest_triples(study, lake, log), ingest_entities(study, lake, log)]
    done += [measure_frequencies(study, lake, log, TODAY), sample_facts(study, lake, log)]
    done += [build_questions(study, lake, log), build_paraphrases(study, lake, log)]
    return done + ingest_page_view_months(study, lake, ["2026-08"], log, TODAY)


@pytest.fixture
def sampled(make_study: Callable[[str], Study], log: logging.Logger) -> tuple[Study, Lake, list[Outcome]]:
    study = make_study(STUDY)
    lake = Lake(study.home.lake)
    lake.ensure_schemas()
    return study, lake, run(study, lake, log)


def test_what_is_kept_is_asked_with_every_answer_and_counted(
    sampled: tuple[Study, Lake, list[Outcome]], log: logging.Logger
) -> None:
    study, lake, first = sampled
    world = World(3, FACTS)
    pages = Pages(world)
    rows = lake.read("candidate_triples").to_pylist()
    assert {(r["subject_id"], r["property_id"], r["object_id"]) for r in rows} == {
        (t.subject_id, t.property_id, t.object_id) for t in world.triples()
    }
    kept = [row for row in rows if row["outcome"] == "kept"]
    assert max(Counter(row["relation"] for row in kept).values()) == KEPT
    for row in rows:
        title = world.entity(row["subject_id"]).article_title
        views = pages.views(title, "2026-09") if title else None
        assert row["popularity"] == views
        assert (row["outcome"] == "no_frequency") == (views is None)
    asked = {(row["subject_id"], row["relation"]) for row in kept}
    questions = [q for q in lake.read("questions").to_pylist() if q["dataset"] == "facts"]
    assert {(q["subject_id"], q["relation"]) for q in questions} == asked
    answers = {(f.subject_id, f.relation.name): sorted(f.object_ids) for f in world.facts()}
    assert all(q["object_ids"] == answers[q["subject_id"], q["relation"]] for q in questions)
    fathers = [q["question_id"] for q in lake.read("questions").to_pylist() if q["dataset"] == "fathers"]
    assert len(fathers) == 2
    assert set(fathers) <= {q["question_id"] for q in questions}

    fetched = {row["entity_id"] for row in lake.read("page_views", "2026-08").to_pylist()}
    needed = {q["subject_id"] for q in questions} | {o for q in questions for o in q["object_ids"]}
    assert fetched == {entity for entity in needed if world.entity(entity).article_title}
    assert len(fetched) < lake.read("entities").num_rows / 2
    assert [outcome.was_current for outcome in first] == [False] * 7
    assert [outcome.was_current for outcome in run(study, lake, log)] == [True] * 7
