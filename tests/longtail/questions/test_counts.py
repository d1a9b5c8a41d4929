"""Counts of subjects and answers, in texts against plain loops, and from files of others."""

from __future__ import annotations

import bz2
import gzip
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.errors import LongtailError, SourceError
from longtail.parsing.line_files import RejectedRows
from longtail.questions.build import build_questions
from longtail.questions.counts import count_in_texts, count_questions
from longtail.questions.text_matches import Asked, articles, as_words
from longtail.scoring.match import has_answer
from longtail.storage.lake import Lake
from longtail.study.imports import UNITS, WHATS
from tests.longtail.imports.test_table_in_lake import made

LOG = logging.getLogger("test")
WORD = st.sampled_from(["ab", "b", "C.", "Émile", "d", "Mr.", "He"])
WORDS = st.lists(WORD, min_size=1, max_size=3).map(" ".join)
PASSAGE = st.lists(WORD, max_size=9).map(" ".join)


def brute_force(asked: Asked, texts: list[list[str]], split: Any) -> list[list[int]]:
    """Units × (subject, pair): each unit is searched for each name and each answer by itself."""
    found = []
    for units in (
        [[sentence] for text in texts for passage in text for sentence in split(passage)],
        [[passage] for text in texts for passage in text],
        texts,
    ):
        has = [
            [
                any(has_answer(part, [phrase]) for part in unit for phrase in phrases)
                for phrases in (asked.names, asked.answers)
            ]
            for unit in units
        ]
        found.append([sum(named for named, _ in has), sum(named and answered for named, answered in has)])
    return found


def split_before_capitals(passage: str) -> list[str]:
    """The sentences of these passages: `C.` is an initial, and so are `Mr.` and `d`; only `C. He` ends one."""
    return passage.replace("C. He", "C.\nHe").split("\n")


@given(
    names=st.lists(WORDS, min_size=1, max_size=3),
    answers=st.lists(WORDS, max_size=3),
    texts=st.lists(st.lists(PASSAGE, max_size=3), max_size=3),
)
def test_units_are_those_of_a_search_for_each_name_alone(
    names: list[str], answers: list[str], texts: list[list[str]]
) -> None:
    asked = [Asked(as_words(names), as_words(answers), None), Asked(as_words(answers), as_words(names), None)]
    counts = count_in_texts(asked, texts, LOG)
    assert counts.shape == (len(UNITS), len(WHATS), 2)
    for place, one in enumerate(asked):
        assert counts[:, :, place].tolist() == brute_force(one, texts, split_before_capitals)


def test_articles_are_lines_of_json_or_whole_files(tmp_path: Path) -> None:
    """Broken lines are put aside, packed files are read, and a passage goes from line to line."""
    (tmp_path / "a.txt.bz2").write_bytes(bz2.compress("Één\n\nTwo".encode()))
    lines = [json.dumps({"title": "A", "text": "One\nTwo"}), "{", json.dumps({"text": "Three"})]
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    aside = RejectedRows()
    found = [[*one] for one in articles(sorted(tmp_path.iterdir()), aside)]
    assert [[line for line in one if line] for one in found] == [["Één", "Two"], ["One", "Two"], ["Three"]]
    assert [row.row_key for row in aside.rows] == ["b.jsonl.gz line 2"]


ASKED = """id,question,subject,answer
q0,Who sang Angel?,Angel,Akon
q1,Who sang One?,One,U2
q2,Who sang it?,,U2
"""


def counted(folder: Path, *declared: dict[str, Any]) -> tuple[Lake, list[tuple[str, str, int]]]:
    (folder / "asked.csv").write_text(ASKED, encoding="utf-8")
    study, lake = made(
        folder,
        datasets=[
            {"name": name, "import": {"format": "table", "path": "asked.csv"}} for name in ("d", "same")
        ],
        models=[{"name": "m", "path": "sandbox:s"}],
        counts=[*declared],
    )
    build_questions(study, lake, LOG)
    count_questions(study, lake, LOG)
    rows = lake.read("question_counts").to_pylist()
    return lake, [(row["question_id"], row["count_measure"], row["n_counted"]) for row in rows]


def test_a_question_without_subject_has_no_count_and_one_that_no_text_names_has_zero(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("Angel is by Akon. ANGEL!\nU2 is a band.\n", encoding="utf-8")
    _, found = counted(tmp_path, {"name": "t", "path": "text.txt"})
    assert [n for question, _, n in found if question == "q1"] == [0] * 12
    assert {measure: n for question, measure, n in found if question == "q0"} == {
        "t_subject_sentences": 2, "t_pair_sentences": 1, "t_subject_passages": 1, "t_pair_passages": 1,
        "t_subject_articles": 1, "t_pair_articles": 1,
    }  # fmt: skip
    assert "q2" not in {question for question, _, _ in found}


@pytest.mark.parametrize(
    ("content", "columns", "wanted"),
    [
        (
            {"angel": {"akon": 4, "Shaggy": 9}, "ANGEL": {"Akon!": 5, "akon": 3}, "x": {"u2": 1}},
            {},
            [("q0", 4)],
        ),
        ({"angel": 3, "one": 0, "two": 8}, {}, [("q0", 3), ("q1", 0)]),
    ],
)
def test_published_objects_are_found_by_words_and_the_largest_counts(
    tmp_path: Path, content: dict[str, Any], columns: dict[str, str], wanted: list[tuple[str, int]]
) -> None:
    (tmp_path / "n.json").write_text(json.dumps(content, indent=0), encoding="utf-8")
    _, found = counted(tmp_path, {"name": "theirs", "path": "n.json", "dataset": "d"})
    assert found == [(question, "theirs_count", n) for question, n in wanted]


def test_published_tables_have_ids_or_subjects_and_bad_rows_are_put_aside(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text(
        "id,n\nq2,7\nq0,-1\nq1,2.5\nq1,many\nq1,4\nq1,3\nother,1\n", encoding="utf-8"
    )
    (tmp_path / "pairs.csv").write_text("subject,answer,count\nOne,U2,6\nOne,Bono,8\n", encoding="utf-8")
    lake, found = counted(
        tmp_path,
        {"name": "a", "path": "n.csv", "dataset": "d", "columns": {"count": "n"}},
        {"name": "b", "path": "pairs.csv", "dataset": "d", "columns": {"count": "count"}},
    )
    assert sorted(found) == [("q1", "a_count", 4), ("q1", "b_count", 6), ("q2", "a_count", 7)]
    aside = [row for row in lake.read_all("quarantine").to_pylist() if row["table_name"] == "question_counts"]
    assert [(row["row_key"], row["reason"]) for row in aside] == [
        ("n.csv row 2", "column n: a whole number of at least 0 was expected"),
        ("n.csv row 3", "column n: a whole number was expected, not 2.5"),
        ("n.csv row 4", "column n: a number was expected, not 'many'"),
    ]


@pytest.mark.parametrize(
    ("text", "wanted", "n_aside"),
    [
        ('{"id": "q2", "count": 7}\n{"id": "q0", "count": 4}\n', [("q0", 4), ("q2", 7)], 0),
        ('{"id": "q2", \n{"id": "q0", "count": 4}\n', [("q0", 4)], 1),
        ('\ufeff{"angel": 4}', [("q0", 4)], 0),
        ('{"angel":\n4}', [("q0", 4)], 0),
    ],
)
def test_lines_of_objects_are_a_table_and_one_object_is_none(
    tmp_path: Path, text: str, wanted: list[tuple[str, int]], n_aside: int
) -> None:
    (tmp_path / "n.json").write_text(text, encoding="utf-8")
    lake, found = counted(tmp_path, {"name": "theirs", "path": "n.json", "dataset": "d"})
    assert sorted(found) == [(question, "theirs_count", n) for question, n in wanted]
    assert (
        sum(r["table_name"] == "question_counts" for r in lake.read_all("quarantine").to_pylist()) == n_aside
    )


@pytest.mark.parametrize(
    ("content", "declared", "message"),
    [
        ("{}", {}, "n.csv: holds no count for any question of d"),
        (
            '{"angel": -1}',
            {},
            "holds no count for any question of d; n.csv row 1: column angel: a whole number of at",
        ),
        ("id,n\nq0,1\n", {}, "no column has a usual name of count"),
        ("song,count\nAngel,1\n", {}, "has neither a column id nor subject; name one in the study: columns"),
        (
            "",
            {"dataset": None, "columns": {"count": "n"}},
            "counts[0].columns: goes with dataset: a text has no",
        ),
        ("", {"dataset": "e"}, "counts[0].dataset: 'e' is not one of: d, same"),
        ("", {"dataset": None}, "n.csv: names no subject of the study's questions"),
    ],
)
def test_what_cannot_be_counted_is_one_line(
    tmp_path: Path, content: str, declared: dict[str, Any], message: str
) -> None:
    (tmp_path / "n.csv").write_text(content, encoding="utf-8")
    raw = {"name": "n", "path": "n.csv", "dataset": "d"} | declared
    with pytest.raises((SourceError, LongtailError)) as told:
        counted(tmp_path, {key: value for key, value in raw.items() if value is not None})
    assert message in str(told.value)
    assert "\n" not in str(told.value)
