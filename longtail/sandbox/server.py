"""The sandbox server: Wikimedia's services on 127.0.0.1, from a synthetic world or an RDF file."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import sys
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pyoxigraph as ox

from longtail.errors import LongtailError
from longtail.sandbox import mediawiki, rest, tagme, wikibase
from longtail.sandbox.content import RdfContent, WorldContent
from longtail.sandbox.replies import Reply, conditional, from_byte
from longtail.sandbox.world import World

_LONGEST_BODY = 8 << 20
_LOG = logging.getLogger(__name__)


class SandboxServer:
    """Serves `content` on 127.0.0.1 while the context is open; `port` 0 takes a free port."""

    def __init__(self, content: World | WorldContent | RdfContent, port: int = 0) -> None:
        self.content = WorldContent(content) if isinstance(content, World) else content
        try:
            self._http = _HttpServer(("127.0.0.1", port), self)
        except OSError as error:
            raise LongtailError(
                f"port {port} of 127.0.0.1 cannot be used ({error.strerror}); choose another"
            ) from None
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.05,), name="sandbox", daemon=True
        )

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> SandboxServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.close_connections()
        self._http.server_close()
        self._thread.join()
        self.content.close()

    def handler(self) -> type[Handler]:
        """What serves a connection."""
        return Handler

    def answer(self, path: str, params: dict[str, str], accept: str) -> Reply:
        """The services' answer."""
        if path in ("/sparql", "/bigdata/namespace/wdq/sparql"):
            is_json = params.get("format") == "json"
            return answer_sparql(self.content.store(), params.get("query", ""), "" if is_json else accept)
        if path == "/w/api.php":
            return wikibase.answer(self.content.store(), params)
        if self.content.has_articles and (reply := _answer_about_articles(self.content, path, params)):
            return reply
        return Reply.text(404, f"nothing at {path}")


def _answer_about_articles(world: Any, path: str, params: dict[str, str]) -> Reply | None:
    """The answer of a service about a world's articles; None for a path of none."""
    if path == mediawiki.PATH:
        return mediawiki.answer(world, params)
    if path == tagme.PATH:
        return tagme.answer(world, params)
    if path.startswith(rest.PER_ARTICLE):
        return rest.page_views(world, path)
    return rest.dump(world) if path == rest.DUMP else rest.bulk_dump(world, path)


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], sandbox: SandboxServer) -> None:
        self.sandbox = sandbox
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        super().__init__(address, sandbox.handler())

    @contextlib.contextmanager
    def connection(self, peer: socket.socket) -> Iterator[None]:
        with self._lock:
            self._connections.add(peer)
        try:
            yield
        finally:
            with self._lock:
                self._connections.discard(peer)

    def close_connections(self) -> None:
        """End the connections that clients keep alive, so that no thread outlives the server."""
        with self._lock:
            for peer in self._connections:
                with contextlib.suppress(OSError):
                    peer.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):  # a client that closed the connection is not an error
            _LOG.exception("sandbox server: a request failed")


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    server: _HttpServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # avoids a wait for the client's delayed acknowledgement

    def handle(self) -> None:
        with self.server.connection(self.connection):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        _LOG.debug(format, *args)

    def do_GET(self) -> None:
        self.serve(dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True)))

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _LONGEST_BODY:
            self.close_connection = True
            return self.send(
                Reply.text(413, f"a body needs a Content-Length of at most {_LONGEST_BODY:,} bytes")
            )
        body = self.rfile.read(int(length)).decode("utf-8", "replace")
        params = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        if self.headers.get("Content-Type", "").startswith("application/sparql-query"):
            params["query"] = body
        else:
            params |= dict(parse_qsl(body, keep_blank_values=True))
        self.serve(params)

    def serve(self, params: dict[str, str]) -> None:
        """Answer one request."""
        self.send(self.reply(urlsplit(self.path).path, params))

    def reply(self, path: str, params: dict[str, str]) -> Reply:
        """The services' answer, or the part of it that the request's headers ask for."""
        try:
            reply = self.server.sandbox.answer(path, params, self.headers.get("Accept", ""))
        except LongtailError as error:
            reply = Reply.text(500, str(error))
        if self.command == "GET":
            reply = conditional(reply, path, self.headers)
        return from_byte(reply, self.headers.get("Range", ""), self.headers.get("If-Range", ""))

    def send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if isinstance(reply.body, bytes):
            self.send_whole(reply.status, reply.body)
        else:
            self.send_pieces(reply.body)

    def send_whole(self, status: int, body: bytes) -> None:
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_pieces(self, pieces: Iterator[bytes]) -> None:
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")


_WD = "http://www.wikidata.org/"
PREFIXES = {
    "wd": f"{_WD}entity/",
    "wdt": f"{_WD}prop/direct/",
    "wdtn": f"{_WD}prop/direct-normalized/",
    "wds": f"{_WD}entity/statement/",
    "wdv": f"{_WD}value/",
    "wdref": f"{_WD}reference/",
    "wdata": f"{_WD}wiki/Special:EntityData/",
    "p": f"{_WD}prop/",
    "ps": f"{_WD}prop/statement/",
    "psv": f"{_WD}prop/statement/value/",
    "pq": f"{_WD}prop/qualifier/",
    "pqv": f"{_WD}prop/qualifier/value/",
    "pr": f"{_WD}prop/reference/",
    "wikibase": "http://wikiba.se/ontology#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "schema": "http://schema.org/",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "prov": "http://www.w3.org/ns/prov#",
    "bd": "http://www.bigdata.com/rdf#",
    "geo": "http://www.opengis.net/ont/geosparql#",
}
_JSON = "application/sparql-results+json"
_FORMATS = {
    _JSON: ox.QueryResultsFormat.JSON,
    "application/sparql-results+xml": ox.QueryResultsFormat.XML,
    "text/csv": ox.QueryResultsFormat.CSV,
    "text/tab-separated-values": ox.QueryResultsFormat.TSV,
}
# Places where SERVICE is not the keyword: IRIs, comments, strings, variables, prefixed names.
_NOT_KEYWORDS = re.compile(
    r"<[^<>\"{}|^`\\\x00-\x20]*>|#[^\n\r]*"
    r'|"""(?:[^"\\]|\\.|"(?!""))*"""|\'\'\'(?:[^\'\\]|\\.|\'(?!\'\'))*\'\'\''
    r'|"(?:[^"\\\n\r]|\\.)*"|\'(?:[^\'\\\n\r]|\\.)*\''
    r"|[?$]\w+|@[A-Za-z-]+|[\w.-]*:[\w.:%-]*",
    re.DOTALL,
)
_SERVICE = re.compile(r"\bSERVICE\b", re.IGNORECASE)
_ESCAPED = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")


def answer_sparql(store: ox.Store, query: str, accept: str = "") -> Reply:
    """The query's results, as JSON unless `accept` names another format; 400 for a malformed or refused query."""
    if not query.strip():
        return Reply.text(
            400, "no query: send it as parameter query, or as a body of type application/sparql-query"
        )
    if has_service(query):
        return Reply.text(400, "SERVICE is refused: this endpoint does not query others")
    try:
        results = store.query(query, prefixes=PREFIXES)
        if isinstance(results, ox.QueryTriples):
            body = results.serialize(format=ox.RdfFormat.N_TRIPLES) or b""
            return Reply(200, body, "application/n-triples")
        kind = next((kind for kind in _FORMATS if kind in accept), _JSON)
        return Reply(200, results.serialize(format=_FORMATS[kind]) or b"", f"{kind};charset=utf-8")
    except (SyntaxError, ValueError) as error:
        return Reply.text(400, f"malformed query: {error}")
    except OSError as error:
        return Reply.text(500, f"the query failed: {error}")


def has_service(query: str) -> bool:
    """Whether the query contains the keyword SERVICE, escaped or not."""
    plain = _ESCAPED.sub(_character, query)
    return bool(_SERVICE.search(_NOT_KEYWORDS.sub(" ", plain)))


def _character(match: re.Match[str]) -> str:
    code = int(match.group(1) or match.group(2), 16)
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else match.group()
