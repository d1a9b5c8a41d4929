"""The hand-made lake with questions and verbalised passages."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from longtail.questions.build import build_questions
from longtail.retrieval.passages import build_passages
from longtail.storage.lake import Lake
from longtail.study.study import Study


@pytest.fixture
def rdf_text(hand_text: str) -> str:
    """The hand-made study's file, with a source that has no articles."""
    text = hand_text.replace("kind: sandbox, seed: 0, facts_per_relation: 8", "kind: rdf_file")
    return text.replace('page_views, last_month: "2026-10"', "sitelinks")


@pytest.fixture
def rdf_study(make_study: Callable[[str], Study], rdf_text: str) -> Study:
    """The hand-made study with a source that has no articles."""
    return make_study(rdf_text)


@pytest.fixture
def searchable(rdf_study: Study, hand_lake: Lake, log: logging.Logger) -> Lake:
    build_questions(rdf_study, hand_lake, log)
    build_passages(rdf_study, hand_lake, log)
    return hand_lake
