"""Rows of CSV, TSV and JSON lines: round trips, and every way in which a file can be broken."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_project.core.errors import SourceError
from dagster_project.core.imports.lines import LONGEST_FIELD, LONGEST_LINE
from dagster_project.core.imports.records import (
    RejectedRows,
    file_hashes,
    header_of,
    json_texts,
    read_delimited,
    read_json_lines,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


def written(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(
    path: Path, required: Sequence[str] = ("a", "b"), delimiter: str = ","
) -> tuple[list[dict[str, str]], RejectedRows]:
    rejected = RejectedRows(path.name)
    return [record.fields for record in read_delimited(path, delimiter, required, rejected)], rejected


@pytest.mark.parametrize(
    ("header", "delimiter", "columns"),
    [
        ('"a;b;c;d",e,f', ",", ["a;b;c;d", "e", "f"]),
        ('"one,two,three";b', ";", ["one,two,three", "b"]),
        ('a\t"b,c,d ""e, f"""\n', "\t", ["a", 'b,c,d "e, f"']),
        ("a", ",", ["a"]),
    ],
)
def test_a_sign_within_quotes_is_no_delimiter(
    tmp_path: Path, header: str, delimiter: str, columns: list[str]
) -> None:
    assert header_of(written(tmp_path / "file.csv", header)) == (delimiter, columns)


@settings(max_examples=60, deadline=None)
@given(
    table=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8),
    delimiter=st.sampled_from([",", "\t"]),
    end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    bom=st.booleans(),
)
def test_what_python_writes_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    table: list[tuple[str, str]],
    delimiter: str,
    end: str,
    quoting: Literal[0, 1],
    bom: bool,
) -> None:
    path = tmp_path_factory.mktemp("csv") / "file"
    with path.open("w", encoding="utf-8-sig" if bom else "utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter=delimiter, lineterminator=end, quoting=quoting)
        writer.writerows([("a", "b"), *table])
    if quoting == csv.QUOTE_MINIMAL and end == "\n":
        table = [(first, as_last_value(second, delimiter)) for first, second in table]
    found, rejected = rows(path, delimiter=delimiter)
    assert [(row["a"], row["b"]) for row in found] == table
    assert rejected.rows == []


def as_last_value(text: str, delimiter: str) -> str:
    """What the last value of a row means once Python has written it before a line feed, quoted only where it must be.

    Python may leave a carriage return without quotes. At the end of a row it is then the first half of CR LF.
    """
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(["", text])
    return text if line.getvalue().endswith('"\n') else text.removesuffix("\r")


def test_a_carriage_return_at_the_end_of_a_row_belongs_to_the_line_end(tmp_path: Path) -> None:
    found, rejected = rows(written(tmp_path / "file", 'a,b\n1,\r\n2,"\r"\n3,4\r5\n'))
    assert [(row["a"], row["b"]) for row in found] == [("1", ""), ("2", "\r"), ("3", "4\r5")]
    assert rejected.rows == []


@settings(max_examples=150, deadline=None)
@given(content=st.binary(max_size=200))
def test_any_bytes_are_rows_or_put_aside_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = written(tmp_path_factory.mktemp("csv") / "file", b"a,b\n" + content)
    try:
        found, rejected = rows(path)
    except SourceError as error:
        refused = str(error)
    else:
        refused = ""
    if refused:
        assert refused.startswith(str(path))
        assert "\n" not in refused
        return
    for row in found:
        assert not any("\0" in value or "\udc80" <= value[:1] <= "\udcff" for value in row.values())
    assert all(row.reason for row in rejected.rows)
    if content.strip():
        assert found or rejected.rows


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        ("a,b\n1,2\n".encode("utf-16"), "UTF-16"),
        ("a,b\n1,2\n".encode("utf-16-le"), "UTF-16"),
        ("a,b\n1,2\n".encode("utf-32"), "UTF-16"),
        (b"a,c\n1,2\n", "column b is missing; expected a, b; its header has: a, c"),
        (b"a,b,a\n1,2,3\n", "column a is there twice"),
        (b'a,b\n1,2\n3,"open\nand on', "row 2 (line 3) opens a quote that is never closed"),
        (b'a,"b\n', "header cannot be read"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = written(tmp_path / "file.csv", content)
    with pytest.raises(SourceError, match=str(path)) as caught:
        rows(path)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"1", "1 fields where the header has 2"),
        (b"1,2,3", "3 fields where the header has 2"),
        (b"caf\xe9,2", "column a: byte 0xe9 is not UTF-8 (is the file Latin-1? save it as UTF-8)"),
        (b"1,a\0b", "column b: holds a NUL character"),
        (
            b"1,a\r2,b",
            "3 fields where the header has 2; a CR in it is no end of a row, as the file's rows end in LF",
        ),
        (b'1,"x"y', "line 3: not a row of this format: ',' expected after '\"'"),
        (b"1," + b"x" * (LONGEST_FIELD + 1), "field larger than field limit"),
    ],
)
def test_one_bad_row_is_put_aside_and_the_others_stay(tmp_path: Path, line: bytes, reason: str) -> None:
    found, rejected = rows(written(tmp_path / "file.csv", b"a,b\n0,first\n" + line + b"\n9,last\n"))
    assert [row["a"] for row in found] == ["0", "9"]
    (row,) = rejected.rows
    assert row.row_key == "file.csv row 2"
    assert reason in row.reason


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_lone_cr_is_a_character_of_its_field(tmp_path: Path, end: str, quote: str) -> None:
    content = end.join(["a,b", f"{quote}one\rtwo{quote},x", "\ry,z", ""])
    found, rejected = rows(written(tmp_path / "file.csv", content))
    assert found == [{"a": "one\rtwo", "b": "x"}, {"a": "\ry", "b": "z"}]
    assert rejected.rows == []


@settings(max_examples=40, deadline=None)
@given(table=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8))
def test_a_file_whose_lines_end_in_cr(
    tmp_path_factory: pytest.TempPathFactory, table: list[tuple[str, str]]
) -> None:
    table = [(a.replace("\n", " "), b.replace("\n", " ")) for a, b in table]
    path = tmp_path_factory.mktemp("csv") / "file"
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\r", quoting=csv.QUOTE_ALL).writerows([("a", "b"), *table])
    found, rejected = rows(path)
    assert [(row["a"], row["b"]) for row in found] == table
    assert rejected.rows == []


def test_lines_ending_in_cr_are_read_in_pieces(tmp_path: Path) -> None:
    long = b"x" * (LONGEST_LINE + 5)
    path = written(tmp_path / "file.csv", b"a,b\r" + b"1,2\r" * 400_000 + b"3," + long + b"\r5,6")
    found, rejected = rows(path)
    assert len(found) == 400_001
    assert found[-1] == {"a": "5", "b": "6"}
    assert len(rejected.rows) == 1


def test_a_line_of_any_length_is_read_in_bounded_memory(tmp_path: Path) -> None:
    path = written(tmp_path / "file.csv", b"a,b\n1," + b"x" * (LONGEST_LINE + 5) + b"\n3,4\n")
    found, rejected = rows(path)
    assert [row["a"] for row in found] == ["3"]
    assert len(rejected.rows) == 1


def test_quoted_line_breaks_quotes_emoji_and_blank_lines(tmp_path: Path) -> None:
    content = 'a,b\r\n"one\r\ntwo","say ""hi"""\r\n\r\n👩‍🔬,é\r\n'
    found, rejected = rows(written(tmp_path / "file.csv", content))
    assert found == [{"a": "one\r\ntwo", "b": 'say "hi"'}, {"a": "👩‍🔬", "b": "é"}]
    assert rejected.rows == []


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[[]]", "['a']", '["a"', "null", "[" * 10_000])
def test_text_columns_that_hold_no_list_of_texts(text: str) -> None:
    assert json_texts(text) is None


@given(st.lists(TEXTS))
def test_lists_of_texts_come_back(texts: list[str]) -> None:
    assert json_texts(json.dumps(texts)) == texts


def test_an_overlong_json_line_is_put_aside(tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl", b'{"a": "' + b"x" * LONGEST_LINE + b'"}\n{"a": 1}\n')
    rejected = RejectedRows(path.name)
    assert list(read_json_lines(path, rejected)) == [(2, {"a": 1})]
    assert [row.reason for row in rejected.rows] == ["a line of at most 16,777,216 bytes was expected"]


def test_json_lines_by_number(tmp_path: Path) -> None:
    path = written(
        tmp_path / "log.jsonl", b'\xef\xbb\xbf{"a": 1}\r\n\nnot json\n[1]\n{"b": "\xe9"}\n{"c": 2}'
    )
    rejected = RejectedRows(path.name)
    assert list(read_json_lines(path, rejected)) == [(1, {"a": 1}), (6, {"c": 2})]
    assert [row.row_key for row in rejected.rows] == ["log.jsonl row 3", "log.jsonl row 4", "log.jsonl row 5"]


def test_json_lines_that_end_in_cr(tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl", b'{"a": 1}\r\r{"b": 2}\rbroken')
    rejected = RejectedRows(path.name)
    assert list(read_json_lines(path, rejected)) == [(1, {"a": 1}), (3, {"b": 2})]
    assert [row.row_key for row in rejected.rows] == ["log.jsonl row 4"]


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=120))
def test_any_line_of_json_lines_is_an_object_or_put_aside(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = written(tmp_path_factory.mktemp("log") / "log.jsonl", b'{"a": 1}\n' + content.replace(b"\r", b""))
    rejected = RejectedRows(path.name)
    found = []
    with contextlib.suppress(SourceError):  # many NUL bytes at the start are taken for UTF-16
        found = list(read_json_lines(path, rejected))
    n_lines = sum(
        bool(line.strip()) for line in path.read_bytes().decode("utf-8", "surrogateescape").split("\n")
    )
    assert len(found) + len(rejected.rows) == n_lines or b"\0" in content


def test_hashes_know_names_and_bytes(tmp_path: Path) -> None:
    one, two = written(tmp_path / "one", "x"), written(tmp_path / "two", "x")
    ((name, digest),) = file_hashes([one])
    assert (name, digest) == ("one", hashlib.sha256(b"x").hexdigest())
    assert file_hashes([two]) == [("two", digest)]
    with pytest.raises(SourceError, match="cannot be read"):
        file_hashes([tmp_path])
