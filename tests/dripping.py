"""A real server on 127.0.0.1 with endless answers: it sends the body of an answer byte by byte.

Each byte comes before the client's limit for one wait, so that only a limit for the whole request ends it. The server
stops after `most_s`. A client that is still there then has no such limit, and the test fails.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_CLIENTS = 16
"""Connections that are answered at the same time."""


@dataclass(frozen=True)
class Drip:
    """Sends `first` at once, then `drop` repeatedly."""

    first: bytes
    drop: bytes


DRIPS = {
    "body": Drip(_OK + b"Content-Length: 1000000\r\n\r\n", b" "),
    "body without a length": Drip(_OK + b"Connection: close\r\n\r\n", b" "),
    "chunks": Drip(_OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "body of an error": Drip(b"HTTP/1.1 500 No\r\nContent-Length: 1000000\r\n\r\n", b" "),
}


@contextlib.contextmanager
def dripping(drip: Drip, pause_s: float = 0.05, most_s: float = 8.0) -> Iterator[int]:
    """The port of a server that answers every connection with `drip`, and whose clients all give up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = _Server(drip, pause_s, most_s)
        accepting = threading.Thread(target=server.accept, args=(listening,))
        accepting.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            server.stop.set()
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            accepting.join()
    assert not server.is_outlasted, "a client waited until the server stopped"


@dataclass
class _Server:
    drip: Drip
    pause_s: float
    most_s: float
    stop: threading.Event = field(default_factory=threading.Event)
    is_outlasted: bool = False

    def accept(self, listening: socket.socket) -> None:
        with ThreadPoolExecutor(_CLIENTS) as threads:
            while not self.stop.is_set():
                with contextlib.suppress(OSError):
                    threads.submit(self._serve, listening.accept()[0])

    def _serve(self, taken: socket.socket) -> None:
        until = time.monotonic() + self.most_s
        with taken, contextlib.suppress(OSError):
            taken.recv(1 << 16)
            taken.sendall(self.drip.first)
            while not self.stop.wait(self.pause_s):
                if time.monotonic() > until:
                    self.is_outlasted = True
                    return
                taken.sendall(self.drip.drop)
