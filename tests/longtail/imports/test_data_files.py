"""Files that are fetched from an address: once, and only if they are what the study expects."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from longtail.errors import SourceError
from longtail.imports.datasets import cache_path, find_file
from longtail.study.imports import Place
from longtail.study.study import Study
from tests.flipped_bits import flip_bit

BODY = bytes(range(256)) * 4_000
RIGHT = hashlib.sha256(BODY).hexdigest()


@contextmanager
def serving(body: bytes = BODY) -> Iterator[tuple[str, list[str]]]:
    """The address of the one file that a server has, and the paths that were asked for."""
    asked: list[str] = []

    class Files(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            if not self.path.endswith("data.tsv"):
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Files)
    threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}/a/data.tsv", asked
    finally:
        http.shutdown()
        http.server_close()


@pytest.fixture
def study(make_study: Callable[[str], Study], hand_text: str, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.delenv("DATA", raising=False)
    return make_study(hand_text)


@pytest.mark.parametrize("sha256", [RIGHT, None])
def test_a_file_is_fetched_once(study: Study, sha256: str | None) -> None:
    with serving() as (url, _):
        place = Place(path_env="DATA", url=url, sha256=sha256)
        found = find_file(place, study)
    assert found.read_bytes() == BODY
    assert found.name == "data.tsv"
    assert found.is_relative_to(study.home.cache)
    assert find_file(place, study) == found  # the server is gone


def test_a_fetched_file_that_is_damaged_is_fetched_again(
    study: Study, caplog: pytest.LogCaptureFixture
) -> None:
    with serving() as (url, asked):
        found = find_file(Place(url=url), study)
        flip_bit(found)
        assert find_file(Place(url=url), study).read_bytes() == BODY
    assert len(asked) == 2
    assert "data.tsv does not match its checksum: it is fetched again" in caplog.text


def test_the_users_own_file_comes_first(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.tsv"
    own.write_text("of another checksum")
    monkeypatch.setenv("DATA", str(own))
    with serving() as (url, asked):
        assert find_file(Place(path_env="DATA", url=url, sha256=RIGHT), study) == own
        monkeypatch.setenv("DATA", str(tmp_path / "none.tsv"))
        with pytest.raises(SourceError, match=r"none\.tsv: there is no such file"):
            find_file(Place(path_env="DATA", url=url), study)
    assert asked == []


def test_a_file_with_another_checksum_is_moved_aside(study: Study) -> None:
    with serving(BODY[::-1]) as (url, asked):
        place = Place(path_env="DATA", url=url, sha256=RIGHT)
        other = hashlib.sha256(BODY[::-1]).hexdigest()
        with pytest.raises(SourceError) as caught:
            find_file(place, study)
        refused = cache_path(place, study).with_name("data.tsv.refused")
        assert str(caught.value) == (
            f"{url}: the file's SHA-256 is {other}, and the study expects {RIGHT}; it was moved to {refused} and is not"
            " used; or set DATA to a copy of your own"
        )
        assert refused.read_bytes() == BODY[::-1]
        assert not cache_path(place, study).exists()
        assert cache_path(Place(path_env="DATA", url=url), study) != cache_path(place, study)
        with pytest.raises(SourceError, match="SHA-256"):  # the next run asks the server again
            find_file(place, study)
    assert len(asked) == 2


def test_a_web_page_is_no_file(study: Study) -> None:
    with (
        serving(b"\n<!DOCTYPE html><html>Please log in</html>") as (url, _),
        pytest.raises(SourceError, match="a web page"),
    ):
        find_file(Place(url=url), study)


def test_a_missing_file_is_one_line(study: Study) -> None:
    with (
        serving() as (url, _),
        pytest.raises(SourceError, match=r"none\.tsv: answered 404.*; or set DATA to a copy of your own"),
    ):
        find_file(Place(path_env="DATA", url=url.replace("data.tsv", "none.tsv")), study)
