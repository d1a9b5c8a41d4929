"""Passages that a search of someone else finds, asked over HTTP: Elasticsearch, OpenSearch, Qdrant, Vespa, one's own.

A question is a POST of JSON, made of a template; paths say where its answer has the hits. With the path of a text, the
passages are those of the search; without it, the ids are those of the study's passages.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from longtail.errors import BackendError, SourceError
from longtail.methods import RETRIEVAL, Method
from longtail.parsing.terms import clean_term
from longtail.progress import Progress
from longtail.retrieval.base import Context, Hit, Query, Retriever, Written
from longtail.storage.fingerprints import fingerprint
from longtail.study.parts import Part
from longtail.study.values import (
    Default,
    Flag,
    Reading,
    Text,
    Variable,
    address,
    fail,
    number,
    value_of,
    whole,
)
from longtail.threads import map_in_order
from longtail.transfer.client import FinishedAnswers, HttpClient
from longtail.transfer.limits import Service

_QUERY, _K = "{query}", "{k}"
_PARTIAL = ("timed_out", "_shards.failed", "root.coverage.degraded")
"""Where Elasticsearch, OpenSearch and Vespa say that they did not search everything."""
_DECISIVE = ("version", "request", "hits", "id", "text", "title", "score")
"""The settings that decide which passages are found."""


def _read_request(value: Any) -> str:
    request = json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    if not isinstance(value, (Mapping, list)) or _QUERY not in request:
        raise fail("", f"must be a mapping or list with {_QUERY} in a text, as in {{q: '{_QUERY}'}}")
    return request


@dataclass(frozen=True)
class HttpSettings(Part):
    """How to ask a search over HTTP, and where its answer has what. `request` is JSON.

    Where the search runs, how often it is asked and by which key decides no passage.
    """

    url: Annotated[str, address("https://search.example.org/passages/_search")]
    """the search's address, https, or http on this machine"""
    request: Annotated[str, value_of("a mapping or list", _read_request, type=["object", "array"])]
    """what is sent, as JSON: in its texts, `{query}` stands for the question; `{k}` stands for `top_k`, as a number"""
    hits: Text
    """path to the list of hits in the answer, best first, as in `hits.hits`"""
    id: Text
    """path to the id within a hit, as in `_id`"""
    version: Text
    """your name for the state of the index: another one asks all questions again"""
    text: Text | None = None
    """path to the passage's text; without it, the ids are those of lake table passages"""
    title: Text | None = None
    """path to the passage's title; goes with `text`"""
    score: Text | None = None
    """path to the score, a number"""
    no_hits_no_list: Flag = False
    """true: an answer without the list has no hits, as Vespa's"""
    authorization_env: Variable | None = None
    """environment variable with the header Authorization"""
    parallel: Annotated[int, whole(1, 64)] = 4
    """questions at once"""
    requests_per_second: Annotated[Annotated[float, number(0, 1_000)] | None, Default("no limit")] = None
    """at most, over all processes of a home"""

    def check(self, raw: Mapping[str, Any], reading: Reading) -> HttpSettings:
        if self.title is not None and self.text is None:
            raise fail("title", "goes with text")
        return self


class Http(Retriever):
    """The search as a `Retriever`. Its answers are stored until they are two weeks old, so that a killed run goes on."""

    def __init__(self, settings: HttpSettings, name: str) -> None:
        self._settings, self._name = settings, name
        interval_s = 1 / settings.requests_per_second if settings.requests_per_second else 0.0
        quota = f"search-{hashlib.sha256(urlsplit(settings.url).netloc.encode()).hexdigest()[:16]}"
        self._service = Service(
            f"search {name}", quota, settings.parallel, interval_s, is_wikimedia=False, needs_contact=False
        )

    def search_version(self) -> str:
        return json.dumps([getattr(self._settings, name) for name in _DECISIVE])

    def check(self) -> None:
        self._authorization()

    def _authorization(self) -> str | None:
        """Errors: `BackendError` where the retriever is not declared, or its variable is empty."""
        if not self._settings.url:
            raise BackendError(f"{self._name}: has no address; declare a retriever with kind: {self._name}")
        variable = self._settings.authorization_env
        if variable is None:
            return None
        if not (value := os.environ.get(variable, "").strip()):
            raise BackendError(
                f"environment variable {variable} is not set; set it to the header Authorization of the search at "
                f"{self._settings.url}, as in 'ApiKey …' or 'Bearer …'"
            )
        return value

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        """Ask each text once. Errors: `SourceError` with the address where a search fails or answers in another form."""
        settings, authorization = self._settings, self._authorization()
        folder = context.cache.parent / "searches"
        finished = FinishedAnswers(folder, fingerprint(settings.url, settings.version))
        texts = list(dict.fromkeys(query.text for query in queries))
        with (
            HttpClient(
                limits=folder, limits_loopback=bool(settings.requests_per_second), finished=finished
            ) as client,
            Progress(context.log, f"{self._name}: questions searched", len(texts)) as progress,
        ):

            def ask(text: str) -> list[Hit]:
                document = client.post_json(
                    self._service,
                    settings.url,
                    document=_fill(json.loads(settings.request), text, context.k),
                    authorization=authorization,
                    accept=self._check_answer,
                )
                progress.add(1)
                return self._hits(document)[: context.k]

            hits = dict(zip(texts, map_in_order(ask, texts, settings.parallel), strict=True))
        self._check_passages(context, hits.values())
        return [hits[query.text] for query in queries]

    def _check_answer(self, document: Any) -> str | None:
        """What is passing about an answer, which is then asked for again. Errors: `SourceError` for another form."""
        for path in _PARTIAL:
            if (value := _follow(document, path)) not in (None, False, 0):
                return f"answered with partial results ({path} is {json.dumps(value)[:80]})"
        self._hits(document)
        return None

    def _hits(self, document: Any) -> list[Hit]:
        """The hits of an answer, each passage once, without those that have no text. Errors: `SourceError`."""
        settings = self._settings
        rows = _follow(document, settings.hits)
        if rows is None and settings.no_hits_no_list:
            return []
        if not isinstance(rows, list):
            raise self._error(f"answered JSON without a list at hits: {settings.hits}", document)
        unique: dict[str, Hit] = {}
        for row in rows:
            if hit := self._hit(row):
                unique.setdefault(hit.passage_id, hit)
        return list(unique.values())

    def _hit(self, row: Any) -> Hit | None:
        settings = self._settings
        identifier = _follow(row, settings.id)
        if not isinstance(identifier, (str, int)) or isinstance(identifier, bool) or identifier == "":
            raise self._error(f"answered a hit without an id at id: {settings.id}", row)
        score = _follow(row, settings.score) if settings.score else None
        if settings.score and (
            isinstance(score, bool) or not isinstance(score, (int, float)) or not math.isfinite(score)
        ):
            raise self._error(f"answered a hit without a number at score: {settings.score}", row)
        passage_id = clean_term(str(identifier)).text
        if settings.text is None:
            return Hit(passage_id, score)
        text, title = _follow(row, settings.text), _follow(row, settings.title) if settings.title else None
        if not isinstance(text, str):
            raise self._error(f"answered a hit without a text at text: {settings.text}", row)
        title = clean_term(title).text if isinstance(title, str) else ""
        written = Written(clean_term(text, len(text)).text, None, (), title)
        return Hit(f"{self._name}:{passage_id}", score, written) if written.text else None

    def _check_passages(self, context: Context, results: Iterable[Sequence[Hit]]) -> None:
        """Each id is a passage of the study, or has one text."""
        if self._settings.text is None:
            ids = {hit.passage_id for hits in results for hit in hits}
            if unknown := sorted(ids - context.passages.texts(ids).keys()):
                raise self._error(
                    f"found {len(unknown)} of {len(ids)} passages that this study has not, first {unknown[0]!r}: index "
                    "its table passages anew, or give the path of the text"
                )
            return
        texts: dict[str, Written | None] = {}
        for hit in (hit for hits in results for hit in hits):
            if texts.setdefault(hit.passage_id, hit.written) != hit.written:
                raise self._error(
                    f"gave passage {hit.passage_id!r} two texts: text must name a field that no question changes"
                )

    def _error(self, what: str, document: Any = None) -> SourceError:
        seen = "" if document is None else f"; it has {_describe(document)}"
        return SourceError(f"{self._service.name} at {self._settings.url}: {what}{seen}")


def _fill(template: Any, query: str, k: int) -> Any:
    """The template with the question and the number of passages in place of their marks."""
    if isinstance(template, dict):
        return {name: _fill(value, query, k) for name, value in template.items()}
    if isinstance(template, list):
        return [_fill(value, query, k) for value in template]
    if template == _K:
        return k
    return template.replace(_QUERY, query) if isinstance(template, str) else template


def _follow(document: Any, path: str) -> Any:
    """The value at a path: names of keys and places in lists, with dots between them; None where there is none."""
    for step in path.split("."):
        if isinstance(document, Mapping):
            document = document.get(step)
        elif isinstance(document, list) and step.isdecimal() and int(step) < len(document):
            document = document[int(step)]
        else:
            return None
    return document


def _describe(document: Any) -> str:
    if isinstance(document, Mapping):
        return f"the keys {', '.join(map(str, document))}"[:200]
    return f"a {type(document).__name__}"


RETRIEVER = Method(
    "http",
    "the best passage of a search over HTTP, which the study declares, stands before the question",
    RETRIEVAL,
    retriever=f"{__name__}:Http",
    settings=HttpSettings("", "{}", "", "", ""),
)
