"""Page view dumps: the same numbers as the API's, with any other content in the file."""

from __future__ import annotations

import bz2
import logging
from collections import Counter
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.generated_wiki import write_dump
from longtail.errors import SourceError
from longtail.parsing import line_files
from longtail.sandbox.dumps import page_view_lines
from longtail.transfer.downloads import download_dump
from longtail.wikimedia.page_view_dump import address, read_page_views

LOG = logging.getLogger("test")
MONTH = "2026-03"


def test_the_server_gives_the_same_file(world, server, client, tmp_path: Path, log) -> None:
    url = address(f"{server.base_url}/other/pageview_complete/monthly", MONTH)
    assert url.endswith("/2026/2026-03/pageviews-202603-user.bz2")
    path = download_dump(client, url, tmp_path / "cache" / "dump.bz2", log)
    assert bz2.decompress(path.read_bytes()).decode() == "".join(page_view_lines(world, MONTH))


def _plain_reading(lines: list[bytes], titles: list[str]) -> dict[str, int]:
    """A simple reference implementation: line by line, field by field."""
    found: Counter[str] = Counter()
    present = set()
    for line in lines:
        try:
            fields = line.decode().split(" ")
        except UnicodeDecodeError:
            continue
        if len(fields) == 5 and fields[2] in ("desktop", "mobile-web", "mobile-app"):
            fields.insert(2, "null")
        elif len(fields) == 5:
            fields.append("")
        if (
            len(fields) != 6
            or fields[0] != "en.wikipedia"
            or fields[3] not in ("desktop", "mobile-web", "mobile-app")
        ):
            continue
        title = fields[1].replace("_", " ")
        if len(title) > 2 and title[0] == title[-1] == '"' and '\\"' in title:
            title = title[1:-1].replace('\\"', '"')
        if title in titles and fields[4].isascii() and fields[4].isdigit():
            found[title] += int(fields[4])
            present.add(title)
    return {title: found[title] for title in present}


_TITLES = [
    "Ada",
    "Ada Lovelace",
    "Ω",
    '"Heroes"',
    '"',
    "a'b",
    "null",
    "NA",
    "x\\n",
    "-",
    "C# (language)",
    "100% Wolf",
    "AC/DC",
]
_SMALL = [1, 3, 17, 64, 500, 4 << 20]  # bytes read at a time: chunks end at any byte of a line


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_lines_give_the_sums_of_a_simple_reader(tmp_path_factory, data) -> None:
    part = st.sampled_from
    titles = [title.replace(" ", "_") for title in _TITLES]
    quoted = ['"{}"'.format(title.replace('"', '\\"')) for title in titles if '"' in title]
    line = st.builds(
        lambda *fields: " ".join(fields).encode(),
        part(
            [
                "en.wikipedia",
                "en.wikipedia",
                "de.wikipedia",
                "en.m.wikipedia",
                "en.wikipedia.m",
                "een.wikipedia",
            ]
        ),
        part(titles + quoted),
        part(["12", "null"]),
        part(["desktop", "mobile-web", "mobile-app", "fridge"]),
        part(["0", "7", "123456", "x", "-3", "1.5", "٣"]),
        part(["A1", "A1B2", "Z1[2\\3]4^5_6", ""]),
    )
    broken = part(
        [b"", b" ", b"      ", b"<html>", b"en.wikipedia", b"en.wikipedia ", b"en.wikipedia Ada",
         b"en.wikipedia Ada 1 desktop 5", b"en.wikipedia Ada desktop 6 A6", b"\xff\xfe \x00",
         b"en.wikipedia A\xffda 1 desktop 3 A3", b"en.wikipedia Ada 1 desktop 3 A3 more",
         b"\xff Ada 1 desktop 3 A3"]
    )  # fmt: skip
    lines = data.draw(st.lists(st.one_of(line, line, broken), max_size=40))
    lines.insert(data.draw(st.integers(0, len(lines))), b"en.wikipedia Bob 1 desktop 3 A3")
    path = tmp_path_factory.mktemp("views") / "dump"
    path.write_bytes(b"".join(one + b"\n" for one in lines))
    with mock.patch.object(line_files, "BLOCK", data.draw(part(_SMALL))):
        read = read_page_views(path, _TITLES, LOG)
    assert read.views == _plain_reading(lines, _TITLES)
    assert read.n_lines == len(lines)


def test_lines_of_real_dumps(tmp_path: Path, log) -> None:
    """Forms of lines in dumps of several years: quoted titles, no page, no days, no page id."""
    lines = [
        "aa.wikibooks - null mobile-web 4 I1O2R1",
        "en.wikipedia - null desktop 9000 A9000",
        "en.wikipedia ! 3632887 desktop 31 A1B30",
        'en.wikipedia "\\"Heroes\\"_(David_Bowie_album)" 172654 desktop 70 A2B68',
        'en.wikipedia "\\"Heroes\\"_(David_Bowie_album)" 172654 mobile-web 30 [10\\10]10',
        "en.wikipedia AC/DC 23 mobile-app 5 _5",
        "en.wikipedia 100%_Wolf null desktop 6 A6",
        "en.wikipedia 100%25_Wolf null desktop 600 A600",
        "en.wikipedia Beyoncé desktop 8 A8",
        "en.wikipedia Beyoncé 2 mobile-web 4",
        "en.wikipedia Ada_Lovelace 974 desktop 12 A12",
        "en.wikipedia ada_Lovelace null desktop 500 A500",
        "en.m.wikipedia Ada_Lovelace 974 mobile-web 1000 A1000",
        "en.wikipedia.org Ada_Lovelace 974 desktop 1000 A1000",
        "en.wikiquote Ada_Lovelace 974 desktop 1000 A1000",
        "zh.wikipedia Ada_Lovelace null desktop 1 F1",
    ]
    path = tmp_path / "dump"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    titles = ["!", '"Heroes" (David Bowie album)', "AC/DC", "100% Wolf", "Beyoncé", "Ada Lovelace", "Nobody"]
    read = read_page_views(path, titles, log)
    assert read.views == dict(zip(titles, [31, 100, 5, 6, 12, 12], strict=False))
    assert read.rejected.counts == {}


def test_broken_lines_are_put_aside_by_line_number(tmp_path: Path, log) -> None:
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
    assert {(row.row_key, row.reason) for row in read.rejected.rows} == {
        ("3", "line is not UTF-8"),
        ("8", "line is not UTF-8"),
        ("4", "unknown device"),
        ("5", "unknown number of views"),
        ("6", "line has 7 fields, not 6"),
    }
    assert any("Ad\\xe4" in row.raw for row in read.rejected.rows)


def test_a_truncated_dump_is_refused(world, tmp_path: Path, log) -> None:
    path = write_dump(page_view_lines(world, MONTH), tmp_path / "dump.bz2")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SourceError, match="breaks off at byte"):
        read_page_views(path, ["Ada"], log)
    plain = write_dump(page_view_lines(world, MONTH), tmp_path / "dump")
    plain.write_bytes(plain.read_bytes()[:-3])  # the lost bytes may be digits of a number
    with pytest.raises(SourceError, match="breaks off at byte"):
        read_page_views(plain, ["Ada"], log)


def test_another_file_is_refused_as_a_dump(tmp_path: Path, log) -> None:
    path = tmp_path / "other"
    path.write_bytes(b"de.wikipedia Ada 1 desktop 5 A5\n")
    with pytest.raises(SourceError, match=r"holds no line of en\.wikipedia"):
        read_page_views(path, ["Ada"], log)
