"""The commands of `longtail`: each module is a program, whose `main` returns its exit code."""

from __future__ import annotations

import socket

from longtail.errors import LongtailError
from longtail.storage.home import command


def free_port(port: str, name: str) -> int:
    """The number of a port on which nobody listens. Errors: `LongtailError`, with the command `name` for another port."""
    if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65_535):
        raise LongtailError(
            f"--port: {port!r} is not a number of 1 to 65535; choose one: {command(name, port=8001)}"
        )
    number = int(port)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError:
            other = number + 1 if number < 65_535 else number - 1
            raise LongtailError(
                f"port {number} is taken; choose another: {command(name, port=other)}"
            ) from None
    return number
