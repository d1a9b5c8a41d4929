"""Studies that several journeys read, each run once.

The default study is run once, unless LONGTAIL_FINISHED_HOME names a home where it has ended, which tests/conftest.py
sets after `make run`. The small study's journeys share xdist's group `small_study`, those of the default study
`default_study`, so that one process has them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from longtail.storage.home import DEFAULT_STUDY_FILE
from tests.in_process_dbt import put_parsed
from tests.journeys.commands import run_study
from tests.journeys.small_world import Small, write_small_world
from tests.object_stores import s3_server
from tests.warehouses import copy_page, documentation


@pytest.fixture(scope="session")
def finished_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home where `make run` of the default study has ended. It may be the user's: nothing is written there."""
    finished = os.environ.get("LONGTAIL_FINISHED_HOME")
    if finished:
        return Path(finished)
    home = tmp_path_factory.mktemp("default")
    put_parsed(home, DEFAULT_STUDY_FILE)
    done = run_study(home, timeout=1_500)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return home


@pytest.fixture(scope="session")
def marts(finished_home: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The published marts of the default study."""
    with duckdb.connect(str(finished_home / "published/warehouse.duckdb"), read_only=True) as connection:
        connection.execute("set search_path = 'marts'")
        yield connection


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """The small study after its first run, in which one of its models failed.

    What depends on the dbt project alone was there before it.
    """
    folder = tmp_path_factory.mktemp("small")
    study = write_small_world(folder)
    (folder / "person").mkdir()
    put_parsed(folder / "home", study)
    parsed = folder / "home/small/build/dbt/target/partial_parse.msgpack"
    published, was_parsed = folder / "home/small/published", parsed.stat().st_mtime_ns
    published.mkdir()
    copy_page(documentation(), published / "docs.html")
    with s3_server() as store:
        outside = dict.fromkeys(("HOME", "TMPDIR"), str(folder / "person"))
        done = run_study(folder / "home", study, **outside, **store.environment)
        assert done.returncode == 1, done.stdout[-3000:] + done.stderr[-3000:]
        assert parsed.stat().st_mtime_ns == was_parsed, "dbt parsed the project again, which takes it long"
        return Small(folder, study, done.stdout, done.stderr, store.objects())


@pytest.fixture
def changing(small: Small, tmp_path: Path) -> Iterator[Small]:
    """The same, for a test that changes it: put back as it was, times of files included."""
    kept = shutil.copytree(small.folder, tmp_path / "kept", symlinks=True)
    yield small
    shutil.rmtree(small.folder)
    shutil.move(kept, small.folder)
