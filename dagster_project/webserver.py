"""Dagster's webserver behind `same_origin`, with the report below /published: what `make ui` starts for the browser.

Dagster's own command answers every request and accepts no ASGI layer, so its application is served here.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._utils.log import configure_loggers
from dagster_webserver.app import create_app_from_workspace_process_context
from dagster_webserver.version import __version__
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from dagster_project.operations import open_instance
from dagster_project.same_origin import SameOrigin, SmallHeads
from longtail.storage.home import study_file
from longtail.study.file import load_study

_STATEMENT_TIMEOUT_MS, _POOL_RECYCLE_S, _POOL_OVERFLOW = 15_000, 3_600, 20  # those of Dagster's command
_POLL_MS = 2_000
_SERVED = re.compile(r"report\.html|answers\.html|answers/[0-9a-f]+\.bin")


def main(port: int, workspace_file: str, host: str = "127.0.0.1") -> None:
    """Serve the workspace of a file, once there is one, until a signal.

    `host`: the address to listen at. Others than this machine's are for containers: whatever it is, only requests to
    localhost are answered.
    """
    while not os.path.exists(workspace_file):
        time.sleep(0.2)
    configure_loggers()
    study = load_study(study_file())
    with open_instance(study) as instance:
        instance.optimize_for_webserver(_STATEMENT_TIMEOUT_MS, _POOL_RECYCLE_S, _POOL_OVERFLOW)
        workspace = WorkspaceFileTarget([workspace_file])
        with WorkspaceProcessContext(instance, workspace, version=__version__) as context:
            app = create_app_from_workspace_process_context(
                context, live_data_poll_rate=_POLL_MS, lifespan=_lifespan
            )
            pages = _Pages(directory=study.home.published, check_dir=False)
            app.router.routes.insert(0, Mount("/published", pages))
            uvicorn.run(SameOrigin(app), host=host, port=port, log_level="warning", http=SmallHeads)


class _Pages(StaticFiles):
    """The report, its answers and what they load. Nothing else that is published shares the origin of the UI."""

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        return super().lookup_path(path) if _SERVED.fullmatch(path) else ("", None)


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    """Starts and stops nothing; with Starlette's default, Ctrl-C would be reported as an error."""
    yield


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
