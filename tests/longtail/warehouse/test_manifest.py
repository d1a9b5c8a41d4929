"""dbt's manifest appears whole, and one process makes it, however many need it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path

import pytest

from longtail.errors import PublishError
from longtail.storage.files import STAGING
from longtail.study.file import load_study
from longtail.study.study import Study
from longtail.warehouse import build
from tests.journeys.commands import small_study

WHOLE = json.dumps({"nodes": {}})


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    return load_study(small_study(tmp_path, "fake:digest"))


def dbt(monkeypatch: pytest.MonkeyPatch, parse: Callable[[Path], object]) -> None:
    """A dbt whose parse writes into the folder that it is given, as `parse` does."""

    def run(_study: Study, *command: str) -> None:
        (folder,) = (Path(after) for word, after in pairwise(command) if "target" in word)
        (folder / "partial_parse.msgpack").write_bytes(b"")
        parse(folder / "manifest.json")

    monkeypatch.setattr(build, "require_dbt", run)


def test_nobody_sees_a_manifest_that_dbt_still_writes(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    dbt(monkeypatch, lambda file: file.write_text(WHOLE))
    path = build.prepare_manifest(study)
    monkeypatch.setattr(build, "project_version", lambda _study: "another")
    path.write_text('{"nodes": {}, "of": "the project before"}')
    before = path.read_bytes()

    def parse(file: Path) -> None:
        file.write_text(WHOLE[:4])
        assert path.read_bytes() == before
        raise PublishError("no room")

    dbt(monkeypatch, parse)
    with pytest.raises(PublishError, match="no room"):
        build.prepare_manifest(study)
    assert path.read_bytes() == before
    assert list((path.parents[1] / STAGING).iterdir()) == []
    dbt(monkeypatch, lambda file: file.write_text(WHOLE))
    assert build.prepare_manifest(study).read_text() == WHOLE


def test_one_process_parses_while_another_waits(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, asked, parses, found = build.only_one, list[Path](), list[Path](), list[str]()
    both = threading.Event()

    def ask(path: Path, message: str | None) -> AbstractContextManager[None]:
        asked.append(path)
        if len(asked) == 2:
            both.set()
        return lock(path, message)

    def prepare() -> None:
        found.append(build.prepare_manifest(study).read_text())

    other = threading.Thread(target=prepare)

    def parse(file: Path) -> None:
        parses.append(file)
        if len(parses) == 1:
            other.start()
            assert both.wait(60)
        file.write_text(WHOLE)

    monkeypatch.setattr(build, "only_one", ask)
    dbt(monkeypatch, parse)
    prepare()
    other.join()
    assert (found, len(parses)) == ([WHOLE, WHOLE], 1)


@pytest.mark.parametrize("damage", [WHOLE[:4], WHOLE + WHOLE, "[]"], ids=["cut", "two", "no object"])
def test_a_damaged_manifest_is_made_again(study: Study, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    dbt(monkeypatch, lambda file: file.write_text(WHOLE))
    path = build.prepare_manifest(study)
    path.write_text(damage)
    assert build.prepare_manifest(study).read_text() == WHOLE
