"""Which services a study uses: Wikimedia's own, or the same protocols served by this process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from longtail.errors import SourceError
from longtail.relations.relation import SOURCE_SET, relation_set
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.home import StudyHome
from longtail.storage.lake import QuarantinedRow
from longtail.study.source import Source
from longtail.transfer.client import HttpClient
from longtail.transfer.failures import CONTACT, missing_contact
from longtail.transfer.stored_answers import FinishedAnswers, forget_stage

_SPARQL = "https://query.wikidata.org/sparql"
_ENTITIES = "https://www.wikidata.org/w/api.php"
_TRUTHY = "/wikidatawiki/entities/latest-truthy.nt.bz2"
_PAGE_VIEW_DUMPS = "/other/pageview_complete/monthly"
_DUMPS = "https://dumps.wikimedia.org"
_TITLES = "https://en.wikipedia.org/w/api.php"
_METRICS = "https://wikimedia.org"
_PAGE_VIEWS = "/api/rest_v1/metrics/pageviews/per-article"


def rdf_path(source: Source) -> Path:
    """The file in the study's environment variable. Errors: `SourceError` that says what to set."""
    named = os.environ.get(source.path_env, "").strip()
    if not named:
        raise SourceError(
            f"environment variable {source.path_env} is not set; set it to an N-Triples file (.nt, .nt.gz or .nt.bz2)"
        )
    path = Path(named).expanduser()
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise SourceError(
            f"{path}: {what}; {source.path_env} must name an N-Triples file (.nt, .nt.gz or .nt.bz2)"
        )
    return path


def world(source: Source) -> dict[str, int]:
    """The seed and size of the world that the sandbox serves; nothing for other sources."""
    if source.kind != "sandbox":
        return {}
    return {"seed": source.seed, "facts_per_relation": source.facts_per_relation}


def world_version(source: Source) -> str:
    """The version of the code and relations that make the world, and of what serves it; empty for other sources."""
    if source.kind != "sandbox":
        return ""
    from longtail.sandbox import services

    return fingerprint(code_version(services.__name__), relation_set(SOURCE_SET))


@dataclass(frozen=True)
class Services:
    """The addresses of the services and the client for requests. None: the source has no such service.

    `label` is the value of column `source`. `broken_lines` gives the lines of a file that could not be read; they are
    known after the first answer of the SPARQL service.
    """

    label: str
    client: HttpClient
    sparql_url: str
    entities_url: str
    page_views_url: str | None = None
    titles_url: str | None = None
    articles_url: str | None = None
    truthy_url: str | None = None
    page_view_dumps_url: str | None = None
    tagme_url: str | None = None
    tagme_token: str | None = None
    broken_lines: Callable[[], tuple[QuarantinedRow, ...]] = tuple


@contextlib.contextmanager
def open_services(
    source: Source, home: StudyHome, client: HttpClient | None = None, stage: str | None = None
) -> Iterator[Services]:
    """The services of a study's source, usable while the context is open.

    `stage` is the fingerprint of the current work. The answers of live services are stored under it, so that a killed
    run continues where it stopped; `finish_stage` removes them.

    Errors: `SourceError` where the operator's contact or the RDF file is missing, before any request is sent.
    """
    if source.kind == "wikidata":
        check_contact()
    with client or _client(source, home, stage) as http:
        if source.kind == "wikidata":
            # No dump of all articles: it has tens of gigabytes, and verbalised triples replace it.
            yield Services(
                "wikidata",
                http,
                _SPARQL,
                _ENTITIES,
                page_views_url=f"{_METRICS}{_PAGE_VIEWS}",
                titles_url=_TITLES,
                truthy_url=f"{_DUMPS}{_TRUTHY}",
                page_view_dumps_url=f"{_DUMPS}{_PAGE_VIEW_DUMPS}",
            )
        else:
            with _local_services(source, http) as services:
                yield services


def check_contact(service: str = "study source wikidata") -> None:
    """Errors: `SourceError` where the operator's contact, which `service` wants to know, is not set."""
    if not os.environ.get(CONTACT, "").strip():
        raise SourceError(missing_contact(service))


def _client(source: Source, home: StudyHome, stage: str | None) -> HttpClient:
    # One limiter for all processes of the instance, for all their studies.
    limits = home.home / "locks" / "wikimedia"
    if source.kind != "wikidata":
        return HttpClient(limits=limits)
    finished = FinishedAnswers(_answers_folder(home), stage) if stage else None
    return HttpClient(limits=limits, finished=finished)


def finish_stage(home: StudyHome, stage: str) -> None:
    """Remove the stored answers of a stage whose rows are in the lake."""
    forget_stage(_answers_folder(home), stage)


def _answers_folder(home: StudyHome) -> Path:
    return home.cache / "unfinished"


@contextlib.contextmanager
def _local_services(source: Source, client: HttpClient) -> Iterator[Services]:
    from longtail.sandbox.server import SandboxServer
    from longtail.sandbox.services import DUMP, TAGME_PATH, TAGME_TOKEN, TITLES_PATH
    from longtail.sandbox.world import World

    is_world = source.kind == "sandbox"
    origin = World(source.seed, source.facts_per_relation) if is_world else rdf_path(source)
    with SandboxServer(origin) as server:
        if not is_world and source.facts_from != "truthy_dump":
            server.content.store()  # report an unreadable file here, not through the server: the user must correct it
        yield Services(
            label=source.kind,
            client=client,
            sparql_url=f"{server.base_url}/sparql",
            entities_url=f"{server.base_url}/w/api.php",
            page_views_url=f"{server.base_url}{_PAGE_VIEWS}" if is_world else None,
            titles_url=f"{server.base_url}{TITLES_PATH}" if is_world else None,
            articles_url=f"{server.base_url}{DUMP}" if is_world else None,
            truthy_url=f"{server.base_url}{_TRUTHY}" if is_world else None,
            page_view_dumps_url=f"{server.base_url}{_PAGE_VIEW_DUMPS}" if is_world else None,
            tagme_url=f"{server.base_url}{TAGME_PATH}" if is_world else None,
            tagme_token=TAGME_TOKEN if is_world else None,
            broken_lines=lambda: server.content.broken,
        )
