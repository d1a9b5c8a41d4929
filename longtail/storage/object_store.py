"""A study's lake and its published versions in an S3 store, which several machines share.

Each machine keeps all of the lake as files, which stages and dbt read. Beside them, a record of each object has its ETag
and the checksum that the file had: an object is replaced only if it still is the version of the record (If-Match), and
a new one is put only where there is none (If-None-Match). Nothing here deletes a partition's object, which becomes empty
instead. An object that is gone was deleted by somebody else; a machine that has the file puts it again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import threading
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longtail.errors import LakeError, single_line
from longtail.progress import Progress
from longtail.storage.files import atomic_file
from longtail.storage.fingerprints import fingerprint
from longtail.storage.lake_files import checksum_of, damage_of, stamp_of
from longtail.tables import TABLES

if TYPE_CHECKING:
    from obstore.store import RetryConfig, S3Store

STORE = "LONGTAIL_OBJECT_STORE"
_KEPT_VERSIONS = 3
_ADDRESS = re.compile(r"s3://[a-z0-9][a-z0-9.-]+(/[\w=-][\w.=-]*)*/?", re.ASCII)
_FILE = re.compile(r"[^._/][^/]*\.parquet")
_KEYS = re.compile(r"//[^/@\s]+@")
_LARGE = 1 << 26
"""Bytes. A larger file of the lake is put alone, since it is in memory meanwhile; one of a version is put in parts of
this size, of which a store takes 10,000."""
_PARTS_AT_ONCE = 4
_RECORDS = ".stored"
_AT_ONCE = 8
_PATIENT: RetryConfig = {"max_retries": 9_999}
"""Three minutes of attempts; ten, the default, are over within seconds, while a server still restarts."""
_TRIES = 3
_LOG = logging.getLogger("longtail")


@dataclass(frozen=True)
class _Record:
    """The object's ETag and the file's checksum when both had the same content; a removed partition has no checksum."""

    e_tag: str
    checksum: str


class ObjectStore:
    """The objects of one study: `<address>/<study>/lake/<table>/<partition>.parquet`, and `…/published/`.

    `lake`: the folder that has the files. Errors of every method: `LakeError` in one line, if the store refuses or does
    not answer; the files stay, and the next run puts what is missing.
    """

    def __init__(self, address: str, study: str, lake: Path) -> None:
        self.address = f"{address.rstrip('/')}/{study}"
        self._lake = lake
        self._alone = threading.Lock()
        self._records = lake / _RECORDS / fingerprint(self.address)[:16]
        with _errors(self.address):
            self._client = _client(self.address)

    @classmethod
    def of(cls, study: str, lake: Path) -> ObjectStore | None:
        """The store at `$LONGTAIL_OBJECT_STORE`, if that is set."""
        address = os.environ.get(STORE)
        return cls(address, study, lake) if address else None

    def synchronise(self) -> None:
        """Make files and objects the same: what others have replaced is fetched, what is only here is put.

        If both have changed, the object wins: results of models stay in the row cache. Damaged files are left alone.
        """
        e_tags = {meta["path"].removeprefix("lake/"): str(meta["e_tag"]) for meta in self._list("lake/")}
        files = {str(path.relative_to(self._lake)) for path in self._lake.glob("*/*.parquet")}
        names = sorted(filter(_is_partition, files | e_tags.keys()))
        with (
            Progress(_LOG, f"comparing the lake with {self.address}", len(names)) as progress,
            ThreadPoolExecutor(_AT_ONCE) as pool,
        ):
            for _ in pool.map(lambda name: self._match(name, e_tags.get(name)), names):
                progress.add(1)

    def put(self, path: Path) -> None:
        """Put a file of the lake; where another machine has put one since the last comparison, fetch that instead."""
        name = str(path.relative_to(self._lake))
        for _ in range(_TRIES):
            record, checksum = self._record(name), checksum_of(path)
            try:
                metadata = {"fingerprint": stamp_of(path).fingerprint, "checksum": checksum}
                e_tag = self._put(
                    f"lake/{name}", path, {"e_tag": record.e_tag} if record else "create", metadata
                )
                return self._note(name, _Record(e_tag, checksum))
            except FileExistsError:
                if self._fetch(name):
                    return None
            except FileNotFoundError:  # the object was deleted
                self._record_path(name).unlink(missing_ok=True)
        raise LakeError(f"{self.address}/lake/{name}: changes all the time; run again when others have ended")

    def remove(self, path: Path) -> None:
        """Make the object of a file of the lake empty, if it is known here; the file is not touched."""
        name = str(path.relative_to(self._lake))
        record = self._record(name)
        if record and record.checksum:
            with contextlib.suppress(FileExistsError, FileNotFoundError):  # another machine's version stays
                self._note(name, _Record(self._put(f"lake/{name}", b"", {"e_tag": record.e_tag}), ""))

    def publish(self, kind: str, version: str, files: Mapping[str, Path]) -> None:
        """Put files as `published/<kind>/<key>`; `published/<kind>/current.json` then names the version.

        The first part of each key is the version. `current.json` also lists the versions in the order in which machines
        began them; only the last `_KEPT_VERSIONS` stay.
        """
        import obstore

        folder = f"published/{kind}/"
        self._name_version(folder, version, is_whole=False)
        for key, file in files.items():
            with contextlib.suppress(FileExistsError):  # a version never changes
                if file.stat().st_size > _LARGE:
                    self._put_parts(f"{folder}{key}", file)
                else:
                    self._put(f"{folder}{key}", file, "create")
        kept = self._name_version(folder, version, is_whole=True)
        old = [path for name, path in self._published_objects(folder) if name not in kept]
        with _errors(self.address):
            obstore.delete(self._client, old)

    def _published_objects(self, folder: str) -> list[tuple[str, str]]:
        """Version and path of all published objects in `folder`."""
        paths = [str(meta["path"]) for meta in self._list(folder)]
        named = ((path.removeprefix(folder).split("/")[0], path) for path in paths)
        return [(name, path) for name, path in named if name != "current.json"]

    def _name_version(self, folder: str, version: str, *, is_whole: bool) -> list[str]:
        """Make a version the last one in the list of `current.json`, and the current one if it `is_whole`; the list."""
        import obstore

        key = f"{folder}current.json"
        for _ in range(_TRIES):
            known: dict[str, Any] = {}
            mode: Any = "create"
            with contextlib.suppress(FileNotFoundError, ValueError), _errors(f"{self.address}/{key}"):
                answer = obstore.get(self._client, key)
                mode = {"e_tag": str(answer.meta["e_tag"])}
                known = json.loads(bytes(answer.bytes()))
            before = known.get("versions") or sorted({name for name, _ in self._published_objects(folder)})
            versions = [*(other for other in before if other != version), version]
            named: dict[str, Any] = {"version": known.get("version"), "versions": versions}
            if is_whole:
                versions = versions[-_KEPT_VERSIONS:]
                named = {"version": version, "versions": versions}
            with contextlib.suppress(FileExistsError):  # another machine was first, or the answer was lost
                self._put(key, json.dumps(named).encode(), mode)
                return versions
        raise LakeError(f"{self.address}/{key}: changes all the time; run again when others have ended")

    def _match(self, name: str, e_tag: str | None) -> None:
        """Bring one file and its object together; `e_tag` is that of the object, if there is one."""
        path, record = self._lake / name, self._record(name)
        is_there = path.exists() and not damage_of(path)
        is_changed = is_there and (record is None or checksum_of(path) != record.checksum)
        if record and e_tag and e_tag.strip('"') == record.e_tag.strip('"'):
            if is_changed:  # a run was killed before it had put the file
                self.put(path)
            elif record.checksum and not is_there:
                self._fetch(name)
        elif e_tag is None:
            if is_there:
                self.put(path)
        else:
            mine = checksum_of(path) if record and is_changed else None
            theirs = self._fetch(name)
            if theirs is None:
                return
            if mine not in (None, theirs):
                _LOG.warning("%s: another machine has made it, too; its version is taken", path)
            if not theirs:
                path.unlink(missing_ok=True)

    def _fetch(self, name: str) -> str | None:
        """The checksum of the file that is fetched; none of a removed partition, and None if the object is gone."""
        import obstore

        path, checksum = self._lake / name, ""
        try:
            with _errors(f"{self.address}/lake/{name}"):
                answer = obstore.get(self._client, f"lake/{name}")
                if answer.meta["size"]:
                    with atomic_file(path) as temporary:
                        with temporary.open("wb") as file:
                            for chunk in answer:
                                file.write(chunk)
                        if damage_of(temporary):
                            raise LakeError(
                                f"{self.address}/lake/{name} is damaged; delete it, and a machine that has this "
                                "partition puts it again"
                            )
                        checksum = checksum_of(temporary)
        except FileNotFoundError:
            self._record_path(name).unlink(missing_ok=True)
            return None
        self._note(name, _Record(str(answer.meta["e_tag"]), checksum))
        return checksum

    def _put(self, key: str, content: Path | bytes, mode: Any, metadata: Any = None) -> str:
        """The ETag. Errors: `FileExistsError` where the condition `mode` does not hold, `FileNotFoundError`."""
        import obstore

        is_large = isinstance(content, Path) and content.stat().st_size > _LARGE
        with self._alone if is_large else contextlib.nullcontext(), _errors(f"{self.address}/{key}"):
            done = obstore.put(
                self._client, key, content, attributes=metadata, mode=mode, use_multipart=False
            )
        return str(done["e_tag"])

    def _put_parts(self, key: str, file: Path) -> None:
        """Put a file of a version, of any size, without reading it whole. Errors: `FileExistsError`.

        The object appears when its last part has arrived. obstore sends no condition with it (issue 289 of
        arrow-rs-object-store), and a copy with a condition ends at five gigabytes. None is needed: the name of a version
        has a hash of what it was made from, so that machines that put one at the same time put the same, and
        `current.json`, which names it, is put under a condition.
        """
        import obstore

        with _errors(f"{self.address}/{key}"):
            with contextlib.suppress(FileNotFoundError):
                obstore.head(self._client, key)
                raise FileExistsError(key)
            obstore.put(self._client, key, file, chunk_size=_LARGE, max_concurrency=_PARTS_AT_ONCE)

    def _list(self, prefix: str) -> list[Any]:
        import obstore

        # Its answers are short: a store that hangs is noticed after minutes, and the terminal says what is waited for.
        with _errors(self.address), Progress(_LOG, f"waiting for {self.address}"):
            client = _client(self.address, timeout="60s")
            return [meta for batch in obstore.list(client, prefix) for meta in batch]

    def _record_path(self, name: str) -> Path:
        return self._records / name

    def _record(self, name: str) -> _Record | None:
        try:
            return _Record(**json.loads(self._record_path(name).read_bytes()))
        except (FileNotFoundError, ValueError, TypeError):
            return None  # also where a kill cut it off: the object is then fetched

    def _note(self, name: str, record: _Record) -> None:
        path = self._record_path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(record.__dict__), encoding="ascii")
        except OSError as error:
            raise LakeError(f"{path}: could not be written ({error.strerror or error})") from error


def check_store(address: str) -> None:
    """Put an object twice under the conditions that everything here relies on.

    Errors: `LakeError` in one line, if the store cannot be reached, refuses, or ignores conditions.
    """
    import obstore

    if not _ADDRESS.fullmatch(address):
        raise LakeError(f"this is no address of a store: set {STORE} to s3://bucket/folder, without keys")
    if not re.match(r"https?://|$", _endpoint()):
        raise LakeError("AWS_ENDPOINT_URL: give an address that begins with http:// or https://")
    key = f".longtail-{uuid.uuid4().hex}"
    with _errors(address):
        client = _client(
            address.rstrip("/"), {"max_retries": 2, "retry_timeout": timedelta(seconds=20)}, "20s"
        )
        try:
            with contextlib.suppress(*_refusals()):  # the answer to a first attempt was lost
                obstore.put(client, key, b"1", mode="create")
        except FileNotFoundError:
            raise LakeError(f"{address}: there is no such bucket") from None
        try:
            for mode in ("create", {"e_tag": '"00000000000000000000000000000000"'}):
                try:
                    obstore.put(client, key, b"2", mode=mode)  # type: ignore[arg-type]
                except _refusals():
                    continue
                raise LakeError(
                    f"{address}: this server overwrites objects whatever the conditions of a request (If-None-Match, "
                    "If-Match); two machines would lose each other's results. Use a store that heeds them"
                )
        finally:
            obstore.delete(client, key)


def _client(address: str, retries: RetryConfig | None = None, timeout: str = "10m") -> S3Store:
    from obstore.store import S3Store

    endpoint = _endpoint()
    options: Any = {"connect_timeout": "10s", "timeout": timeout, "allow_http": endpoint.startswith("http:")}
    given: Any = {"endpoint": endpoint} if endpoint else {}
    return S3Store.from_url(address, client_options=options, retry_config=retries or _PATIENT, **given)


def _endpoint() -> str:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def _is_partition(name: str) -> bool:
    """Whether a file of the lake, or an object there, belongs to a table that this version has."""
    table, _, file = name.partition("/")
    return table in TABLES and _FILE.fullmatch(file) is not None


def _refusals() -> tuple[type[Exception], ...]:
    from obstore.exceptions import AlreadyExistsError, PreconditionError

    return AlreadyExistsError, PreconditionError


@contextlib.contextmanager
def _errors(what: str) -> Iterator[None]:
    """Errors: `FileExistsError` where a condition did not hold, `FileNotFoundError`, `LakeError` for all others."""
    from obstore.exceptions import BaseError

    try:
        yield
    except _refusals() as error:
        raise FileExistsError(what) from error
    except BaseError as error:
        said = _KEYS.sub("//", single_line(str(error).split("\n\n")[0]))
        raise LakeError(f"{what}: the store did not do what was asked ({said})") from error
