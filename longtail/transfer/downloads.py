"""Downloads large files: resumes after a break, gives whole files only, compares a file with the study's checksum.

A download is resumed only if the server says that it still has exactly the same file (ETag, else Last-Modified).
Otherwise, or if the server sends no ranges, the download starts again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import requests

from longtail.errors import LakeError, SourceError
from longtail.progress import Progress
from longtail.storage.files import sync
from longtail.transfer.client import HttpClient
from longtail.transfer.http import body_parts
from longtail.transfer.limits import DUMPS, FILES, Service

_CHUNK = 1 << 18
_SNIFFED = 256
_PAGES = (b"<!doctype html", b"<html")
_ROUNDS = 200  # rounds of attempts, each of which must add to the file
# rounds may add less than `_LEAST`: otherwise a very slow server could take days
_POOR_ROUNDS = 3
_LEAST = 1 << 20
_LENGTH_IN_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


def download_dump(client: HttpClient, url: str, target: Path, log: logging.Logger) -> Path:
    """Download a dump to `target`; resume the part that an earlier attempt or a killed run left.

    Whoever reads the dump compares the checksums of its compression. Errors: `SourceError` where the server fails,
    `LakeError` where the disk fails. The received part stays in the folder `.parts` beside the file.
    """
    with _open_part(target, url, log) as part:
        _fetch(client, DUMPS, part, log)
        part.move_to(target)
    return target


def download_file(
    client: HttpClient, url: str, target: Path, sha256: str | None, log: logging.Logger
) -> Path:
    """Download a file of any host to `target`, as `download_dump`; keep the file if it is there already.

    Errors: as `download_dump`; `SourceError` where the file has another SHA-256 than `sha256`, or is a web page. It is
    then moved aside, to the name with `.refused` at its end.
    """
    with _open_part(target, url, log) as part:
        if target.exists():  # another process downloaded it while this one waited
            part.drop()
            return target
        _fetch(client, FILES, part, log)
        wrong = _wrong_file(part.path, sha256)
        if wrong is None:
            part.move_to(target)
            return target
        refused = target.with_name(f"{target.name}.refused")
        part.move_to(refused)
        raise SourceError(f"{url}: {wrong}; it was moved to {refused} and is not used")


@contextmanager
def _open_part(target: Path, url: str, log: logging.Logger) -> Iterator[_Part]:
    try:
        with _Part(target, url).lock(log) as part:
            yield part
    except OSError as error:
        if isinstance(error, requests.RequestException):
            raise
        raise LakeError(f"{target}: could not be written ({error.strerror or error})") from error


def _fetch(client: HttpClient, service: Service, part: _Part, log: logging.Logger) -> None:
    url = part.url
    part.progress = Progress(log, f"bytes of {url.rsplit('/', 1)[-1]}")
    if part.size:
        log.info("%s: %s bytes are there already, resuming after them", url, f"{part.size:,}")
        part.progress.add(part.size)
    n_poor = 0
    for number in range(1, _ROUNDS + 1):
        before = part.size
        try:
            client.download(service, url, part.write, conditions=part.conditions, accept=(200, 206, 416))
        except SourceError as error:
            n_poor += part.size < before + _LEAST
            if part.size <= before or n_poor > _POOR_ROUNDS or number == _ROUNDS:
                resumable = f". {part.size:,} bytes are kept, to resume from" if part.validator else ""
                raise SourceError(f"{error}{resumable}") from None
            log.warning("%s: broke off after %s bytes, resuming", url, f"{part.size:,}")
        else:
            part.progress.done()
            return


@dataclass
class _Part:
    """The received part of a file, and what distinguishes the file from a later one at the same address."""

    target: Path
    url: str
    validator: str = ""
    progress: Progress = field(init=False)

    @property
    def path(self) -> Path:
        return self.target.parent / ".parts" / self.target.name

    @property
    def _state(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @contextmanager
    def lock(self, log: logging.Logger) -> Iterator[_Part]:
        """Only this process writes the part while the context is open; a part that cannot be resumed is removed."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                log.info("%s: another process downloads into %s, waiting for it", self.url, self.path.parent)
                fcntl.flock(folder, fcntl.LOCK_EX)
            self._read_state()
            yield self
        finally:
            if not self.validator:
                self.drop()
            os.close(folder)

    def _read_state(self) -> None:
        try:
            state = json.loads(self._state.read_text(encoding="utf-8"))
            self.validator = str(state["validator"]) if state["url"] == self.url else ""
        except (OSError, ValueError, KeyError, TypeError):
            self.validator = ""
        if not self.validator:
            self.drop()

    def conditions(self) -> Mapping[str, str]:
        """Headers: no compression, since ranges would then refer to other bytes; only the missing range."""
        if not (self.size and self.validator):
            return {"Accept-Encoding": "identity"}
        return {"Accept-Encoding": "identity", "Range": f"bytes={self.size}-", "If-Range": self.validator}

    def write(self, response: requests.Response) -> None:
        """Write what the server sends. Errors: `requests.RequestException` where it is not what was requested."""
        length = response.headers.get("Content-Length", "")
        at, expected = 0, int(length) if length.isdecimal() else None
        if response.status_code == 416 and response.headers.get("Content-Range") == f"bytes */{self.size}":
            return  # all bytes had come before the run ended
        if response.status_code == 206:
            match = _LENGTH_IN_RANGE.fullmatch(response.headers.get("Content-Range", ""))
            at, expected = (int(match[1]), int(match[2])) if match else (-1, None)  # a server may send less
        if response.status_code == 416 or at not in (0, self.size):
            self.drop()
            raise requests.ConnectionError(f"answered {response.status_code} with another range")
        if at == 0:
            self._begin(response)
        with self.path.open("ab") as out:
            for chunk in body_parts(response, _CHUNK):
                out.write(chunk)
                self.progress.add(len(chunk))
        if expected is not None and self.size != expected:
            raise requests.ConnectionError(f"broke off after {self.size:,} of {expected:,} bytes")

    def _begin(self, response: requests.Response) -> None:
        tag = response.headers.get("ETag", "")
        self.validator = tag if tag.startswith('"') else response.headers.get("Last-Modified", "")
        self.path.write_bytes(b"")
        self._state.write_text(json.dumps({"url": self.url, "validator": self.validator}), encoding="utf-8")

    def drop(self) -> None:
        self.path.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)

    def move_to(self, target: Path) -> None:
        sync(self.path)
        os.replace(self.path, target)
        sync(target.parent)
        self.drop()


def _wrong_file(path: Path, sha256: str | None) -> str | None:
    """What is wrong with a file from any host; None if nothing is."""
    with path.open("rb") as stream:
        if stream.read(_SNIFFED).lstrip().lower().startswith(_PAGES):
            return "the server sent a web page instead of the file"
        stream.seek(0)
        checksum = hashlib.file_digest(stream, "sha256").hexdigest()
    if sha256 in (None, checksum):
        return None
    return f"the file's SHA-256 is {checksum}, and the study expects {sha256}"
