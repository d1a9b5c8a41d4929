"""The sandbox server as a client sees it: forms of answers and errors, start and end."""

from __future__ import annotations

import http.client
import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longtail.errors import LongtailError
from longtail.parsing.rdf import ENTITY, SITELINKS
from longtail.sandbox.server import Handler, SandboxServer
from longtail.sandbox.world import World


@pytest.fixture(scope="module")
def world() -> World:
    return World(seed=2, facts_per_relation=16)


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[SandboxServer]:
    with SandboxServer(world) as running:
        yield running


def _get(url: str) -> tuple[int, str, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.status, response.headers["Content-Type"], response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read()


def _sparql(server: SandboxServer, query: str) -> tuple[int, str, bytes]:
    return _get(f"{server.base_url}/sparql?{urllib.parse.urlencode({'query': query})}")


def _api(server: SandboxServer, **params: str) -> Any:
    fixed = {"action": "wbgetentities", "format": "json", "languages": "en|de", "sitefilter": "enwiki|dewiki"}
    every = {"props": "labels|aliases|descriptions|sitelinks"}
    query = urllib.parse.urlencode({**fixed, **every, **params})
    status, kind, body = _get(f"{server.base_url}/w/api.php?{query}")
    assert (status, kind) == (200, "application/json; charset=utf-8")
    return json.loads(body)


def test_sparql_by_get_and_post(server: SandboxServer) -> None:
    query = f"SELECT ?n WHERE {{ <{ENTITY}Q9000000001> <{SITELINKS}> ?n }}"
    status, kind, by_get = _sparql(server, query)
    assert (status, kind) == (200, "application/sparql-results+json;charset=utf-8")
    form = urllib.parse.urlencode({"query": query}).encode()
    assert urllib.request.urlopen(f"{server.base_url}/sparql", form).read() == by_get
    (row,) = json.loads(by_get)["results"]["bindings"]
    assert row["n"]["datatype"] == "http://www.w3.org/2001/XMLSchema#integer"
    assert row["n"]["type"] == "literal"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT",
        "INSERT DATA { <http://a/> <http://b/> <http://c/> }",
        "ASK {}",
        "",
        "SELECT * { SERVICE<http://127.0.0.1:1/>{ ?s ?p ?o } }",
        "SELECT * { # comment\nservice SILENT <http://127.0.0.1:1/> { ?s ?p ?o } }",
        "SELECT * { \\u0053ERVICE <http://127.0.0.1:1/> { ?s ?p ?o } }",
        "SELECT*{?s ?p ?x FILTER('<'!=?x)SERVICE?x{}FILTER('>'!=?x)}",
    ],
)
def test_a_malformed_or_refused_query_is_400(server: SandboxServer, query: str) -> None:
    status, kind, body = _sparql(server, query)
    assert (status, kind) == (400, "text/plain; charset=utf-8")
    assert body


def test_an_iri_may_hold_the_word_service(server: SandboxServer) -> None:
    assert _sparql(server, "SELECT * { ?s <http://SERVICE/> ?o }")[0] == 200


def test_entities_have_the_documented_shape(server: SandboxServer, world: World) -> None:
    entity = next(e for e in world.entities() if e.article_title and e.aliases and e.kind == "person")
    document = _api(server, ids=entity.entity_id, languages="en")
    assert document["success"] == 1
    found = document["entities"][entity.entity_id]
    assert (found["type"], found["id"]) == ("item", entity.entity_id)
    assert found["labels"] == {"en": {"language": "en", "value": entity.label}}
    assert found["descriptions"]["en"]["value"] == entity.description
    assert {alias["value"] for alias in found["aliases"]["en"]} == set(entity.aliases)
    assert found["sitelinks"] == {"enwiki": {"site": "enwiki", "title": entity.article_title, "badges": []}}


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"ids": "|".join(f"Q{n}" for n in range(1, 52))}, "toomanyvalues"),
        ({"ids": "Q1|banana"}, "no-such-entity"),
        ({"action": "query"}, "badvalue"),
    ],
)
def test_errors_of_the_entity_api_come_with_status_200(
    server: SandboxServer, params: dict[str, str], code: str
) -> None:
    error = _api(server, **params)["error"]
    assert error["code"] == code
    assert error["info"]


PER_ARTICLE = "/api/rest_v1/metrics/pageviews/per-article"


def test_page_views_have_the_documented_shape(server: SandboxServer, world: World) -> None:
    entity = next(e for e in world.entities() if e.article_title and " " in e.article_title)
    title = urllib.parse.quote(entity.article_title.replace(" ", "_"), safe="")
    url = f"{server.base_url}{PER_ARTICLE}/en.wikipedia/all-access/user/{title}/monthly/2026083100/2026103100"
    status, kind, body = _get(url)
    assert (status, kind) == (200, "application/json; charset=utf-8")
    items = json.loads(body)["items"]
    assert [item["timestamp"] for item in items] == ["2026090100", "2026100100"]  # August is incomplete
    assert items[1] == {
        "project": "en.wikipedia",
        "article": entity.article_title.replace(" ", "_"),
        "granularity": "monthly",
        "timestamp": "2026100100",
        "access": "all-access",
        "agent": "user",
        "views": world.monthly_views(entity.entity_id, "2026-10"),
    }


@pytest.mark.parametrize(
    ("tail", "status"),
    [
        ("en.wikipedia/all-access/user/No_such_page/monthly/2026090100/2026093000", 404),
        ("en.wikipedia/all-access/user/actor/monthly/2026090200/2026093000", 404),
        ("en.wikipedia/all-access/user/actor/monthly/2026093100/2026093000", 400),
        ("de.wikipedia/all-access/user/actor/monthly/2026090100/2026093000", 400),
        ("en.wikipedia/all-access/user/a/b/monthly/2026090100/2026093000", 400),
    ],
)
def test_page_view_problems(server: SandboxServer, tail: str, status: int) -> None:
    found, kind, body = _get(f"{server.base_url}{PER_ARTICLE}/{tail}")
    assert (found, kind) == (status, "application/problem+json")
    assert {"type", "title", "detail", "uri"} <= set(json.loads(body))


def test_unknown_paths_are_404_and_other_methods_501(server: SandboxServer) -> None:
    assert _get(f"{server.base_url}/nothing")[0] == 404
    connection = http.client.HTTPConnection(server.base_url.removeprefix("http://"), timeout=5)
    connection.request("DELETE", "/sparql")
    assert connection.getresponse().status == 501
    connection.close()


def test_a_post_without_a_length_is_refused(server: SandboxServer) -> None:
    connection = http.client.HTTPConnection(server.base_url.removeprefix("http://"), timeout=5)
    connection.putrequest("POST", "/sparql")
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_small_answers_do_not_wait_for_acknowledgements() -> None:
    assert Handler.disable_nagle_algorithm


def test_only_this_machine_can_connect(server: SandboxServer) -> None:
    assert server.base_url.startswith("http://127.0.0.1:")
    assert server._http.socket.getsockname()[0] == "127.0.0.1"


def test_closing_ends_threads_and_frees_the_port(world: World) -> None:
    before = {*threading.enumerate()}
    with SandboxServer(world) as short_lived:
        port = int(short_lived.base_url.rsplit(":")[-1])
        kept = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        kept.request("GET", "/nothing")
        assert kept.getresponse().read()
    kept.close()
    for thread in {*threading.enumerate()} - before:
        thread.join()
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.1", port, timeout=5).request("GET", "/")
    with SandboxServer(world, port) as again:  # the port is free at once
        assert again.base_url.endswith(str(port))


def test_a_taken_port_is_a_clear_error(server: SandboxServer, world: World) -> None:
    port = int(server.base_url.rsplit(":")[-1])
    with pytest.raises(LongtailError, match=f"port {port} of 127.0.0.1 cannot be used"):
        SandboxServer(world, port)


def test_an_rdf_file_is_served_and_its_broken_lines_reported(tmp_path: Path) -> None:
    wd, label = "http://www.wikidata.org/entity/", "http://www.w3.org/2000/01/rdf-schema#label"
    path = tmp_path / "some.nt"
    path.write_text(
        f'<{wd}Q1> <{label}> "one"@en .\nbroken\n<{wd}Q1> <{label}> "eins"@de .\n'
        f"<https://de.wikipedia.org/wiki/Eins> <http://schema.org/about> <{wd}Q1> .\n"
        '<https://de.wikipedia.org/wiki/Eins> <http://schema.org/name> "Eins"@de .\n',
        encoding="utf-8",
    )
    with SandboxServer(path) as running:
        entity = _api(running, ids="Q1")["entities"]["Q1"]
        assert {value["value"] for value in entity["labels"].values()} == {"one", "eins"}
        assert entity["sitelinks"]["dewiki"]["title"] == "Eins"
        assert _get(f"{running.base_url}/other/cirrussearch/current/enwiki-content.json.gz")[0] == 404
    assert [row.row_key for row in running.content.broken] == ["2"]
