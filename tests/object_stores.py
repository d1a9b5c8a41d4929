"""A store that speaks S3, in this process: moto, and in front of it the faults that a test asks for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3

BUCKET = "bucket"
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret-of-the-store", "AWS_REGION": "us-east-1"}
Answer = Iterable[bytes]


class S3Server:
    """A server on 127.0.0.1 with one empty bucket. The attributes may be changed at any time.

    `address`: where a study's objects go. `refuse`: called with method and path of each request; a status instead of
    None is what the server answers without doing anything. `lose`: the same, after it has done what was asked.
    `cuts`: after so many bytes, the next answers with an object end. `ranges`: of those requests.
    `before`: called before each request. `unheeded`: which of the headers If-Match and If-None-Match have no effect.
    """

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._one = threading.Lock()
        self._store: Any = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self.address = f"s3://{BUCKET}/some/folder"
        self.environment = {**KEYS, "AWS_ENDPOINT_URL": self.endpoint, "LONGTAIL_OBJECT_STORE": self.address}
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
            region_name=KEYS["AWS_REGION"],
        )
        self._without_faults()
        self.client.create_bucket(Bucket=BUCKET)

    def _without_faults(self) -> None:
        self.refuse: Callable[[str, str], int | None] = lambda method, path: None
        self.lose: Callable[[str, str], int | None] = lambda method, path: None
        self.before: Callable[[str, str], None] = lambda method, path: None
        self.unheeded: tuple[str, ...] = ()
        self.cuts: list[int] = []
        self.ranges: list[str | None] = []

    def reset(self) -> None:
        """Remove all faults and all objects."""
        self._without_faults()
        for key in self.objects():
            self.client.delete_object(Bucket=BUCKET, Key=f"some/folder/{key}")

    def objects(self) -> dict[str, bytes]:
        """The content of every object, by its key below the address."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="some/folder/")
        keys = [one["Key"] for page in pages for one in page.get("Contents", ())]
        return {key.removeprefix("some/folder/"): self._content(key) for key in keys}

    def close(self) -> None:
        self.reset()  # moto keeps objects as long as the process lives
        self._server.shutdown()

    def _content(self, key: str) -> bytes:
        content: bytes = self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return content

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Answer:
        asked = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        is_tested = "Boto3" not in environ.get("HTTP_USER_AGENT", "")
        if is_tested:
            self.before(*asked)
            if status := self.refuse(*asked):
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                return _refused(status, start_response)
        unheeded = {f"HTTP_{name.upper().replace('-', '_')}" for name in self.unheeded}
        environ = {name: value for name, value in environ.items() if name not in unheeded}
        with self._one:  # moto itself does not keep a condition and its write together
            if is_tested and (status := self.lose(*asked)):
                list(self._store(environ, lambda *_: None))
                return _refused(status, start_response)
            content = list(self._store(environ, start_response))
        if is_tested and self.cuts and asked[0] == "GET" and asked[1].endswith(".parquet"):
            return self._cut(b"".join(content), environ.get("HTTP_RANGE"))
        return content

    def _cut(self, content: bytes, asked: str | None) -> Answer:
        self.ranges.append(asked)
        yield content[: self.cuts.pop(0)]
        raise ConnectionAbortedError


def _refused(status: int, start_response: Callable[..., Any]) -> Answer:
    start_response(f"{status} Fault", [("Content-Type", "application/xml")])
    return [b"<Error><Code>Fault</Code><Message>a fault of the test</Message></Error>"]


@contextmanager
def s3_server() -> Iterator[S3Server]:
    server = S3Server()
    try:
        yield server
    finally:
        server.close()
