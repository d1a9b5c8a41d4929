"""The published routers over HTTP: `/decide`, `/decide_batch`, `/lookup`, `/healthz`; `/openapi.json` describes them.

`RouterStore` has the routers and names that a running service decides by, and their newer versions as they appear.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from longtail.errors import RouterError
from longtail.router.decisions import Candidate, Decision, Names, Router, load_names, load_router
from longtail.storage.home import command

NAMES = "entities.names"
"""The file of names beside the routers."""
EVERY_S = 1.0

_Stamp = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True)
class Published:
    """One folder of routers, whole: all of its routers by name, and its names."""

    folder: Path
    routers: Mapping[str, Router]
    names: Names


class RouterStore:
    """The newest good folder behind the link `published/router`.

    `error`: why a newer folder is not used; None if the newest is. It is for one thread.
    """

    def __init__(self, link: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Errors: `RouterError` if nothing is published, or if a file of it is bad."""
        self._link, self._clock = link, clock
        self._looked_at = clock()
        self._stamp = _stamp(link)
        self._published = _read(link)
        self.error: str | None = None

    def current(self) -> Published:
        """The routers to decide by. It looks for newer ones at most once a second."""
        now = self._clock()
        if now - self._looked_at >= EVERY_S:
            self._looked_at = now
            self._look()
        return self._published

    def _look(self) -> None:
        """Read the folder if it changed. A bad one is not read again until it changes."""
        stamp: _Stamp = ()
        try:
            stamp = _stamp(self._link)
            if stamp != self._stamp:
                self._published, self.error = _read(self._link), None
        except RouterError as error:
            self.error = str(error)
        self._stamp = stamp


def _stamp(link: Path) -> _Stamp:
    """What changes when the folder or one of its files does."""
    try:
        folder = link.resolve(strict=True)
        with os.scandir(folder) as entries:
            files = sorted((entry.path, entry.stat()) for entry in entries)
    except OSError as error:
        raise RouterError(
            f"{link}: no routers are published ({error.strerror}); run `{command('run')}`"
        ) from error
    return tuple((path, stat.st_ino, stat.st_size, stat.st_mtime_ns) for path, stat in files)


def _read(link: Path) -> Published:
    folder = link.resolve()
    routers = {path.stem: load_router(path) for path in sorted(folder.glob("*.json"))}
    return Published(folder, routers, load_names(folder / NAMES))


MOST_QUESTIONS = 1_000
LARGEST_BODY = 1_000_000  # bytes
_LONGEST_NAME = 1_000  # characters
_OF_ROUTER = ("signal", "policy", "why", "features", "relations")
"""What `/healthz` says of a router."""

_Cosine = Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]
_Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_STRICT = ConfigDict(strict=True, extra="forbid")


class Question(BaseModel):
    """What is known about a question. Leave out a popularity that is unknown, and a relation that there is none of."""

    model_config = _STRICT
    popularity: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    relation: Annotated[str, Field(max_length=_LONGEST_NAME)] | None = None
    consistency: _Cosine | None = None
    certainty: _Cosine | None = None
    confidence: _Probability | None = None
    passage_confidence: _Probability | None = None
    greatest_risk: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] | None = None

    def decide(self, router: Router) -> Decision:
        """What the router decides about the question."""
        return router.decide(**{name: getattr(self, name) for name in Question.model_fields})


class Asked(Question):
    """One question for one router; `/healthz` lists the routers."""

    router: str


class AskedBatch(BaseModel):
    """Several questions for one router."""

    model_config = _STRICT
    router: str
    questions: Annotated[list[Question], Field(max_length=MOST_QUESTIONS)]


class Found(BaseModel):
    """The entities that have a name, the most popular first; several if the name is ambiguous."""

    name: str
    candidates: list[Candidate]


class Health(BaseModel):
    """`status`: `ok`; `stale` if a newer version cannot be used, `error` says why, and the old one decides; or `empty`.

    With code 503 it is `empty`: no router is published.
    """

    status: str
    error: str | None
    folder: str
    names: int
    routers: dict[str, dict[str, Any]]


class Refusal(BaseModel):
    """Why a request has no answer; for values that do not fit, `expected` says by field what was expected."""

    error: str
    expected: dict[str, str] = {}


_REFUSED: dict[int | str, dict[str, Any]] = {422: {"model": Refusal}, 413: {"model": Refusal}}
_NO_ROUTER: dict[int | str, dict[str, Any]] = {**_REFUSED, 404: {"model": Refusal}}


def create_app(store: RouterStore) -> FastAPI:
    """The application. Each request asks `store` for the newest routers, all of them in one thread."""
    app = FastAPI(
        title="Longtail's router",
        description="Whether to retrieve a passage before a language model answers a question",
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(_SmallBodies)
    _add_errors(app)

    @app.post("/decide", responses=_NO_ROUTER)
    async def decide(asked: Asked) -> Decision:
        """Whether to retrieve for one question, the expected accuracies, and why."""
        return asked.decide(_router(store.current(), asked.router))

    @app.post("/decide_batch", responses=_NO_ROUTER)
    async def decide_batch(asked: AskedBatch) -> list[Decision]:
        """The same for several questions, in their order."""
        router = _router(store.current(), asked.router)
        return [question.decide(router) for question in asked.questions]

    @app.get("/lookup", responses=_REFUSED)
    async def lookup(name: Annotated[str, Query(max_length=_LONGEST_NAME)]) -> Found:
        """The popularity of the entities with this label or alias."""
        return Found(name=name, candidates=list(store.current().names.lookup(name)))

    @app.get("/healthz", responses={503: {"model": Health}})
    async def healthz(response: Response) -> Health:
        """The routers, and whether they are the newest."""
        published = store.current()
        status = "ok" if store.error is None else "stale"
        if not published.routers:
            status, response.status_code = "empty", 503
        return Health(
            status=status,
            error=store.error,
            folder=published.folder.name,
            names=len(published.names),
            routers={
                name: {field: getattr(router, field) for field in _OF_ROUTER}
                for name, router in published.routers.items()
            },
        )

    return app


def _router(published: Published, name: str) -> Router:
    router = published.routers.get(name)
    if router is None:
        known = ", ".join(published.routers) or "none"
        raise HTTPException(404, f"no router has this name; published are: {known}")
    return router


class _SmallBodies:
    """Refuses a body once it is too large. FastAPI's own limit answers in plain text."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        n_bytes = 0

        async def receive_counting() -> Message:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > LARGEST_BODY:
                raise HTTPException(413, f"the body has more than {LARGEST_BODY:,} bytes")
            return message

        await self._app(scope, receive_counting, send)


def _add_errors(app: FastAPI) -> None:
    """Every error as a `Refusal`."""

    @app.exception_handler(StarletteHTTPException)
    async def refuse(request: Request, error: StarletteHTTPException) -> JSONResponse:
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    async def does_not_fit(request: Request, error: RequestValidationError) -> JSONResponse:
        # Without the values themselves: a NaN among them is no JSON.
        expected = {".".join(map(str, fault["loc"])): str(fault["msg"]) for fault in error.errors()}
        if "body" in expected and "json" not in request.headers.get("content-type", ""):
            expected = {"header": "content-type: application/json, as curl --json sends it"}
        return JSONResponse({"error": "the request does not fit", "expected": expected}, 422)
