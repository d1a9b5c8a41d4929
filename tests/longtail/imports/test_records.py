"""Rows of CSV, TSV and JSON lines: round trips, and every way in which a file can be broken."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from longtail.errors import SourceError
from longtail.imports import lines as cells
from longtail.imports.lines import LONGEST_FIELD, LONGEST_LINE
from longtail.imports.records import header_of, json_texts, read_delimited, read_json_lines
from longtail.parsing.line_files import RejectedRows

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


def written(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(
    path: Path, required: Sequence[str] = ("a", "b"), delimiter: str = ",", quoting: str | None = None
) -> tuple[list[dict[str, str]], RejectedRows]:
    rejected = RejectedRows(path.name)
    found = read_delimited(path, delimiter, required, rejected, quoting=quoting)
    return [record.fields for record in found], rejected


@contextlib.contextmanager
def logged() -> Iterator[list[str]]:
    """The lines that are logged meanwhile."""
    words: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: words.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(cells.__name__)
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield words
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


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
@example(table=[(",\n", "")], delimiter=",", end="\n", quoting=csv.QUOTE_ALL, bom=False)
def test_what_python_writes_comes_back(
    tmp_path_factory: pytest.TempPathFactory, table: list[tuple[str, str]], delimiter: str, end: str,
    quoting: Literal[0, 1], bom: bool,
) -> None:  # fmt: skip
    path = tmp_path_factory.mktemp("csv") / "file"
    with path.open("w", encoding="utf-8-sig" if bom else "utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter=delimiter, lineterminator=end, quoting=quoting)
        writer.writerows([("a", "b"), *table])
    if quoting == csv.QUOTE_MINIMAL and end == "\n":
        table = [(first, as_last_value(second, delimiter)) for first, second in table]
    try:
        found, rejected = rows(path, delimiter=delimiter)
    except SourceError as error:
        is_doubtful = "are rows, or one row with a cell over several lines" in str(error)
        found, rejected = rows(path, delimiter=delimiter, quoting="csv" if is_doubtful else None)
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


@settings(max_examples=100, deadline=None)
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
        (b"\n \n,\n", "is empty"),
        (b"\xef\xbb\xbfsep=;\r\na;b\r\n1;2\r\n", "delete this line: tail -n +2 <file> > <new file>"),
        (b"a,b\r1,2\r", "its lines end in CR alone"),
        ("a,b\n1,2\n".encode("utf-16"), "UTF-16"),
        ("a,b\n1,2\n".encode("utf-16-le"), "UTF-16"),
        ("a,b\n1,2\n".encode("utf-32"), "UTF-16"),
        (b"a,c\n1,2\n", "column b is missing; expected a, b; its header has: a, c"),
        (b"a,b,a\n1,2,3\n", "column a appears twice"),
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
        (b'1,"x,y"z', "line 3: not a row of this format: ',' expected after '\"'"),
        (b"1," + b"x" * (LONGEST_FIELD + 1), "field larger than field limit"),
        (b"a,b", "repeats the header"),
        (b'\xef\xbb\xbf"a", "b"', "repeats the header"),
    ],
)
def test_one_bad_row_is_put_aside_and_the_others_stay(tmp_path: Path, line: bytes, reason: str) -> None:
    found, rejected = rows(written(tmp_path / "file.csv", b"a,b\n0,first\n" + line + b"\n9,last\n"))
    assert [row["a"] for row in found] == ["0", "9"]
    (row,) = rejected.rows
    assert row.row_key == "file.csv row 2"
    assert reason in row.reason


CELLS = st.text(st.sampled_from('"\t,\n a\\'), max_size=6)


def as_csv(line: str, delimiter: str) -> list[str] | None:
    """The cells of a line where quotation marks enclose cells; None where it is no such row."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return None


@settings(max_examples=100, deadline=None)
@given(
    table=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=7),
    delimiter=st.sampled_from([",", "\t"]),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
)
def test_rows_with_quoting_come_back_whole_or_the_file_is_refused_by_line(
    tmp_path_factory: pytest.TempPathFactory,
    table: list[tuple[str, ...]],
    delimiter: str,
    quoting: Literal[0, 1],
) -> None:
    path = tmp_path_factory.mktemp("csv") / "file"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n", quoting=quoting)
        writer.writerows([("a", "b", "c"), *table])
    refused = ""
    try:
        found, rejected = rows(path, ("a", "b", "c"), delimiter)
    except SourceError as error:
        refused = str(error)
        found, rejected = rows(path, ("a", "b", "c"), delimiter, "csv")
    words = rf"{path}: lines \d+ to \d+ are rows, or one row with a cell over several lines"
    assert not refused or re.match(words, refused)
    assert [tuple(row.values()) for row in found] == table
    assert rejected.rows == []


@settings(max_examples=100, deadline=None)
@given(
    table=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=7),
    delimiter=st.sampled_from([",", "\t"]),
)
def test_no_row_without_quoting_is_lost_or_merged_or_misread_without_a_word(
    tmp_path_factory: pytest.TempPathFactory, table: list[tuple[str, ...]], delimiter: str
) -> None:
    path = tmp_path_factory.mktemp("csv") / "file"
    table = [tuple(cell.replace("\n", "").replace(delimiter, "") for cell in row) for row in table]
    lines = [delimiter.join(row) for row in table]
    written(path, "".join(f"{line}\n" for line in [delimiter.join("abc"), *lines]))
    whole, rejected = rows(path, ("a", "b", "c"), delimiter, "none")
    assert [tuple(row.values()) for row in whole] == table
    assert rejected.rows == []
    refused = ""
    with logged() as words:
        try:
            found, rejected = rows(path, ("a", "b", "c"), delimiter, "auto")
        except SourceError as error:
            refused = str(error)
    if refused:
        assert re.match(rf"{path}: lines \d+ to \d+ are rows, or .*else quoting: csv$", refused)
        return
    aside = {int(row.row_key.split()[-1]) for row in rejected.rows}
    left = [row for number, row in enumerate(table, 1) if number not in aside]
    assert len(found) == len(left)
    for row, values in zip(left, found, strict=True):
        if tuple(values.values()) != row:
            line = delimiter.join(row)
            are_odd = any("behind" in word for word in words)  # blanks before marks, or backslashes
            assert are_odd or list(values.values()) == as_csv(line, delimiter)
            is_usual = all(re.search(rf'(^|{delimiter}) *"', line) for line in lines)
            is_likely = '""' in "".join(lines)
            assert is_likely or is_usual or aside or words, "nothing says that the marks enclose cells"


def test_in_a_file_with_quoting_one_bad_mark_costs_its_own_row_alone(tmp_path: Path) -> None:
    content = 'a,b\n"1, one",x\n"2" two,x\n"3, three",x\n"4,x\n"5, five","a\nb"\n"6",x\n'
    found, rejected = rows(written(tmp_path / "file.csv", content))
    assert [row["a"] for row in found] == ["1, one", "3, three", "5, five", "6"]
    assert found[2]["b"] == "a\nb"
    assert [(row.row_key, row.reason) for row in rejected.rows] == [
        ("file.csv row 2", "line 3: not a row of this format: ',' expected after '\"'"),
        ("file.csv row 4", "line 5: not a row of this format: ',' expected after '\"'"),
    ]


ENCLOSED = "".join(f'"{n}","Who is {n}?","Name {n}"\n' for n in range(1, 20))
TEXTS_ALONE = "".join(f'{n},"Who is {n}?",Name {n}\n' for n in range(1, 20))


@pytest.mark.parametrize(
    ("names", "good"),
    [('id,question,answers', ENCLOSED), ('"id","question","answers"', ENCLOSED),
     ('"id","question","answers"', TEXTS_ALONE)],
)  # fmt: skip
@pytest.mark.parametrize("quoting", [None, "auto", "csv"])
@pytest.mark.parametrize(
    ("bad", "question"),
    [
        ('"20","Who sang "Hello"?","Name 20"\n', None),
        ('"20","Weird Al" Yankovic is who?,"Name 20"\n', None),
        (r'"20","Who said \"hi\", and why?","Name 20"' "\n", 'Who said "hi", and why?'),
        (r'"20","Who said \"\\\"\" in C:\\","Name 20"' "\n", 'Who said "\\"" in C:\\\\'),
        ('"20","Who said \\"hi\\"\nand \\"ho\\"?","Name 20"\n', 'Who said "hi"\nand "ho"?'),
    ],
)
def test_broken_marks_cost_their_own_row_and_marks_behind_a_backslash_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, names: str, good: str, quoting: str | None, bad: str,
    question: str | None,
) -> None:  # fmt: skip
    path = written(tmp_path / "file.csv", f"{names}\n{good}{bad}")
    caplog.set_level(logging.INFO)
    found, rejected = rows(path, ("id", "question", "answers"), quoting=quoting)
    expected = [{"id": str(n), "question": f"Who is {n}?", "answers": f"Name {n}"} for n in range(1, 20)]
    assert found[:19] == expected
    if question is None:
        assert (len(found), [row.row_key for row in rejected.rows]) == (19, ["file.csv row 20"])
        assert caplog.messages == []
    else:
        assert (found[19:], rejected.rows) == ([{"id": "20", "question": question, "answers": "Name 20"}], [])
        assert caplog.messages == [f"{path}: a quotation mark behind a backslash belongs to the text"]


def test_a_backslash_at_the_end_of_a_cell_is_a_character(tmp_path: Path) -> None:
    content = 'a,b\n"1, one","C:\\"\n"2","say \\""hi\\"""\n"3" three,x\n"4","[""\\""x\\""""]"\n'
    found, rejected = rows(written(tmp_path / "file.csv", content))
    assert [row["b"] for row in found] == ["C:\\", 'say \\"hi\\"', '["\\"x\\""]']
    assert [row.row_key for row in rejected.rows] == ["file.csv row 3"]


@pytest.mark.parametrize("n_plain", [1, 2])
def test_few_enclosed_rows_leave_a_file_without_quoting_and_the_log_says_so(
    tmp_path: Path, n_plain: int
) -> None:
    lines = [
        "id\tquestion\tanswers",
        '1\t"Emma"\t"Austen"',
        *['2\t"Heroes" was sung by whom?\tBowie'] * n_plain,
    ]
    path = written(tmp_path / "file.tsv", "".join(f"{line}\n" for line in lines))
    with logged() as words:
        found, rejected = rows(path, ("id",), "\t", "auto")
    assert [row["question"] for row in found] == ['"Emma"', *['"Heroes" was sung by whom?'] * n_plain]
    assert rejected.rows == []
    (line,) = words
    assert line.endswith("marks around whole cells (in 1 rows) stay in the text unless you set quoting: csv")


@pytest.mark.parametrize(
    ("lines", "found", "aside"),
    [
        (['1, "Who?", "Paris"', '2, "Where?", "Rome, Italy"'], [("Who?", "Paris"), ("Where?", "Rome, Italy")], []),
        (['1, "Who?", "Paris"', '2, Where?, "Rome"', "3, When?, 1815"],
         [("Who?", "Paris"), ("Where?", "Rome"), ("When?", "1815")], []),
        (['"1",  "Who?", ""', '"2", "Say ""a, ""b""", """x"""'], [("Who?", ""), ('Say "a, "b"', '"x"')], []),
        (['1, "Who?", "Paris"', '2, "Who sang "Hi"?", "Ann"', '3, "Where?", "Rome"'],
         [("Who?", "Paris"), ("Where?", "Rome")], ["2"]),
        (['1, "Heroes" was sung by whom?, Bowie', "2, Where?, Rome"],
         [(' "Heroes" was sung by whom?', " Bowie"), (" Where?", " Rome")], []),
        (['1,Who?,"[""a"", ""b""]"', "2, Where?, Rome"], [("Who?", '["a", "b"]'), (" Where?", " Rome")], []),
    ],
)  # fmt: skip
def test_blanks_before_enclosed_cells_are_left_out_where_the_file_is_written_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lines: list[str], found: list[tuple[str, str]], aside: list[str]
) -> None:  # fmt: skip
    path = written(tmp_path / "file.csv", "".join(f"{line}\n" for line in ["id, question, answers", *lines]))
    caplog.set_level(logging.INFO)
    kept, rejected = rows(path, ("id", "question", "answers"))
    assert [(row["question"], row["answers"]) for row in kept] == found
    assert [row.row_key.split()[-1] for row in rejected.rows] == aside
    are_left_out = f"{path}: cells are enclosed behind blanks, which are left out" in caplog.messages
    assert are_left_out == (found[-1][1][:1] != " ")


@pytest.mark.parametrize("above", ["\n", "\r\n \n", ";\n"])
def test_blank_lines_above_the_header_are_no_header(tmp_path: Path, above: str) -> None:
    path = written(tmp_path / "file.csv", f'{above}a;"b"\n1;2\n3;"x" y\n"4";"5;"\n')
    assert header_of(path) == (";", ["a", "b"])
    found, rejected = rows(path, delimiter=";")
    assert [row["a"] for row in found] == ["1", "4"]
    (row,) = rejected.rows
    assert row.row_key == "file.csv row 2"
    assert row.reason.startswith(f"line {above.count(chr(10)) + 3}: ")


def test_lines_that_may_be_rows_or_one_cell_are_refused_until_a_key_says_which(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path / "file.tsv", 'a\tb\n1\t"x\n2\ty\n3\tz"\n4\tw\n')
    for quoting, words in (("auto", r"set quoting: none .*, else quoting: csv"), (None, "in line 2$")):
        with pytest.raises(SourceError, match=rf"file\.tsv: lines 2 to 4 are rows, or one row .*{words}"):
            rows(path, delimiter="\t", quoting=quoting)
    found = {quoting: rows(path, delimiter="\t", quoting=quoting)[0] for quoting in ("csv", "none")}
    assert [row["b"] for row in found["csv"]] == ["x\n2\ty\n3\tz", "w"]
    assert [row["b"] for row in found["none"]] == ['"x', "y", 'z"', "w"]
    with path.open("a") as stream:
        stream.write('5\t"a certain cell\nof several lines"\n')
    assert rows(path, delimiter="\t")[0][0]["b"] == "x\n2\ty\n3\tz"
    assert "1 cells have several lines that look like rows, the first in line 2" in caplog.text


def test_a_long_row_that_was_shortened_is_never_read(tmp_path: Path) -> None:
    """Each of its cells that are left is short enough."""
    part = b"x" * (LONGEST_FIELD - 50_000)
    line = part + b"," + part + b"," + b"y" * LONGEST_LINE
    found, rejected = rows(written(tmp_path / "file.csv", b"a,b,c\n" + line + b"\n1,2,3\n"))
    assert [row["a"] for row in found] == ["1"]
    assert [row.reason for row in rejected.rows] == ["a line of at most 16,777,216 bytes was expected"]


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


def test_json_lines_in_utf_16_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl", '{"a": 1}\n'.encode("utf-16"))
    with pytest.raises(SourceError, match="is not UTF-8 but looks like UTF-16"):
        list(read_json_lines(path, RejectedRows(path.name)))


def test_json_lines_by_number(tmp_path: Path) -> None:
    path = written(
        tmp_path / "log.jsonl", b'\xef\xbb\xbf{"a": 1}\r\n\nnot json\n[1]\n{"b": "\xe9"}\n{"c": 2}'
    )
    rejected = RejectedRows(path.name)
    assert list(read_json_lines(path, rejected)) == [(1, {"a": 1}), (6, {"c": 2})]
    assert [row.row_key for row in rejected.rows] == ["log.jsonl row 3", "log.jsonl row 4", "log.jsonl row 5"]


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
