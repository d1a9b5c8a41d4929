"""Linking by a TagMe-compatible service, over its real protocol: answers, errors, resuming, and a hidden token."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests

from longtail.errors import SourceError
from longtail.reference.linking import describe_linking, import_reference_questions, link_reference_questions
from longtail.reference.service import article_title, read_annotations
from longtail.sandbox.services import TAGME_PATH, TAGME_TOKEN
from longtail.sandbox.world import World
from longtail.transfer.client import HttpClient
from tests.faults import Fault, FaultyServer, server_error
from tests.longtail.reference.conftest import LOG, Make

SECRET = "a/secret token"


def names(world: World, n: int) -> list[str]:
    """Labels that belong to one article only."""
    labels: dict[str, list[str | None]] = {}
    for entity in world.entities():
        for name in (entity.label, *entity.aliases):
            labels.setdefault(name.casefold(), []).append(entity.article_title)
    alone = [
        name for name, titles in labels.items() if len(titles) == 1 and titles[0] and len(name.split()) > 1
    ]
    return alone[:n]


def tag(server: FaultyServer, **params: str) -> requests.Response:
    return requests.post(f"{server.base_url}{TAGME_PATH}", data=params, timeout=10)


def test_the_sandbox_answers_as_tagme_does(server: FaultyServer, world: World) -> None:
    (name,) = names(world, 1)
    text = f"who was {name} then"
    reply = tag(server, **{"gcube-token": TAGME_TOKEN, "text": text, "lang": "en", "long_text": "3"})
    assert (reply.status_code, reply.json()["api"], reply.json()["lang"]) == (200, "tag", "en")
    (annotation,) = reply.json()["annotations"]
    assert text[annotation["start"] : annotation["end"]] == annotation["spot"] == name
    assert {"rho", "link_probability", "id", "title"} <= set(annotation)
    params = {"gcube-token": TAGME_TOKEN, "text": text}
    assert requests.get(f"{server.base_url}{TAGME_PATH}", params=params, timeout=10).json() == reply.json()
    assert tag(server, **{"gcube-token": "wrong", "text": text}).status_code == 401
    assert tag(server, **{"gcube-token": TAGME_TOKEN}).status_code == 400
    assert tag(server, **{"gcube-token": TAGME_TOKEN, "text": text, "lang": "xx"}).status_code == 400


def test_links_above_the_threshold_and_the_lakes_entity(make: Make, world: World, client: HttpClient) -> None:
    shared = max(
        (e for e in world.entities() if e.kind == "namesake"), key=lambda e: (e.popularity, e.entity_id)
    )
    (alone,) = names(world, 1)
    texts = [f"who is {alone}", f"and {shared.label}", "nobody at all"]
    study, lake = make(texts, tagme={"min_rho": 0.3})
    import_reference_questions(study, lake, LOG)
    outcome = link_reference_questions(study, lake, LOG, client)
    rows = lake.read("reference_mentions").to_pylist()
    ids = {e.article_title: e.entity_id for e in world.entities() if e.kind != "namesake"}
    assert [row["entity_id"] for row in rows] == [ids.get(row["article_title"]) for row in rows]
    assert rows[0]["spot"] == alone
    assert {row["linker"] for row in rows} == {"tagme"}
    assert all(row["rho"] > 0.3 for row in rows)
    assert outcome.notes["nq"]["questions"] == 3
    assert link_reference_questions(study, lake, LOG, client).was_current


@pytest.fixture
def live(make: Make, world: World, server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A study with another server as its live service: six questions, and a token in the environment."""
    monkeypatch.setenv("MY_TOKEN", TAGME_TOKEN)
    texts = [f"who is {name}" for name in names(world, 6)]
    study, lake = make(texts, tagme={"url": f"{server.base_url}{TAGME_PATH}", "token_env": "MY_TOKEN"})
    import_reference_questions(study, lake, LOG)
    return study, lake


def test_a_question_that_failed_temporarily_is_sent_again(
    live: Any, server: FaultyServer, client: HttpClient
) -> None:
    study, lake = live
    server.faults.add(TAGME_PATH, *[Fault(delay_s=0.0)] * 2, *[server_error()] * 3)
    with pytest.raises(
        SourceError, match=r"nq: 1 of 6 questions are not linked yet.*run again.*500"
    ) as caught:
        link_reference_questions(study, lake, LOG, client)
    assert "\n" not in str(caught.value)
    assert lake.partitions("reference_mentions") == lake.partitions("quarantine") == []
    server.requests.clear()
    assert link_reference_questions(study, lake, LOG, client).stamp.n_rows == 6
    assert len(server.requests) == 1, "only the one that failed"


def test_a_question_whose_text_is_refused_is_put_aside_and_counted_as_such(
    live: Any, server: FaultyServer, client: HttpClient
) -> None:
    study, lake = live
    server.faults.add(TAGME_PATH, *[Fault(delay_s=0.0)] * 2, Fault(400, b"text is too long"))
    outcome = link_reference_questions(study, lake, LOG, client)
    assert (outcome.stamp.n_rows, outcome.stamp.n_quarantined) == (5, 1)
    (row,) = lake.read("quarantine", "reference_mentions|all").to_pylist()
    assert row["row_key"] == "nq 3"
    assert "answered 400 (text is too long)" in row["reason"]
    describe_linking(study, lake, LOG)
    (counts,) = lake.read("entity_linking").to_pylist()
    assert (counts["n_questions"], counts["n_linked"]) == (6, 5)
    assert (counts["n_no_entity"], counts["n_put_aside"]) == (0, 1)


def test_a_service_that_is_down_ends_the_run_and_loses_no_link(
    live: Any, server: FaultyServer, client: HttpClient
) -> None:
    study, lake = live
    server.faults.add(TAGME_PATH, *[Fault(delay_s=0.0)] * 2, *[server_error()] * 9)
    with pytest.raises(SourceError, match=r"TagMe service at .* answered 500"):
        link_reference_questions(study, lake, LOG, client)
    server.requests.clear()
    assert link_reference_questions(study, lake, LOG, client).stamp.n_rows == 6
    assert len(server.requests) == 4, "the two that were answered are not asked about again"


def test_linked_questions_are_never_sent_again(
    live: Any, make: Make, world: World, server: FaultyServer, client: HttpClient
) -> None:
    study, lake = live
    link_reference_questions(study, lake, LOG, client)
    server.requests.clear()
    tagme = {"url": f"{server.base_url}{TAGME_PATH}", "token_env": "MY_TOKEN", "min_rho": 0.9}
    study, lake = make([f"who is {name}" for name in names(world, 6)], tagme=tagme)
    assert link_reference_questions(study, lake, LOG, client).stamp.n_rows == 0
    assert not server.requests


def test_a_refused_token_soon_ends_the_run_and_is_not_shown(
    live: Any, server: FaultyServer, client: HttpClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    study, lake = live
    monkeypatch.setenv("MY_TOKEN", SECRET)
    echo = f"no such token: {SECRET}; {quote(SECRET, safe='')} {'x' * 95} {SECRET}".encode()
    for status in (401, 500):
        server.faults.add(TAGME_PATH, *[Fault(status, echo)] * 9)
        server.requests.clear()
        with caplog.at_level(logging.DEBUG), pytest.raises(SourceError, match=f"answered {status}") as caught:
            link_reference_questions(study, lake, LOG, client)
        assert len(server.requests) == (3 if status == 401 else 9)
        server.faults.clear()
        shown = str(caught.value) + caplog.text + "".join(request.path for request in server.requests)
        assert "…" in shown
        assert "a/secr" not in shown
        assert "secret" not in shown
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in path.read_bytes() for path in files)


def test_a_redirect_does_not_receive_the_token(live: Any, server: FaultyServer, client: HttpClient) -> None:
    study, lake = live
    server.faults.add(
        TAGME_PATH, *[Fault(307, b"", headers={"Location": f"{server.base_url}/elsewhere"})] * 3
    )
    with pytest.raises(SourceError, match="answered 307"):
        link_reference_questions(study, lake, LOG, client)
    assert [request.path for request in server.requests] == [TAGME_PATH] * 3


def test_without_a_token_nothing_is_requested(
    live: Any, server: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, lake = live
    monkeypatch.delenv("MY_TOKEN")
    with pytest.raises(SourceError, match="environment variable MY_TOKEN is not set"):
        link_reference_questions(study, lake, LOG)
    assert not server.requests


@pytest.mark.parametrize(
    "document",
    [
        [], {}, {"annotations": {}}, {"annotations": [1]}, {"annotations": [{"title": "T"}]},
        {"annotations": [{"title": "T", "spot": "t", "start": 0, "end": 1, "link_probability": 1, "rho": "high"}]},
        {"annotations": [{"title": "T", "spot": "t", "start": 5, "end": 1, "link_probability": 1, "rho": 1}]},
        {"annotations": [{"title": "T", "spot": "t", "start": 0, "end": 1, "link_probability": 1, "rho": "nan"}]},
    ],
)  # fmt: skip
def test_answers_of_another_shape_are_refused(document: Any) -> None:
    with pytest.raises(SourceError, match="TagMe service at u: answered"):
        read_annotations("u", json.loads(json.dumps(document)))


def test_numbers_as_texts_and_annotations_without_a_title() -> None:
    one = {
        "id": 1,
        "title": "R&amp;B_music",
        "spot": "r&b",
        "start": "0",
        "end": 3,
        "link_probability": "0.5",
        "rho": "0.25",
    }
    (found,) = read_annotations("u", {"annotations": [one, {"spot": "x", "rho": 0.9}]})
    assert (found.title, found.start, found.rho) == ("R&B music", 0, 0.25)
    assert article_title("iPod_touch ") == "iPod touch"
