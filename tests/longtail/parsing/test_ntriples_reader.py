"""Reading N-Triples files: good lines are read, broken lines are put aside by number."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.errors import SourceError
from longtail.parsing import rdf
from longtail.parsing.line_files import RejectedRows
from longtail.parsing.rdf import read_triples
from longtail.study.source import Source
from longtail.wikimedia.services import rdf_path

GOOD = b"<http://e/s> <http://e/p> <http://e/o%d> ."
BROKEN = [
    b"<http://e/s> <http://e/p> .",
    b"<http://e/s> <http://e/p> <http://e/o>",
    b"<http://e/s> <http://e/p> <relative> .",
    b'<http://e/s> <http://e/p> "open .',
    b'"literal" <http://e/p> <http://e/o> .',
    b"not rdf at all",
    b'<http://e/s> <http://e/p> "\xff\xfe" .',
    b"<http://e/s> <http://e/p> <http://e/o> . extra",
    b'<http://e/s> <http://e/p> "\\uD800" .',
]


def _read(path: Path) -> tuple[set[str], RejectedRows]:
    rejected = RejectedRows()
    objects = {quad.object.value for chunk in read_triples(path, rejected) for quad in chunk}
    return objects, rejected


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(
        st.one_of(st.none(), st.sampled_from(BROKEN), st.just(b"# comment"), st.just(b"")), max_size=60
    ),
    is_gzip=st.booleans(),
    end=st.sampled_from([b"\n", b"\r\n"]),
)
def test_each_line_is_read_or_put_aside_by_its_number(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes | None], is_gzip: bool, end: bytes
) -> None:
    path = tmp_path_factory.mktemp("nt") / "any.name"
    written = [GOOD % 0, *(GOOD % number if line is None else line for number, line in enumerate(lines, 2))]
    data = end.join(written)
    path.write_bytes(gzip.compress(data, 1) if is_gzip else data)
    objects, rejected = _read(path)
    good = [0, *(number for number, line in enumerate(lines, 2) if line is None)]
    assert objects == {f"http://e/o{number}" for number in good}
    expected = [str(number) for number, line in enumerate(lines, 2) if line in BROKEN]
    assert [row.row_key for row in rejected.rows] == expected
    assert all(row.reason.startswith("not N-Triples: ") for row in rejected.rows)


@settings(max_examples=150, deadline=None)
@given(junk=st.binary(max_size=300))
def test_broken_bytes_do_not_damage_good_lines(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    path = tmp_path_factory.mktemp("nt") / "junk.nt"
    path.write_bytes(GOOD % 1 + b"\n" + junk + b"\n" + GOOD % 2 + b"\n")
    objects, _ = _read(path)
    assert {"http://e/o1", "http://e/o2"} <= objects


def test_broken_lines_in_every_chunk_stay_cheap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk with a broken line is parsed twice: as a whole, and line by line."""
    parse, parsed = rdf.ox.parse, []
    monkeypatch.setattr(rdf.ox, "parse", lambda data, **how: parsed.append(len(data)) or parse(data, **how))
    path = tmp_path / "large.nt"
    lines = [GOOD % number if number % 1_000 else BROKEN[0] for number in range(50_000)]
    path.write_bytes(b"\n".join(lines))
    objects, rejected = _read(path)
    assert sum(parsed) <= 2 * path.stat().st_size
    assert (len(objects), len(rejected.rows)) == (49_950, 50)
    assert rejected.rows[1].row_key == "1001"


def test_an_overlong_line_is_put_aside_and_the_next_is_read(tmp_path: Path) -> None:
    path = tmp_path / "long.nt"
    path.write_bytes(GOOD % 1 + b'\n<http://e/s> <http://e/p> "' + b"x" * 5_000_000 + b'" .\n' + GOOD % 2)
    objects, rejected = _read(path)
    assert objects == {"http://e/o1", "http://e/o2"}
    assert [(row.row_key, row.reason) for row in rejected.rows] == [("2", "not N-Triples: longer than 1 MiB")]
    assert len(rejected.rows[0].raw) <= 4_000


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "bom.nt"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD % 1 + b"\n")
    assert _read(path)[1].rows == []


def test_a_truncated_gzip_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.nt.gz"
    whole = gzip.compress(b"\n".join(GOOD % number for number in range(20_000)))
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match="damaged gzip file"):
        _read(path)
    path.write_bytes(whole[:100] + b"\x00" * 50 + whole[150:])
    with pytest.raises(SourceError, match="damaged gzip file"):
        _read(path)


@pytest.mark.parametrize("data", [b"", b"\n\n", b"@prefix a: <http://a/> .\n", b"\x1f\x8b", b"PK\x03\x04"])
def test_a_file_without_a_triple_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "other.nt"
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"other\.nt"):
        _read(path)


def test_missing_variable_file_or_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(kind="rdf_file", snapshot="2026-10", path_env="LONGTAIL_TEST_RDF")
    monkeypatch.delenv("LONGTAIL_TEST_RDF", raising=False)
    with pytest.raises(SourceError, match="LONGTAIL_TEST_RDF is not set"):
        rdf_path(source)
    monkeypatch.setenv("LONGTAIL_TEST_RDF", str(tmp_path / "absent.nt"))
    with pytest.raises(SourceError, match=r"absent\.nt: does not exist; LONGTAIL_TEST_RDF must name"):
        rdf_path(source)
    monkeypatch.setenv("LONGTAIL_TEST_RDF", str(tmp_path))
    with pytest.raises(SourceError, match="is a folder"):
        rdf_path(source)
