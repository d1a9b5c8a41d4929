"""The sandbox server: Wikimedia's services on 127.0.0.1, from a synthetic world or an RDF file."""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from types import TracebackType
from urllib.parse import parse_qsl, urlsplit

import pyoxigraph as ox

from longtail.errors import LongtailError
from longtail.parsing.line_files import RejectedRows
from longtail.parsing.rdf import read_triples
from longtail.sandbox import services
from longtail.sandbox.dumps import triple_lines
from longtail.sandbox.services import Reply, from_byte
from longtail.sandbox.world import Pages, World
from longtail.storage.files import temporary_folder
from longtail.storage.lake import QuarantinedRow

# Above these sizes the store is on disk: in memory it needs about 8 kB per entity.
_LARGE_WORLD = 50_000  # entities
_LARGE_FILE = 100 << 20  # bytes
_LINES_AT_ONCE = 100_000
_LONGEST_BODY = 8 << 20
_LOG = logging.getLogger(__name__)


class Content:
    """The triples of a world, or of an N-Triples file (plain or packed), and a world's pages.

    `broken`: the lines of a file that could not be read, once its triples are loaded. Reads are safe between threads.
    """

    def __init__(self, origin: World | Path) -> None:
        self._origin = origin
        self.pages = Pages(origin) if isinstance(origin, World) else None
        self.broken: tuple[QuarantinedRow, ...] = ()
        self._lock = threading.Lock()
        self._store: ox.Store | None = None
        self._folder = ExitStack()

    def store(self) -> ox.Store:
        """The triples; loaded at the first call."""
        with self._lock:
            if self._store is None:
                store = self._open()
                if isinstance(self._origin, World):
                    lines = triple_lines(self._origin)
                    while some := "".join(islice(lines, _LINES_AT_ONCE)):
                        store.bulk_load(some, ox.RdfFormat.N_TRIPLES)
                else:
                    rejected = RejectedRows()
                    for triples in read_triples(self._origin, rejected):
                        store.bulk_extend(triples)
                    self.broken = tuple(rejected.rows)
                self._store = store
            return self._store

    def _open(self) -> ox.Store:
        """An empty store: in memory, or for large content in a temporary folder."""
        if isinstance(self._origin, World):
            is_large = self._origin.n_entities > _LARGE_WORLD
        else:
            is_large = self._origin.stat().st_size > _LARGE_FILE
        if not is_large:
            return ox.Store()
        _LOG.info("loading a large triple store into a temporary folder: this takes a minute or more")
        # A large world needs gigabytes: in the home, since /tmp may be too small.
        return ox.Store(str(self._folder.enter_context(temporary_folder("store"))))

    def close(self) -> None:
        """Free the disk space of the store."""
        with self._lock:
            self._store = None
            self._folder.close()


class SandboxServer:
    """Serves a world or an RDF file on 127.0.0.1 while the context is open; `port` 0 takes a free port."""

    def __init__(self, origin: World | Path, port: int = 0) -> None:
        self.content = Content(origin)
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
        self._http.server_close()
        self._thread.join()
        self.content.close()

    def handler(self) -> type[Handler]:
        """What serves a connection."""
        return Handler

    def answer(self, path: str, params: dict[str, str]) -> Reply:
        """The services' answer."""
        if path == "/sparql":
            return answer_sparql(self.content.store(), params.get("query", ""))
        if path == "/w/api.php":
            return services.answer_entities(self.content.store(), params)
        reply = _answer_about_articles(self.content.pages, path, params) if self.content.pages else None
        return reply or Reply.text(404, f"nothing at {path}")


def _answer_about_articles(pages: Pages, path: str, params: dict[str, str]) -> Reply | None:
    """The answer of a service about a world's articles; None for a path of none."""
    if path == services.TITLES_PATH:
        return services.answer_titles(pages, params)
    if path == services.TAGME_PATH:
        return services.answer_links(pages, params)
    if path.startswith(services.PER_ARTICLE):
        return services.page_views(pages, path)
    return services.dump(pages.world, path)


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], sandbox: SandboxServer) -> None:
        self.sandbox = sandbox
        super().__init__(address, sandbox.handler())

    def handle_error(self, request: object, client_address: object) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):  # a client that closed the connection is not an error
            _LOG.exception("sandbox server: a request failed")


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    server: _HttpServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # avoids a wait for the client's delayed acknowledgement

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
        self.serve(dict(parse_qsl(body, keep_blank_values=True)))

    def serve(self, params: dict[str, str]) -> None:
        """Answer one request."""
        self.send(self.reply(urlsplit(self.path).path, params))

    def reply(self, path: str, params: dict[str, str]) -> Reply:
        """The services' answer, or the part of it that the request's headers ask for."""
        try:
            reply = self.server.sandbox.answer(path, params)
        except LongtailError as error:
            reply = Reply.text(500, str(error))
        return from_byte(reply, self.headers.get("Range", ""), self.headers.get("If-Range", ""))

    def send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if isinstance(reply.body, bytes):
            self.send_whole(reply.body)
        else:
            self.send_pieces(reply.body)

    def send_whole(self, body: bytes) -> None:
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_pieces(self, pieces: Iterator[bytes]) -> None:
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")


_IRI = re.compile(r'<[^<>"{}|^`\\\s]*>')


def answer_sparql(store: ox.Store, query: str) -> Reply:
    """The results of a SELECT as JSON; 400 for a malformed or refused query."""
    if has_service(query):
        return Reply.text(400, "SERVICE is refused: this endpoint does not query others")
    try:
        results = store.query(query)
        if not isinstance(results, ox.QuerySolutions):
            return Reply.text(400, "only SELECT is answered")
        body = results.serialize(format=ox.QueryResultsFormat.JSON) or b""
        return Reply(200, body, "application/sparql-results+json;charset=utf-8")
    except (SyntaxError, ValueError) as error:
        return Reply.text(400, f"malformed query: {error}")
    except OSError as error:
        return Reply.text(500, f"the query failed: {error}")


def has_service(query: str) -> bool:
    """Whether the word SERVICE, or an escape that may hide it, stands anywhere but in an IRI."""
    text = _IRI.sub("", query).lower()
    return "service" in text or "\\u" in text
