"""The file of a place in study.yaml: the user's own, or fetched once from its `url` into the home's cache."""

from __future__ import annotations

import logging
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from longtail.errors import SourceError
from longtail.storage.checksums import CHANGED, differences
from longtail.storage.files import remove
from longtail.storage.fingerprints import fingerprint
from longtail.study.imports import Place
from longtail.study.study import Study
from longtail.transfer.client import HttpClient
from longtail.transfer.downloads import download_file
from longtail.transfer.http import RetryPolicy

_LOG = logging.getLogger(__name__)
_POLICY = RetryPolicy(attempts=4)  # a user without a network learns in seconds which variable helps


def find_file(place: Place, study: Study) -> Path:
    """The absolute path of the file or folder. A file that only `url` names is downloaded at the first call.

    Errors: `SourceError` where nothing is there, the download fails, or its checksum differs (in one line).
    """
    if place.url is None or not place.is_fetched(study.path):
        return place.find(study.path)
    target = cached_file(place, study)
    if target.exists() and differences(target.parent).get(target.name) == CHANGED:
        _LOG.warning("%s %s: it is fetched again", target, CHANGED)
        remove(target.parent)
    if not target.exists():
        _LOG.info("fetching %s", place.url)
        try:
            with HttpClient(policy=_POLICY) as client:
                download_file(client, place.url, target, place.sha256, _LOG)
        except SourceError as error:
            own = f"; or set {place.path_env} to a copy of your own" if place.path_env else ""
            raise SourceError(f"{error}{own}") from None
        differences(target.parent)  # has no record yet
    return target


def cached_file(place: Place, study: Study) -> Path:
    """Where the file of `url` lies once it is fetched: all studies of the home share it."""
    name = PurePosixPath(unquote(urlsplit(place.url or "").path)).name or "file"
    return study.home.cache / "files" / fingerprint(place.url, place.sha256)[:16] / name
