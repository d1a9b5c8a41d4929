"""What a study's source is: its services and dumps, what they need from the operator, and what decides their rows.

The services are Wikimedia's own, or the same protocols served by this process. Dumps are files that
the operator names, or lie in the home's cache, where each is downloaded once.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from longtail.errors import SourceError
from longtail.needs import Need
from longtail.relations.relation import SOURCE_SET, relation_set
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.home import StudyHome
from longtail.storage.lake import QuarantinedRow
from longtail.study.source import Source, window
from longtail.study.study import Study
from longtail.transfer.client import FinishedAnswers, HttpClient, forget_stage
from longtail.transfer.downloads import download_dump
from longtail.transfer.http import CONTACT, missing_contact
from longtail.wikimedia import truthy_dump
from longtail.wikimedia.page_view_dump import address, file_name

_SPARQL = "https://query.wikidata.org/sparql"
_ENTITIES = "https://www.wikidata.org/w/api.php"
_TRUTHY = "/wikidatawiki/entities/latest-truthy.nt.bz2"
_PAGE_VIEW_DUMPS = "/other/pageview_complete/monthly"
_DUMPS = "https://dumps.wikimedia.org"
_TITLES = "https://en.wikipedia.org/w/api.php"
_METRICS = "https://wikimedia.org"
_PAGE_VIEWS = "/api/rest_v1/metrics/pageviews/per-article"
_TRUTHY_VARIABLE, _PAGE_VIEWS_VARIABLE = "LONGTAIL_TRUTHY_DUMP", "LONGTAIL_PAGE_VIEW_DUMPS"
_ENDS = 1 << 20


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
    """The addresses of the services and the client for requests. None: the source has no such service. An RDF file has no
    articles: nothing asks for their views.

    `label` is the value of column `source`. `broken_lines` gives the lines of a file that could not be read; they are
    known after the first answer of the SPARQL service.
    """

    label: str
    client: HttpClient
    sparql_url: str
    entities_url: str
    page_views_url: str
    titles_url: str
    truthy_url: str
    page_view_dumps_url: str
    articles_url: str | None = None
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
        base = server.base_url
        yield Services(
            label=source.kind,
            client=client,
            sparql_url=f"{base}/sparql",
            entities_url=f"{base}/w/api.php",
            page_views_url=base + _PAGE_VIEWS,
            titles_url=base + TITLES_PATH,
            truthy_url=base + _TRUTHY,
            page_view_dumps_url=base + _PAGE_VIEW_DUMPS,
            articles_url=base + DUMP if is_world else None,
            tagme_url=base + TAGME_PATH if is_world else None,
            tagme_token=TAGME_TOKEN if is_world else None,
            broken_lines=lambda: server.content.broken,
        )


def user_truthy_dump(source: Source) -> Path | None:
    """The truthy dump that the operator names; None where Longtail downloads it. Errors: `SourceError`."""
    if source.kind == "rdf_file":
        return rdf_path(source)
    named = os.environ.get(_TRUTHY_VARIABLE, "").strip() if source.kind == "wikidata" else ""
    if not named:
        return None
    path = Path(named).expanduser()
    if not path.is_file():
        raise SourceError(
            f"{path}: no such file; {_TRUTHY_VARIABLE} must name a truthy dump (.nt, .nt.gz or .nt.bz2)"
        )
    return path


def find_truthy_dump(source: Source, home: StudyHome, services: Services, log: logging.Logger) -> Path:
    """The truthy dump; downloaded if the operator names none and the cache has none. Errors: `SourceError`."""
    path = user_truthy_dump(source) or truthy_dump_in_cache(source, home)
    if not path.exists():
        download_dump(services.client, services.truthy_url, path, log)
    return path


def find_page_view_dump(
    source: Source, home: StudyHome, services: Services, month: str, log: logging.Logger
) -> Path:
    """The page view dump of a month, found as in `find_truthy_dump`. Errors: `SourceError`."""
    path = user_page_view_dump(source, month) or page_view_dump_in_cache(source, home, month)
    if not path.exists():
        download_dump(services.client, address(services.page_view_dumps_url, month), path, log)
    return path


def user_page_view_dump(source: Source, month: str) -> Path | None:
    """The month's dump in the folder that the operator names; None where Longtail downloads it.

    Errors: `SourceError` where the folder has no dump of the month.
    """
    named = os.environ.get(_PAGE_VIEWS_VARIABLE, "").strip() if source.kind == "wikidata" else ""
    if not named:
        return None
    folder, name = Path(named).expanduser(), file_name(month)
    for candidate in (name, name.replace(".bz2", ".gz"), name.removesuffix(".bz2")):
        if (folder / candidate).is_file():
            return folder / candidate
    raise SourceError(
        f"{folder / name}: no such file; {_PAGE_VIEWS_VARIABLE} must name a folder with the month's page view dump"
    )


def truthy_dump_in_cache(source: Source, home: StudyHome) -> Path:
    """Where the source's truthy dump is after the download."""
    return home.cache / "dumps" / f"truthy-{_world(source)}.nt.bz2"


def page_view_dump_in_cache(source: Source, home: StudyHome, month: str) -> Path:
    """Where the source's page view dump of a month is after the download."""
    world = f"{_world(source)}-" if source.kind == "sandbox" else ""
    return home.cache / "dumps" / f"{world}{file_name(month)}"


def _world(source: Source) -> str:
    if source.kind == "sandbox":
        # Another version of the sandbox has another world with other dumps.
        return f"sandbox-{source.seed}-{source.facts_per_relation}-{world_version(source)[:8]}"
    return f"{source.kind}-{source.snapshot}"


def dump_identity(path: Path) -> dict[str, object]:
    """Identifies a dump without reading all of it: its size, its first and its last mebibyte."""
    digest = hashlib.sha256()
    size = path.stat().st_size
    with path.open("rb") as file:
        digest.update(file.read(_ENDS))
        file.seek(max(0, size - _ENDS))
        digest.update(file.read(_ENDS))
    return {"bytes": size, "ends_sha256": digest.hexdigest()}


def source_slice(source: Source) -> dict[str, Any]:
    """The source's settings that decide the rows; for a file its bytes, wherever it is."""
    origin: dict[str, Any] = {"facts_from": source.facts_from} if source.facts_from != "query_service" else {}
    if source.facts_from == "truthy_dump":
        named = user_truthy_dump(source)
        origin |= dump_identity(named) if named else {}
    if source.kind == "rdf_file" and source.facts_from != "truthy_dump":
        with rdf_path(source).open("rb") as stream:
            origin["sha256"] = hashlib.file_digest(stream, "sha256").hexdigest()
    if source.kind == "rdf_file":
        return {"kind": source.kind, **origin}
    return {"kind": source.kind, "snapshot": source.snapshot, **world(source), **origin}


def facts_code(source: Source, stage: str) -> str:
    """The version of the code that decides facts and entities; `stage` is the module that ingests them."""
    unused = () if source.facts_from == "truthy_dump" else (truthy_dump.__name__,)
    return code_version(stage, without=unused) + world_version(source)


def needs_of_source(study: Study) -> Iterator[Need]:
    """A dump that Longtail would download is no need; one that a variable names is."""
    source = study.source
    if source.kind == "wikidata":
        yield Need("source", check_contact)
    if source.kind == "rdf_file":
        yield Need("source.path_env", partial(rdf_path, source))
    elif source.facts_from == "truthy_dump":
        yield Need("source.facts_from", partial(user_truthy_dump, source))
    if study.popularity.measure == "page_views" and source.views_from == "dump":
        for month in window(study):
            yield Need("source.views_from", partial(user_page_view_dump, source, month))
