"""Which home of `make run` the suite reads, and the order of its groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import LONGEST, MADE_FROM, PROJECT, is_finished


@pytest.mark.parametrize("changed", [*MADE_FROM[:3], "longtail/deep"])
def test_a_home_is_read_until_what_it_is_made_from_changes(tmp_path: Path, changed: str) -> None:
    home = tmp_path / "data"
    for name in MADE_FROM:
        path = tmp_path / name
        if not path.suffix:
            (path / "deep/__pycache__").mkdir(parents=True)
            path = path / "deep/file.sql"
        path.touch()
        os.utime(path, (1_000, 1_000))
    assert not is_finished(home, tmp_path)
    (home / "published").mkdir(parents=True)
    (home / "published/inputs").touch()
    assert is_finished(home, tmp_path)
    (tmp_path / "longtail/deep/__pycache__/later.pyc").touch()
    os.utime(home / "published/inputs", (2_000, 2_000))
    assert is_finished(home, tmp_path)
    (tmp_path / changed / "new.py").touch()
    assert not is_finished(home, tmp_path)


def test_long_groups_are_there_and_begin_first(request: pytest.FixtureRequest) -> None:
    assert [name for name in LONGEST if "/" in name and not (PROJECT / name).exists()] == []
    groups = [item.get_closest_marker("xdist_group").args[0] for item in request.session.items]
    ranks = [LONGEST.index(group) if group in LONGEST else len(LONGEST) for group in groups]
    assert ranks == sorted(ranks)
    assert not request.config.option.loadscopereorder
