"""The sandbox's dumps: one content in three forms, from files and from the server, in the form of the real dumps."""

from __future__ import annotations

import bz2
import re
from pathlib import Path

import pytest

from benchmarks.generated_wiki import write_dump
from longtail.sandbox.dumps import page_view_lines, truthy_lines
from longtail.sandbox.world import World


@pytest.fixture(scope="module")
def world() -> World:
    return World(seed=4, facts_per_relation=30)


def test_large_bzip2_files_have_many_streams(tmp_path: Path) -> None:
    path = write_dump(truthy_lines(World(0, 140)), tmp_path / "facts.nt.bz2")
    data = path.read_bytes()
    assert len(re.findall(rb"BZh91AY&SY", data)) > 1
    assert len(bz2.decompress(data)) > 900_000


def test_page_view_lines_have_the_real_shape(world: World) -> None:
    line = re.compile(r"[a-z.]+ \S+ (\d+|null) (desktop|mobile-web|mobile-app) \d+ ([A-Z]\d+)+\n")
    lines = list(page_view_lines(world, "2026-03"))
    assert [text for text in lines if not line.fullmatch(text)] == []
    projects = [text.split(" ", 1)[0] for text in lines]
    assert projects == sorted(projects)
    assert {"en.wikipedia", "en.wikipedia.m", "de.wikipedia"} <= set(projects)
    days = [sum(map(int, re.findall(r"[A-Z](\d+)", text.split()[5]))) for text in lines]
    assert days == [int(text.split()[4]) for text in lines]
