"""The port of a server that a person starts."""

from __future__ import annotations

import socket

from longtail.errors import LongtailError
from longtail.storage.home import command


def read_port(name: str, port: str) -> int:
    """The number that `port` names. Errors: `LongtailError`, which names the command `name` with a port."""
    if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65_535):
        raise LongtailError(
            f"--port: {port!r} is not a number of 1 to 65535; choose one: {command(name, port=8001)}"
        )
    return int(port)


def check_free(port: int, name: str) -> None:
    """Errors: `LongtailError` if somebody listens on the port already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            other = port + 1 if port < 65_535 else port - 1
            raise LongtailError(
                f"port {port} is taken; choose another: {command(name, port=other)}"
            ) from None
