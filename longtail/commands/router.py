"""What `make router` does: the study's published routers over HTTP on 127.0.0.1, until Ctrl-C.

A newer publication is served within a second. Other websites get no answers (`same_origin`). A client that sends or
reads slowly is cut off, and so is one whose headers never end.
"""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from starlette.responses import JSONResponse
from starlette.types import ASGIApp

from dagster_project.same_origin import SameOrigin, SmallHeads
from longtail.commands.ports import check_free, read_port
from longtail.errors import LongtailError, single_line
from longtail.router.router_store import RouterStore
from longtail.router.service import create_app
from longtail.storage.home import study_file
from longtail.study.file import load_study

_COMMAND = "router"


def main(port: str = "8000") -> int:
    """Serve until a signal; return the exit code."""
    try:
        number = read_port(_COMMAND, port)
        store = RouterStore(load_study(study_file()).home.published_router)
        check_free(number, _COMMAND)
    except (LongtailError, OSError) as error:
        print(f"error: {single_line(str(error))}", file=sys.stderr)
        return 1
    print(
        f"http://127.0.0.1:{number} serves {len(store.current().routers)} routers (Ctrl-C ends it)",
        flush=True,
    )
    uvicorn.run(application(store), host="127.0.0.1", port=number, **SERVED)
    return 0


class LimitedConnection(SmallHeads):
    """A connection on which a request and its answer take at most `slowest_s`. uvicorn itself waits for ever."""

    slowest_s = 30.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._limit = self.loop.call_later(self.slowest_s, transport.abort)

    def on_response_complete(self) -> None:
        self._limit.cancel()
        self._limit = self.loop.call_later(self.slowest_s, self.transport.abort)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit.cancel()
        super().connection_lost(exc)


SERVED: dict[str, Any] = {
    "http": LimitedConnection, "ws": "none", "log_level": "warning", "access_log": False
}  # fmt: skip
"""How uvicorn serves the application."""


def application(store: RouterStore) -> ASGIApp:
    """The service behind the rules for other websites."""
    return SameOrigin(create_app(store), lambda reason, code: JSONResponse({"error": reason}, code))
