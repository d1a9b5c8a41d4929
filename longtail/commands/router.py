"""What `make router` does: the study's published routers over HTTP on 127.0.0.1, until Ctrl-C.

A newer publication is served within a second. Other websites get no answers (`same_origin`), and headers that do not
end are refused.
"""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from starlette.responses import JSONResponse
from starlette.types import ASGIApp

from dagster_project.same_origin import SameOrigin, SmallHeads
from longtail.commands import free_port
from longtail.errors import LongtailError, single_line
from longtail.router.service import RouterStore, create_app
from longtail.storage.home import study_file
from longtail.study.file import load_study


def main(port: str = "8000") -> int:
    """Serve until a signal; return the exit code."""
    try:
        number = free_port(port, "router")
        store = RouterStore(load_study(study_file()).home.published_router)
    except (LongtailError, OSError) as error:
        print(f"error: {single_line(str(error))}", file=sys.stderr)
        return 1
    print(
        f"http://127.0.0.1:{number} serves {len(store.current().routers)} routers (Ctrl-C ends it)",
        flush=True,
    )
    uvicorn.run(application(store), host="127.0.0.1", port=number, **SERVED)
    return 0


SERVED: dict[str, Any] = {
    "http": SmallHeads, "ws": "none", "log_level": "warning", "access_log": False
}  # fmt: skip
"""How uvicorn serves the application."""


def application(store: RouterStore) -> ASGIApp:
    """The service behind the rules for other websites."""
    return SameOrigin(create_app(store), lambda reason, code: JSONResponse({"error": reason}, code))
