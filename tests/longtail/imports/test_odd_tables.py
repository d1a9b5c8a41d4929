"""Tables as people have them: golds within texts, numbers that are none, Parquet's values, files of other kinds."""

from __future__ import annotations

import csv
import gzip
import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longtail.errors import SourceError
from longtail.imports import column_names
from longtail.imports.column_names import MOST_COLUMNS, structure_of
from longtail.imports.table_rows import number_of
from tests.longtail.imports.test_table import (
    asked,
    popularity_of,
    read,
    reasons_of,
    write_json_lines,
    written,
)

A_LIST = 'column answers: a JSON list of texts was expected, as in ["one", "two"]'


def golds_of(path: Path, answers: str, **keys: Any) -> list[str] | str:
    """The gold answers that a cell of a CSV file gives, or the reason why its row was put aside."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(
            [["id", "question", "answers"], [1, "Who?", answers], [2, "When?", "then"]]
        )
    found = read(path, **keys)
    (reason,) = reasons_of(found) or [""]
    return reason or found.questions["1"]["gold_answers"]


@pytest.mark.parametrize(
    ("answers", "golds"),
    [
        ("{'text': array(['Paris', 'Lutetia'], dtype=object), 'answer_start': array([1], dtype=int32)}",
         ["Paris", "Lutetia"]),
        ('{"text": ["Paris"], "answer_start": [1]}', ["Paris"]),
        ("{'value': 'Paris', 'aliases': ['Lutetia'], 'normalized_aliases': ['x'], 'type': 'City'}",
         ["Paris", "Lutetia"]),
        ("['Paris' 'Lutetia'\n 'L\\'Aquila']", ["Paris", "Lutetia", "L'Aquila"]),
        ("['Paris', \"L'Aquila\", None, nan]", ["Paris", "L'Aquila"]),
        ("frozenset({'Paris'})", ["Paris"]),
        ("[np.str_('Paris'), np.int64(7), True]", ["Paris", "7", "True"]),
        ('"[\\"Paris\\"]"', ["Paris"]),
        ("(500) Days of Summer", ["(500) Days of Summer"]),
        ("(I Can't Get No) Satisfaction (live)", ["(I Can't Get No) Satisfaction (live)"]),
        ("(3, -4)", ["(3, -4)"]),
        ("f(x)", ["f(x)"]),
        ('["[1]", "[REC]", "(a, b)"]', ["[1]", "[REC]", "(a, b)"]),
        ("{}", "column answers: at least one answer was expected"),
        ("\u200b", "column answers: at least one answer was expected"),
        ("{'answer': '7', 'unit': 'km'}", f"{A_LIST}, not an object with the keys answer, unit"),
        ("{'value': 'Paris', 'aliases': ['Lutetia'], 'unit': 'km'}", ["Paris", "Lutetia"]),
        ('"Paris"', ["Paris"]),
        ('"Weird Al" Yankovic', ['"Weird Al" Yankovic']),
        ('c("Paris", "Lutetia")', ["Paris", "Lutetia"]),
        ("b'Paris'", "column answers: a text was expected, not \"b'Paris'\""),
        ("defaultdict(<class 'list'>, {'text': ['Paris']})", A_LIST),
        ("Answer(text='Paris')", A_LIST),
        *((text, "column answers: at least one answer was expected") for text in ("nan", "None", "<NA>", "NULL")),
        ("Nan", ["Nan"]),
        ("{'text': [Paris]}", A_LIST),
        ("{Paris,Lutetia}", A_LIST),
        ("array(['a', ..., 'z'], dtype=object)", A_LIST),
        ("['a', __import__('os')]", A_LIST),
        ("['Par\nis']", A_LIST),
        ("[" * 3_000 + "]" * 3_000, A_LIST),
        ("[\"['Paris']\"]", "column answers: a text was expected, not \"['Paris']\""),
    ],
)  # fmt: skip
def test_structured_text_is_its_texts_or_refused_and_never_a_gold_answer(
    tmp_path: Path, answers: str, golds: list[str] | str
) -> None:
    assert golds_of(tmp_path / "f.csv", answers) == golds


@pytest.mark.parametrize(
    ("answers", "separator", "golds"),
    [
        ('["a, b", "c"]', ",", ["a, b", "c"]),
        ("[REC] | REC", "|", ["[REC]", "REC"]),
        ("{'text': ['a']} | b", "|", "column answers: a JSON list of texts was expected"),
        ("a | {'text': ['b']}", "|", "column answers: a text was expected"),
    ],
)
def test_a_sign_between_answers_takes_no_structure_apart(
    tmp_path: Path, answers: str, separator: str, golds: list[str] | str
) -> None:
    found = golds_of(tmp_path / "f.csv", answers, separator=separator)
    assert (found[: len(golds)] if isinstance(golds, str) else found) == golds


def test_structure_that_cannot_be_read_is_an_error_and_runs_no_code() -> None:
    assert structure_of("__import__('os').system('touch ran')") is None
    with pytest.raises(ValueError, match="neither JSON nor"):
        structure_of("{'a': __import__('os').system('touch ran')}")
    with pytest.raises(ValueError, match="short text"):
        structure_of("{'a': '" + "x" * 100_001 + "'}")


@pytest.mark.parametrize(
    ("answers", "golds"), [(["1999.0", "", "12.0"], "1999"), (["1999.0", "3.5", "12.0"], "1999.0")]
)
def test_whole_numbers_of_pandas_are_whole(tmp_path: Path, answers: list[str], golds: str) -> None:
    rows = "".join(f"{i}.0,Who?,{text}\n" for i, text in enumerate(answers))
    (tmp_path / "f.csv").write_text(f"id,question,answers\n{rows}")
    assert read(tmp_path / "f.csv").questions["0"]["gold_answers"] == [golds]


@pytest.mark.parametrize("answer", [
    {"answer": {"value": "Paris", "aliases": ["Lutetia"]}}, {"answer": {"value": "Paris", "aliases": [], "other": 1}},
    {"Answer": {"Value": "Paris", "Aliases": ["Lutetia"], "Type": "City"}},
])  # fmt: skip
def test_the_answer_beside_its_aliases_counts(tmp_path: Path, answer: dict[str, Any]) -> None:
    write_json_lines(tmp_path / "f.jsonl", [{"id": 1, "question": "Who?", **answer}])
    assert "Paris" in read(tmp_path / "f.jsonl").questions["1"]["gold_answers"]


@pytest.mark.parametrize("word", ["nan", "<NA>", "unknown", "?", "None"])
def test_words_for_nothing_are_no_relation_and_no_passage(tmp_path: Path, word: str) -> None:
    rows = f"id,question,answers,relation,passage\n1,Who?,a,{word},{word}\n2,Why?,b,born,A text.\n"
    (tmp_path / "f.csv").write_text(rows)
    found = read(tmp_path / "f.csv")
    assert found.questions["1"]["relation"] is None
    assert [text for _, text in found.passages.values()] == ["A text."]


@pytest.mark.parametrize(("values", "is_refused"), [
    ("1.234 12.345 234.567 950 7", True), ("1.234.567 5", True), ("1.234 12.345 234.567 950.5", False),
    ("1.234 12.345 234.567 9500", False), ("0.234 0.345 0.567 1", False), ("1.234 2.345 7", False),
])  # fmt: skip
def test_a_full_stop_that_may_stand_between_thousands_is_asked_about(
    tmp_path: Path, values: str, is_refused: bool
) -> None:
    rows = "".join(f"{i}?,a,{text}\n" for i, text in enumerate(values.split()))
    (tmp_path / "f.csv").write_text(f"question,answers,popularity\n{rows}")
    if is_refused:
        with pytest.raises(SourceError, match=r"may be \d+ or a number with decimals; say which.*thousands"):
            read(tmp_path / "f.csv")
    keys = {"thousands": "."} if is_refused else {}
    assert len(read(tmp_path / "f.csv", **keys).questions) == len(values.split())


def popularity(path: Path, values: Sequence[str], **keys: Any) -> tuple[list[float | None], list[str]]:
    """The popularity of every question of 20, and what is said of the column; the last ones have 100, 101, …"""
    with path.open("w", encoding="utf-8", newline="") as stream:
        rows = [*values, *(str(100 + n) for n in range(20 - len(values)))]
        csv.writer(stream).writerows(
            [["question", "answers", "popularity"], *([f"{n}?", "a", one] for n, one in enumerate(rows))]
        )
    found = read(path, **keys)
    assert (len(found.questions), found.rejected) == (20, []), "no question is lost"
    said = [line for line in found.says if line.startswith("column popularity:")]
    return [popularity_of(found, row) for row in found.questions.values()], said


@pytest.mark.parametrize(
    "text", ["1,234", "inf", "-inf", "1_234", "1e400", "0x10", "12 %", "12k", "1 234", "٣", "−7", "True", "many"]
)  # fmt: skip
def test_popularity_that_is_no_number_is_unknown_and_told(tmp_path: Path, text: str) -> None:
    (first, second, *_), (line,) = popularity(tmp_path / "f.csv", [text])
    assert (first, second) == (None, 100)
    assert (
        line == f"column popularity: 1 of 20 values cannot be read: {text!r} (row 1); they count as unknown"
    )


@pytest.mark.parametrize("text", ["<NA>", "unknown", "NaT", "n/a", "?", "-", "NaN", ""])
def test_words_for_nothing_are_missing_however_often(tmp_path: Path, text: str) -> None:
    found, said = popularity(tmp_path / "f.csv", [text] * 15)
    assert (found[:15], said) == ([None] * 15, [])


@pytest.mark.parametrize(
    ("text", "sign", "number"),
    [
        ("1,234,567.5", ",", 1_234_567.5), ("12,34,567", ",", 1_234_567), ("7", ",", 7), ("1.5", ",", 1.5),
        ("1.234,5", ".", 1_234.5), ("1,5", ".", 1.5), ("1\u202f234", " ", 1_234), ("1'234", "'", 1_234),
        ("1.5", ".", None), ("1,23", ",", None), ("1,,234", ",", None), (",234", ",", None), ("1,234", " ", None),
    ],
)  # fmt: skip
def test_a_sign_between_thousands(text: str, sign: str, number: float | None) -> None:
    if number is None:
        with pytest.raises(ValueError, match="a number was expected"):
            number_of(text, sign)
    else:
        assert number_of(text, sign) == number


@pytest.mark.parametrize(
    ("values", "advice"),
    [
        (["1,234", "1,000", "1,100", "many"], 'add to the import: thousands: ","'),
        (["1.234.567", "1.234,5", "2.000.000"], 'add to the import: thousands: "."'),
        (["many", "1,234", "few"], "correct them, or leave the column out: columns: {popularity: null}"),
    ],
)
def test_a_column_of_which_more_than_a_tenth_cannot_be_read_stops_the_run(
    tmp_path: Path, values: list[str], advice: str
) -> None:
    first = ", ".join(f"{text!r} (row {row})" for row, text in enumerate(values[:3], 1))
    with pytest.raises(SourceError) as caught:
        popularity(tmp_path / "f.csv", values)
    line = f"column popularity: {len(values)} of 20 values cannot be read: {first}; {advice}"
    assert str(caught.value) == f"{tmp_path / 'f.csv'}: {line}"
    assert len(popularity(tmp_path / "f.csv", values[:2])[1]) == 1, "a tenth is no reason to stop"
    with pytest.raises(SourceError, match=r"1 of 5 values cannot be read"):
        popularity(tmp_path / "f.csv", [*[""] * 15, "many"])


@pytest.mark.parametrize(
    ("column", "value"),
    [("relation", "all"), ("relation", "x" * 300), ("subject", "x" * 300), ("subject", ["a"]), ("passage", {"t": 1})],
)  # fmt: skip
def test_no_optional_column_costs_a_question(tmp_path: Path, column: str, value: object) -> None:
    rows = [
        {"question": f"{n}?", "answers": ["a"], "subject": "s", "relation": "r", "passage": "p"}
        for n in range(20)
    ]
    rows[3][column] = value  # type: ignore[assignment]
    found = read(write_json_lines(tmp_path / "f", rows), columns={column: column})
    assert (len(found.questions), found.rejected) == (20, [])


NO_UTF_8 = pa.array([b"Rome", b"Caf\xe9", b"Oslo"])
YEAR_20000 = pa.array([0, 569_000_000_000, 100_000], pa.timestamp("s"))
ANSWERS: Mapping[str, tuple[pa.Array, list[Any]]] = {
    "texts that are no UTF-8": (
        pa.StringArray.from_buffers(3, *NO_UTF_8.buffers()[1:]), [["Rome"], "byte 0xe9 is not UTF-8", ["Oslo"]],
    ),
    "bytes": (NO_UTF_8, [["Rome"], "byte 0xe9 is not UTF-8", ["Oslo"]]),
    "lists of texts that are no UTF-8": (
        pa.ListArray.from_arrays([0, 1, 2, 3], pa.StringArray.from_buffers(3, *NO_UTF_8.buffers()[1:])),
        [["Rome"], "byte 0xe9 is not UTF-8", ["Oslo"]],
    ),
    "the year 20000": (YEAR_20000, [["1970-01-01"], "that Python cannot hold", ["1970-01-02 03:46:40"]]),
    "long durations": (pa.array([1, 2**62], pa.duration("s")), [["0:00:01"], "that Python cannot hold"]),
    "days": (pa.array([date(2020, 1, 5)]), [["2020-01-05"]]),
    "times": (
        pa.array([datetime(2020, 1, 5), datetime(2020, 1, 5, 3, 4)]), [["2020-01-05"], ["2020-01-05 03:04:00"]],
    ),
    "half and single precision": (pa.array([0.1, 3, 12.25], pa.float32()), [["0.1"], ["3"], ["12.25"]]),
    "double precision": (pa.array([0.1, 1e-5, 1e22]), [["0.1"], ["0.00001"], ["1" + "0" * 22]]),
    "decimals": (pa.array([Decimal("1.50"), Decimal("100")], pa.decimal128(9, 2)), [["1.5"], ["100"]]),
    "structs of SQuAD": (pa.array([{"text": ["Rome"], "answer_start": [1]}]), [["Rome"]]),
    "maps": (pa.array([[("a", "b")], None], pa.map_(pa.string(), pa.string())), ["a text was expected", "at least"]),
    "lists of fixed size": (pa.array([["a", "b"]], pa.list_(pa.string(), 2)), [["a", "b"]]),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_values_of_parquet_are_texts_or_their_row_is_put_aside(tmp_path: Path, name: str) -> None:
    column, expected = ANSWERS[name]
    rows = pa.table({"question": [f"{n}?" for n in range(len(column))], "answers": column})
    more = pa.table({"question": ["last?"], "answers": pa.nulls(1, column.type)})
    pq.write_table(pa.concat_tables([rows, more]), tmp_path / "f")
    kept = [one for one in expected if isinstance(one, list)]
    if not kept:
        with pytest.raises(SourceError, match=expected[0]):
            read(tmp_path / "f")
        return
    found = read(tmp_path / "f", columns={"answers": "answers"})
    assert [row[1] for row in asked(found)] == kept
    for reason, words in zip(
        reasons_of(found)[:-1], [one for one in expected if isinstance(one, str)], strict=True
    ):
        assert words in reason


def test_a_value_of_parquet_that_nobody_reads_costs_nothing(tmp_path: Path) -> None:
    text = pa.StringArray.from_buffers(3, *NO_UTF_8.buffers()[1:])
    table = {"question": list("abc"), "answers": list("xyz")}
    pq.write_table(
        pa.table({**table, "m": pa.StructArray.from_arrays([text, [1, 2, 3]], ["t", "n"])}), tmp_path / "f"
    )
    found = read(tmp_path / "f", columns={"popularity": "m.n"})
    assert [row[3] for row in asked(found)] == [1, 2, 3]
    unknown = pa.array([1, 2, 3], pa.timestamp("s", "Mars/Olympus"))
    pq.write_table(pa.table({**table, "relation": unknown}), tmp_path / "f")
    with pytest.raises(SourceError, match=r"column relation: 3 of 3 values cannot be read: 'a value of type"):
        read(tmp_path / "f")


def test_a_column_of_parquet_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    columns = [pa.array(["a"])] * 3
    pq.write_table(pa.Table.from_arrays(columns, ["question", "answers", "question"]), tmp_path / "f")
    with pytest.raises(SourceError, match="column question appears twice"):
        read(tmp_path / "f")


def zipped(**files: str) -> bytes:
    """A zip of files whose content is as long as that of others."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as packed:
        for name, content in files.items():
            packed.writestr(name, content * 2_000)
    return data.getvalue()


def tarred(content: bytes) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as packed:
        member = tarfile.TarInfo("q.csv")
        member.size = len(content)
        packed.addfile(member, io.BytesIO(content))
    return data.getvalue()


SECRET = "sk-" + "0123456789" * 9
KINDS: Mapping[str, tuple[str | bytes, str]] = {
    "Git LFS": ("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2\nsize 12345\n", "is a Git LFS pointer"),
    "git-annex": ("../.git/annex/objects/aa/bb/SHA256E-s1--x/x", "is a pointer of git-annex"),
    "a web page": ("\n<!DOCTYPE html>\n<html><head><title>Sign in</title>", "is a web page (HTML)"),
    "a pickle": (pickle.dumps({"question": ["a"]}), "is a pickle of Python"),
    "Arrow": (b"ARROW1\0\0" + b"\0" * 60, "is an Arrow file; write Parquet"),
    "Excel": (zipped(**{"docProps/app.xml": "x", "xl/workbook.xml": "x", "[Content_Types].xml": "x"}),
              "is an Excel workbook: save the sheet as CSV"),
    "Calc": (zipped(mimetype="application/vnd.oasis.opendocument.spreadsheet"),
             "is an OpenDocument workbook: save the sheet as CSV"),
    "Numbers": (zipped(**{"Index/Document.iwa": "x"}), "is a document of Numbers: export the sheet as CSV"),
    "zip": (zipped(**{"q.csv": "question,answers\n"}), "is packed as zip: unpack it"),
    "tar": (tarred(b"question,answers\na,b\n"), "is a tar archive; unpack it: tar -xf <file>"),
    "tar.gz": (gzip.compress(tarred(b"question,answers\na,b\n")), "is a tar archive; unpack it"),
    "bytes": (bytes(range(256)), "its first line holds a NUL character"),
    "an environment": (f"A=b\0API_KEY={SECRET}\0".encode(), "its first line holds a NUL character"),
    "a file of keys": (f"API_KEY={SECRET}\nB=c\n", "there are: API_KEY=sk-"),
    "an object with rows in a key": (json.dumps({"n": 1, "rows": [{"question": "a"}]}), "jq -c '.[\"rows\"][]'"),
    "columns of pandas": (json.dumps({"question": {"0": "a"}, "answers": {"0": ["b"]}}), "to_json(orient='records'"),
    "rows by id": (json.dumps({"q1": {"question": "a", "answers": ["b"]}}), "with the keys q1; write one object a line"),
    "Python dicts": ("{'question': 'a', 'answers': ['b']}\n" * 2, "row 1: not JSON: these are Python dicts"),
    "an empty list": ("[]", "holds no row: one JSON object a line was expected"),
    "an error of a service": ('{"error": {"message": "' + SECRET + '"}}', "is one JSON object in place of rows"),
    "TriviaQA without answers": (
        json.dumps({"Data": [{"Question": "q", "QuestionId": "t"}]}, indent=4), "no column has a usual name of answers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_a_file_of_another_kind_is_named_and_little_of_it_shown(tmp_path: Path, name: str) -> None:
    content, words = KINDS[name]
    path = written(tmp_path / "f", content)
    with pytest.raises(SourceError, match=str(path)) as caught:
        read(path)
    said = str(caught.value)
    assert words in said
    assert "\n" not in said
    text = content if isinstance(content, str) else content.decode("latin-1")
    assert not any(text[at : at + 41] in said for at in range(len(text) - 41)), "at most 40 characters"


ARTICLE = {
    "title": "T",
    "paragraphs": [
        5,
        {"context": "About Rome.", "qas": [
            {"id": "1", "question": "Where?", "answers": [{"text": "Rome", "answer_start": 6}] * 2},
            {"id": "2", "question": "Who?", "answers": [], "is_impossible": True},
        ]},
    ],
}  # fmt: skip
TRIVIA = {
    "Question": "Where?", "QuestionId": "1",
    "Answer": {"Aliases": ["Rome", "Roma"], "Value": "Rome", "Type": "City", "NormalizedAliases": ["rome"]},
}  # fmt: skip


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("published", "golds", "passage", "n_aside"),
    [
        ({"data": [ARTICLE, 7], "version": "1.1"}, ["Rome"], [("1", "About Rome.")], 3),
        ({"version": "v2.0", "data": [ARTICLE]}, ["Rome"], [("1", "About Rome.")], 2),
        ({"Data": [TRIVIA], "Domain": "Web", "Version": 1.0}, ["Rome", "Roma"], [], 0),
    ],
)
def test_the_own_json_of_squad_and_triviaqa_is_read(
    tmp_path: Path, published: Any, golds: list[str], passage: list[Any], n_aside: int, indent: int | None
) -> None:
    found = read(written(tmp_path / "f", json.dumps(published, indent=indent)))
    assert {key: (row["question"], row["gold_answers"]) for key, row in found.questions.items()} == {
        "1": ("Where?", golds)
    }
    assert [*found.passages.values()] == passage
    assert len(found.rejected) == n_aside


@pytest.mark.parametrize("indent", [None, 2])
def test_one_object_that_is_a_row_is_one(tmp_path: Path, indent: int | None) -> None:
    content = json.dumps({"question": "Who?", "answers": ["a"], "more": [{"x": 1}]}, indent=indent)
    assert [row[:2] for row in asked(read(written(tmp_path / "f", content)))] == [("Who?", ["a"])]


@pytest.mark.parametrize(
    "name",
    ["gpt_answer", "answer_2", "modelAnswers", "predicted_answr", "inference", "responses", "raw_outputs"],
)
def test_a_column_of_answers_is_never_proposed_for_gold_answers(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError, match="no column has a usual name of answers; name it"):
        read(written(tmp_path / "f", f"question,{name}\na,b\n"))
    with pytest.raises(SourceError, match=r"which columns\.answers names; there are"):
        read(tmp_path / "f", columns={"answers": f"{name}s"})


def test_more_columns_than_a_table_has_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = MOST_COLUMNS + 1
    said = f"has {n:,} columns; at most {MOST_COLUMNS:,} are read (are rows and columns exchanged?)"
    names = [f"c{i}" for i in range(n)]
    for content in (",".join(names) + "\n", "\t".join(names) + "\n"):
        with pytest.raises(SourceError) as caught:
            read(written(tmp_path / "f", content))
        assert str(caught.value) == f"{tmp_path / 'f'}: {said}"
    monkeypatch.setattr(column_names, "MOST_COLUMNS", 3)
    pq.write_table(pa.table({name: [1] for name in names[:4]}), tmp_path / "f")
    with pytest.raises(SourceError, match="has 4 columns; at most 3 are read"):
        read(tmp_path / "f")
    monkeypatch.undo()
    huge = b"PAR1" + (50 << 20).to_bytes(4, "little") + b"PAR1"
    with pytest.raises(SourceError, match=r"has a footer of 52,428,800 bytes; at most"):
        read(written(tmp_path / "f", huge))
    nested = f'{{"question": "a", "answers": ["b"], "scores": {json.dumps(dict.fromkeys(names, 1))}}}'
    assert len(read(written(tmp_path / "f", nested)).questions) == 1
