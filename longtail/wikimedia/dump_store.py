"""Where dumps are: in files that the operator names, or in the home's cache, where each is downloaded once."""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

from longtail.errors import SourceError
from longtail.storage.home import StudyHome
from longtail.study.source import Source
from longtail.transfer.downloads import download_dump
from longtail.wikimedia.dumps.page_views import address, file_name
from longtail.wikimedia.services import Services, rdf_path, world_version

_ENDS = 1 << 20
_TRUTHY_DUMP, _PAGE_VIEW_DUMPS = "LONGTAIL_TRUTHY_DUMP", "LONGTAIL_PAGE_VIEW_DUMPS"


def user_truthy_dump(source: Source) -> Path | None:
    """The truthy dump that the operator names; None where Longtail downloads it. Errors: `SourceError`."""
    if source.kind == "rdf_file":
        return rdf_path(source)
    named = os.environ.get(_TRUTHY_DUMP, "").strip() if source.kind == "wikidata" else ""
    if not named:
        return None
    path = Path(named).expanduser()
    if not path.is_file():
        raise SourceError(
            f"{path}: no such file; {_TRUTHY_DUMP} must name a truthy dump (.nt, .nt.gz or .nt.bz2)"
        )
    return path


def truthy_dump(source: Source, home: StudyHome, services: Services, log: logging.Logger) -> Path:
    """The truthy dump; downloaded if the operator names none and the cache has none. Errors: `SourceError`."""
    path = user_truthy_dump(source) or truthy_dump_in_cache(source, home)
    if not path.exists():
        if services.truthy_url is None:
            raise SourceError(f"source {source.kind}: offers no truthy dump")
        download_dump(services.client, services.truthy_url, path, log)
    return path


def page_view_dump(
    source: Source, home: StudyHome, services: Services, month: str, log: logging.Logger
) -> Path:
    """The page view dump of a month, found as in `truthy_dump`. Errors: `SourceError`."""
    path = user_page_view_dump(source, month) or page_view_dump_in_cache(source, home, month)
    if not path.exists():
        if services.page_view_dumps_url is None:
            raise SourceError(f"source {source.kind}: offers no page view dumps")
        download_dump(services.client, address(services.page_view_dumps_url, month), path, log)
    return path


def user_page_view_dump(source: Source, month: str) -> Path | None:
    """The month's dump in the folder that the operator names; None where Longtail downloads it.

    Errors: `SourceError` where the folder has no dump of the month.
    """
    named = os.environ.get(_PAGE_VIEW_DUMPS, "").strip() if source.kind == "wikidata" else ""
    return _in_folder(Path(named).expanduser(), month, _PAGE_VIEW_DUMPS) if named else None


def truthy_dump_in_cache(source: Source, home: StudyHome) -> Path:
    """Where the source's truthy dump is after the download."""
    return home.cache / "dumps" / f"truthy-{_world(source)}.nt.bz2"


def page_view_dump_in_cache(source: Source, home: StudyHome, month: str) -> Path:
    """Where the source's page view dump of a month is after the download."""
    world = f"{_world(source)}-" if source.kind == "sandbox" else ""
    return home.cache / "dumps" / f"{world}{file_name(month)}"


def _in_folder(folder: Path, month: str, variable: str) -> Path:
    name = file_name(month)
    for candidate in (name, name.replace(".bz2", ".gz"), name.removesuffix(".bz2")):
        if (folder / candidate).is_file():
            return folder / candidate
    raise SourceError(
        f"{folder / name}: no such file; {variable} must name a folder with the month's page view dump"
    )


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
