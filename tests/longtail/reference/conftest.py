"""A study with reference questions over a small sandbox, and a client whose waits take no time."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from longtail.sandbox.world import World, WorldEntity
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.study.study import Study
from longtail.transfer.client import HttpClient
from longtail.transfer.http import RetryPolicy
from tests.fake_time import FakeTime
from tests.faults import FaultyServer

LOG = logging.getLogger("test")
SIZE = 24
MONTHS = ["2026-09", "2026-10"]

Make = Callable[..., tuple[Study, Lake]]


@pytest.fixture(scope="session")
def world() -> World:
    return World(seed=3, facts_per_relation=SIZE)


@pytest.fixture
def server(world: World) -> Iterator[FaultyServer]:
    with FaultyServer(world) as running:
        yield running


@pytest.fixture
def client() -> Iterator[HttpClient]:
    policy = RetryPolicy(attempts=3)
    with HttpClient(policy=policy, clock=FakeTime().clock(), jitter=lambda: 0.0) as running:
        yield running


@pytest.fixture
def make(tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A study whose reference questions are `texts`, and its lake with the entities of its facts."""
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))

    def made(texts: Sequence[str], tagme: dict[str, Any] | None = None, **more: Any) -> tuple[Study, Lake]:
        lines = [json.dumps({"question": text, "answer": ["x"]}) for text in texts]
        (tmp_path / "nq.jsonl").write_text("\n".join(lines), encoding="utf-8")
        reference: dict[str, Any] = {"name": "nq", "format": "nq_open", "path": "nq.jsonl"}
        if tagme is not None:
            reference |= {"tagme": tagme}
        raw = {
            "name": "small", "description": "d", "datasets": [{"name": "world"}], "prompts": [{"name": "plain"}],
            "source": {"kind": "sandbox", "seed": 3, "facts_per_relation": SIZE, "snapshot": "2026-10"},
            "models": [{"name": "fake", "path": "fake:echo", "backend": "fake"}], "methods": ["closed_book"],
            "popularity": {"last_month": "2026-10", "n_months": 2}, "reference_questions": [reference],
        } | more  # fmt: skip
        (tmp_path / "study.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
        lake = Lake(tmp_path / "lake")
        lake.ensure_schemas()
        lake.write(
            "entities", [entity_row(e) for e in world.entities() if e.kind != "namesake"], fingerprint="x"
        )
        return load_study(tmp_path / "study.yaml"), lake

    return made


def entity_row(entity: WorldEntity) -> dict[str, Any]:
    return {
        "entity_id": entity.entity_id, "label": entity.label, "aliases": list(entity.aliases), "description": None,
        "article_title": entity.article_title, "sitelinks": None, "source": "sandbox", "facts_from": None,
    }  # fmt: skip
