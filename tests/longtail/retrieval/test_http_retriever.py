"""A search of someone else over HTTP: the forms of known engines, and answers of no use."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from longtail.errors import BackendError, SourceError, StudyError
from longtail.methods import METHODS
from longtail.parsing.terms import clean_term
from longtail.retrieval.base import Context, Query, load_retriever
from longtail.retrieval.indexes import needs_of_retrievers
from longtail.retrieval.retrieve import cite_passages, retrieve_passages
from longtail.retrieval.retrievers import http
from longtail.retrieval.retrievers.http import HttpSettings
from longtail.retrieval.stored_passages import Passage, StoredPassages
from longtail.storage.lake import Lake
from longtail.study.study import Study
from longtail.transfer.client import HttpClient
from longtail.transfer.http import RetryPolicy

Answer = tuple[int, dict[str, str], bytes]


def document(value: Any, status: int = 200) -> Answer:
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()


class Engine(ThreadingHTTPServer):
    """Answers what `answer` makes of a request; `requests` has what was asked, with the header Authorization."""

    def __init__(self, answer: Callable[[Any], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.requests: list[tuple[Any, str | None]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/passages/_search"


class _Handler(BaseHTTPRequestHandler):
    server: Engine

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((request, self.headers.get("Authorization")))
        status, headers, body = self.server.answer(request)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def elastic(request: Any) -> Answer:
    """As Elasticsearch: two passages that name the question, and one for all questions."""
    query = request["query"]["match"]["text"]
    hits = [
        {
            "_id": f"{query}/{rank}",
            "_score": 3.5 - rank,
            "_source": {"text": f"{query} \x00{rank}", "title": query},
        }
        for rank in range(2)
    ]
    hits.append({"_id": 7, "_score": 0, "_source": {"text": "A weaver of Rivertown.", "title": "All"}})
    return document({"timed_out": False, "_shards": {"failed": 0}, "hits": {"hits": hits[: request["size"]]}})


ELASTIC = {
    "kind": "http", "request": {"query": {"match": {"text": "{query}"}}, "size": "{k}"}, "hits": "hits.hits",
    "id": "_id", "text": "_source.text", "title": "_source.title", "score": "_score", "version": "1",
}  # fmt: skip
SETTINGS = HttpSettings("", json.dumps(ELASTIC["request"]), "hits.hits", "_id", "1", "_source.text")


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[Any], Answer]], Engine]]:
    """Starts engines; failed requests are repeated once, and at once."""
    policy = RetryPolicy(attempts=2, base_s=0.001, refused_factor=1, read_s=5)
    monkeypatch.setattr(http, "HttpClient", partial(HttpClient, policy=policy))
    engines: list[Engine] = []

    def start(answer: Callable[[Any], Answer]) -> Engine:
        engines.append(Engine(answer))
        threading.Thread(target=engines[-1].serve_forever, args=(0.02,), daemon=True).start()
        return engines[-1]

    yield start
    for engine in engines:
        engine.shutdown()
        engine.server_close()


@pytest.fixture
def declare(make_study: Callable[[str], Study], rdf_text: str) -> Callable[..., Study]:
    """The hand-made study with these retrievers in place of its own methods."""

    def make(methods: list[str], *retrievers: dict[str, Any]) -> Study:
        text = rdf_text.replace("[closed_book, bm25, dense, oracle]", json.dumps(methods))
        assert text != rdf_text
        return make_study(text + yaml.safe_dump({"retrievers": list(retrievers)}))

    return make


@pytest.fixture
def context(tmp_path: Path, log: logging.Logger) -> Context:
    passages = StoredPassages.of(
        [Passage("Q1-0", "Q1", "Ada", 0, "Ada was born."), Passage("Q2-0", "Q2", "Bo", 0, "x")]
    )
    return Context(passages, tmp_path, tmp_path / "indexes", log, k=2)


def search(context: Context, engine: Engine, *texts: str, **changes: Any) -> list[list[Any]]:
    settings = dataclasses.replace(SETTINGS, url=engine.url, **changes)
    queries = [Query("d", f"{number}", text, None, ()) for number, text in enumerate(texts)]
    return load_retriever(dataclasses.replace(METHODS["http"], name="elastic", settings=settings)).search(
        context, queries
    )


def test_a_study_judges_it_by_its_own_passages(
    serve, declare, searchable: Lake, log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = serve(elastic)
    monkeypatch.setenv("SEARCH_KEY", "ApiKey abc")
    entry = {"name": "elastic", "url": engine.url, **ELASTIC, "authorization_env": "SEARCH_KEY"}
    study = declare(["closed_book", "elastic", "hybrid", "relevant", "swapped"], entry)
    assert not retrieve_passages(study, searchable, "elastic", log).was_current
    rows = searchable.read("retrieved_passages", "elastic").to_pylist()
    questions = {row["question_id"]: row["question"] for row in searchable.read("questions").to_pylist()}
    assert {row["question_id"] for row in rows} == questions.keys()
    for row in rows:
        question = clean_term(questions[row["question_id"]]).text
        text = [f"{question} 0", f"{question} 1", "A weaver of Rivertown."][row["rank"] - 1]
        assert (row["swapped_text"], row["score"]) == (text, [3.5, 2.5, 0.0][row["rank"] - 1])
        assert (
            row["passage_id"] == f"elastic:{question}/{row['rank'] - 1}" if row["rank"] < 3 else "elastic:7"
        )
        assert row["swapped_answers"] is None
    assert any(row["has_answer"] for row in rows if row["rank"] == 3)
    assert engine.requests[0][1] == "ApiKey abc"
    n_requests = len(engine.requests)
    for name in study.retrieval_methods[1:]:
        retrieve_passages(study, searchable, name, log)
        brought = searchable.read("retrieved_passages", name).to_pylist()
        assert {row["swapped_text"] for row in brought} <= {
            row["swapped_text"] for row in rows
        } or name == "swapped"
    cite_passages(study, searchable, log)
    cited = {row["passage_id"]: row for row in searchable.read("cited_passages").to_pylist()}
    assert {row["passage_id"] for row in rows} <= cited.keys()
    assert len(cited) == searchable.read("cited_passages").num_rows
    assert (cited["elastic:7"]["text"], cited["elastic:7"]["title"]) == ("A weaver of Rivertown.", "All")
    assert cited["elastic:7"]["source"] == "elastic"

    assert retrieve_passages(study, searchable, "elastic", log).was_current
    newer = declare(["elastic"], {**entry, "version": "2"})
    assert not retrieve_passages(newer, searchable, "elastic", log).was_current
    assert len(engine.requests) == 2 * n_requests
    elsewhere = serve(elastic)
    assert retrieve_passages(
        declare(["elastic"], {**entry, "version": "2", "url": elsewhere.url}), searchable, "elastic", log
    ).was_current


def test_a_killed_run_asks_only_the_rest_and_each_text_once(serve, context: Context) -> None:
    def answer(request: Any) -> Answer:
        return elastic(request) if request["query"]["match"]["text"] != "c" or is_mended else (500, {}, b"")

    is_mended, engine = False, serve(answer)
    with pytest.raises(SourceError, match="answered 500"):
        search(context, engine, "a", "b", "c", parallel=1)
    is_mended = True
    found = search(context, engine, "a", "d", "b", "c", "d", "d")
    assert [[hit.passage_id for hit in hits] for hits in found] == [
        [f"elastic:{q}/0", f"elastic:{q}/1"] for q in "adbcdd"
    ]
    asked = [request["query"]["match"]["text"] for request, _ in engine.requests]
    assert asked[:4] == ["a", "b", "c", "c"]
    assert sorted(asked[4:]) == ["c", "d"]


POINTS = [
    {"id": 4, "score": 0.5, "payload": {"text": "four"}},
    {"id": "x-1", "score": 1, "payload": {"text": "one"}},
]
CHILDREN = [{"id": "id:a", "relevance": 0.25, "fields": {"text": "a"}}]


@pytest.mark.parametrize(
    ("answer", "changes", "expected"),
    [
        (  # Qdrant
            {"result": {"points": POINTS}, "status": "ok"},
            {"hits": "result.points", "id": "id", "text": "payload.text", "score": "score"},
            [("elastic:4", 0.5), ("elastic:x-1", 1)],
        ),
        (  # Vespa
            {"root": {"fields": {"totalCount": 1}, "children": CHILDREN}},
            {"hits": "root.children", "id": "id", "text": "fields.text", "score": "relevance"},
            [("elastic:id:a", 0.25)],
        ),
        (  # Vespa without a hit
            {"root": {"fields": {"totalCount": 0}}},
            {"hits": "root.children", "id": "id", "text": "fields.text", "no_hits_no_list": True},
            [],
        ),
        ({"hits": {"hits": []}}, {}, []),
        (
            [{"docs": [{"_id": "Q2-0"}, {"_id": "Q1-0"}]}], {"hits": "0.docs", "text": None},
            [("Q2-0", None), ("Q1-0", None)],
        ),
        (  # a passage twice, one without words, and more than were asked for
            {"hits": {"hits": [
                {"_id": 1, "_source": {"text": "a"}}, {"_id": 1, "_source": {"text": "a"}},
                {"_id": 2, "_source": {"text": " \x00"}}, {"_id": 3, "_source": {"text": "c"}},
                {"_id": 4, "_source": {"text": "d"}},
            ]}},
            {},
            [("elastic:1", None), ("elastic:3", None)],
        ),
    ],
)  # fmt: skip
def test_answers_of_many_forms(
    serve, context: Context, answer: Any, changes: dict[str, Any], expected: list[tuple[str, float | None]]
) -> None:
    (hits,) = search(context, serve(lambda _: document(answer)), "Who?", **changes)
    assert [(hit.passage_id, hit.score) for hit in hits] == expected


ROW = {"_id": 1, "_score": "high", "_source": {"text": 5}}
NO_TEXT = {"_id": 1, "_source": {}}


@pytest.mark.parametrize(
    ("answer", "changes", "message"),
    [
        (
            (200, {"Content-Type": "text/html"}, b"<html>Sign in</html>"),
            {},
            "web page in place of JSON .*asked 2 times",
        ),
        ((429, {}, b"slow down"), {}, r"answered 429 \(slow down\); asked 2 times"),
        ((400, {}, b"no such field"), {}, r"answered 400 \(no such field\); trying again would not help"),
        (document({"error": "x"}), {}, "without a list at hits: hits.hits; it has the keys error"),
        (document({"hits": {"hits": {"a": 1}}}), {"no_hits_no_list": True}, "without a list at hits"),
        (
            document({"hits": {"hits": [ROW]}}),
            {"id": "id"},
            "a hit without an id at id: id; it has the keys _id, _score",
        ),
        (document({"hits": {"hits": [ROW]}}), {"score": "_score"}, "a hit without a number at score: _score"),
        (
            document({"hits": {"hits": [{"_id": 1, "_score": float("nan")}]}}),
            {"score": "_score"},
            "without a number",
        ),
        (document({"hits": {"hits": [ROW]}}), {}, "a hit without a text at text: _source.text"),
        (document({"hits": {"hits": [NO_TEXT]}}), {}, "a hit without a text at text: _source.text"),
        (
            document({"hits": {"hits": [ROW]}}),
            {"text": None},
            r"found 1 of 1 passages that this study has not, first '1'",
        ),
        (
            document({"timed_out": True, "hits": {"hits": []}}),
            {},
            r"partial results \(timed_out is true\); asked 2 times",
        ),
    ],
)
def test_an_answer_of_no_use_is_one_line_that_names_the_address(
    serve, context: Context, answer: Answer, changes: dict[str, Any], message: str
) -> None:
    engine = serve(lambda _: answer)
    with pytest.raises(SourceError, match=message) as caught:
        search(context, engine, "Who?", **changes)
    assert engine.url in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_passage_has_one_text(serve, context: Context) -> None:
    """As where a field is an excerpt around the words of the question."""
    engine = serve(lambda request: document(
        {"hits": {"hits": [{"_id": 1, "_source": {"text": request["query"]["match"]["text"]}}]}}
    ))  # fmt: skip
    with pytest.raises(SourceError, match="gave passage 'elastic:1' two texts"):
        search(context, engine, "one", "two")


def test_no_message_shows_the_key(serve, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_KEY", "Bearer sk-0123456789")
    engine = serve(lambda _: (401, {}, b"bad key sk-0123456789"))
    with pytest.raises(SourceError, match="bad key …") as caught:
        search(context, engine, "Who?", authorization_env="SEARCH_KEY")
    assert "0123" not in str(caught.value)


def test_what_is_missing_is_named_before_a_run(declare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEARCH_KEY", raising=False)
    entry = {"name": "elastic", "url": "http://127.0.0.1:9/", **ELASTIC, "authorization_env": "SEARCH_KEY"}
    messages = []
    for need in needs_of_retrievers(declare(["elastic", "http"], entry)):
        with pytest.raises(BackendError) as caught:
            need.check()
        messages.append(f"{need.where}: {caught.value}")
    assert re.match(
        "methods: elastic: environment variable SEARCH_KEY is not set; .* http://127.0.0.1:9/", messages[0]
    )
    assert messages[1] == "methods: http: http: has no address; declare a retriever with kind: http"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"url": "http://search.example.org/"}, r"retrievers\[0\].url: must be an https address"),
        (
            {"request": {"q": "question"}},
            r"retrievers\[0\].request: must be a mapping or list with \{query\} in a text",
        ),
        ({"request": "{query}"}, r"retrievers\[0\].request: must be a mapping or list"),
        ({"hits": None}, r"retrievers\[0\].hits: must be a text"),
        ({"text": None}, r"retrievers\[0\].title: goes with text"),
        ({"version": 3}, r"retrievers\[0\].version: must be a text"),
        ({"requests_per_second": 0}, r"retrievers\[0\].requests_per_second: must be a number above 0"),
        ({"paralel": 2}, r"retrievers\[0\].paralel: unknown key; did you mean parallel"),
    ],
)
def test_a_wrong_declaration_is_named(declare, change: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        declare(["elastic"], {"name": "elastic", "url": "http://127.0.0.1:9/", **ELASTIC, **change})
