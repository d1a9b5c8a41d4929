"""Page view dumps: the API's numbers, whatever else the file holds."""

from __future__ import annotations

import bz2
import logging
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_project.core.errors import SourceError
from dagster_project.core.sandbox.dumps import SUFFIXES, page_view_lines, write_dump
from dagster_project.core.sandbox.pages import Pages
from dagster_project.core.wikimedia.dumps import download_dump
from dagster_project.core.wikimedia.pageview_dumps import address, read_page_views

LOG = logging.getLogger("test")
MONTH = "2026-03"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_views_equal_the_world(world, tmp_path: Path, log, suffix: str) -> None:
    path = write_dump(page_view_lines(world, MONTH), tmp_path / f"pageviews{suffix}")
    pages = Pages(world)
    expected = {
        pages.title(entity): world.monthly_views(entity.entity_id, MONTH)
        for entity in world.entities()
        if entity.article_title
    }
    read = read_page_views(path, list(expected), log)
    assert read.views == expected
    assert (read.cut, read.aside.counts) == (None, Counter())


def test_the_server_gives_the_same_file(world, server, client, tmp_path: Path, log) -> None:
    url = address(f"{server.base_url}/other/pageview_complete/monthly", MONTH)
    assert url.endswith("/2026/2026-03/pageviews-202603-user.bz2")
    path = download_dump(client, url, tmp_path / "cache" / "dump.bz2", log)
    assert bz2.decompress(path.read_bytes()).decode() == "".join(page_view_lines(world, MONTH))


def _brute_force(lines: list[bytes], titles: list[str]) -> dict[str, int]:
    found: Counter[str] = Counter()
    present = set()
    for line in lines:
        fields = line.split(b" ")
        if (
            len(fields) == 6
            and fields[0] == b"en.wikipedia"
            and fields[3] in (b"desktop", b"mobile-web", b"mobile-app")
        ):
            try:
                title = fields[1].decode().replace("_", " ")
            except UnicodeDecodeError:
                continue
            if title in titles and fields[4].isdigit():
                found[title] += int(fields[4])
                present.add(title)
    return {title: found[title] for title in present}


_TITLES = [
    "Ada",
    "Ada Lovelace",
    "Ω",
    '"Heroes"',
    "a'b",
    "null",
    "NA",
    "x\\n",
    "-",
    "C# (language)",
    "100% Wolf",
]


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_lines_add_up_as_a_plain_reading_says(tmp_path_factory, data) -> None:
    part = st.sampled_from
    line = st.builds(
        lambda *fields: " ".join(fields).encode(),
        part(["en.wikipedia", "en.wikipedia", "de.wikipedia", "en.wikipedia.m", "een.wikipedia"]),
        part([title.replace(" ", "_") for title in _TITLES]),
        part(["12", "null"]),
        part(["desktop", "mobile-web", "mobile-app", "fridge"]),
        part(["0", "7", "123456", "x", "-3", "1.5"]),
        part(["A1", "A1B2", ""]),
    )
    broken = part([b"", b"en.wikipedia", b"en.wikipedia Ada", b"en.wikipedia Ada 1 desktop 5", b"\xff\xfe \x00",
                   b"en.wikipedia A\xffda 1 desktop 3 A3", b"en.wikipedia Ada 1 desktop 3 A3 more"])  # fmt: skip
    lines = data.draw(st.lists(st.one_of(line, line, broken), max_size=40))
    lines.insert(data.draw(st.integers(0, len(lines))), b"en.wikipedia Bob 1 desktop 3 A3")
    path = tmp_path_factory.mktemp("views") / "dump"
    path.write_bytes(b"".join(one + b"\n" for one in lines))
    read = read_page_views(path, _TITLES, LOG)
    assert read.views == _brute_force(lines, _TITLES)
    assert read.n_lines == len(lines)


def test_what_is_broken_is_put_aside_by_its_line_number(tmp_path: Path, log) -> None:
    lines = [
        b"de.wikipedia Ada 1 desktop",
        b"en.wikipedia Ada 1 desktop 5 A5",
        b"en.wikipedia Ad\xe4 1 desktop 5 A5",
        b"en.wikipedia Ada 1 fridge 5 A5",
        b"en.wikipedia Ada 1 desktop five A5",
        b"en.wikipedia Ada Lovelace 1 desktop 5 A5",
        b"en.wikipedia Ada null mobile-web 2 B2",
        b"en.wikipedia Ad\xe4 1 mobile-web 6 A6",
    ]
    path = tmp_path / "dump"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    read = read_page_views(path, ["Ada", "Missing"], log)
    assert read.views == {"Ada": 7}
    assert {(row.row_key, row.reason) for row in read.aside.rows} == {
        ("3", "line is not UTF-8"),
        ("8", "line is not UTF-8"),
        ("4", "unknown device"),
        ("5", "unknown number of views"),
        ("6", "line has 7 fields, not 6"),
    }
    assert any("Ad\\xe4" in row.raw for row in read.aside.rows)


def test_a_cut_dump_is_used_only_if_asked(world, tmp_path: Path, log) -> None:
    path = write_dump(page_view_lines(world, MONTH), tmp_path / "dump.bz2")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SourceError, match="breaks off at byte"):
        read_page_views(path, ["Ada"], log)
    plain = write_dump(page_view_lines(world, MONTH), tmp_path / "dump")
    plain.write_bytes(plain.read_bytes()[:-3])  # the digits of a number may be among what is lost
    assert "breaks off" in (read_page_views(plain, ["Ada"], log, accept_cut=True).cut or "")


def test_another_file_is_no_dump(tmp_path: Path, log) -> None:
    path = tmp_path / "other"
    path.write_bytes(b"de.wikipedia Ada 1 desktop 5 A5\n")
    with pytest.raises(SourceError, match=r"holds no line of en\.wikipedia"):
        read_page_views(path, ["Ada"], log)


def test_lines_need_no_order_and_chunks_no_fitting_borders(tmp_path: Path, log) -> None:
    draw = random.Random(1)
    lines = [b"%s T%d %d desktop %d A1" % (draw.choice([b"en.wikipedia", b"fr.wikipedia"]), draw.randrange(99), n, n)
             for n in range(250_000)]  # fmt: skip
    path = tmp_path / "dump"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    assert path.stat().st_size > 2 * (4 << 20)
    titles = [f"T{number}" for number in range(120)]
    assert read_page_views(path, titles, log).views == _brute_force(lines, titles)
