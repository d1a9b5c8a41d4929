"""What `make router` does: the study's published routers over HTTP on 127.0.0.1, until Ctrl-C.

A newer publication is served within a second. Other websites get no answers (`same_origin`).
"""

from __future__ import annotations

import sys

import uvicorn
from starlette.responses import JSONResponse
from starlette.types import ASGIApp

from dagster_project.arguments import take_none
from dagster_project.core.errors import LongtailError, single_line
from dagster_project.core.home import study_file
from dagster_project.core.router.service import create_app
from dagster_project.core.router.shelf import Shelf
from dagster_project.core.study.file import load_study
from dagster_project.ports import check_free, chosen_port
from dagster_project.same_origin import SameOrigin

_COMMAND = "make router"


def main() -> int:
    """Serve until a signal; return the exit code."""
    try:
        port = chosen_port(_COMMAND, 8000)
        shelf = Shelf(load_study(study_file()).home.published_router)
        check_free(port, _COMMAND)
    except (LongtailError, OSError) as error:
        print(f"error: {single_line(str(error))}", file=sys.stderr)
        return 1
    print(
        f"http://127.0.0.1:{port} serves {len(shelf.current().routers)} routers (Ctrl-C ends it)", flush=True
    )
    uvicorn.run(application(shelf), host="127.0.0.1", port=port, log_level="warning", access_log=False)
    return 0


def application(shelf: Shelf) -> ASGIApp:
    """The service behind the rules for other websites."""
    return SameOrigin(create_app(shelf), lambda reason: JSONResponse({"error": reason}, 403))


if __name__ == "__main__":
    take_none("router", __doc__)
    sys.exit(main())
