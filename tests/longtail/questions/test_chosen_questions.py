"""Which questions of a file a dataset asks: the first rows, those of a file of ids, and seeded draws, together."""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from longtail.errors import SourceError
from longtail.questions.build import Choice, choice_slice, choose_questions
from longtail.study.datasets import Dataset
from longtail.study.imports import QUESTIONS, Import, Place
from longtail.study.study import Study

FILE = [
    {"question_id": str(number), "relation": "common" if number % 10 else "rare"} for number in range(200)
]


def ask(study: Study, log: logging.Logger, **keys: Any) -> tuple[list[str], list[str]]:
    """The ids that are asked, and the rows put aside."""
    dataset = Dataset("open", (), imported=Import(QUESTIONS, "table", Place("x")), **keys)
    choice = Choice.of(dataclasses.replace(study, datasets=(dataset,)))
    rows, rejected = choose_questions(choice, dataset, FILE, log)
    return [row["question_id"] for row in rows], [row.row_key for row in rejected]


@pytest.fixture
def ids(tmp_path: Path) -> Place:
    (tmp_path / "ids.txt").write_text(
        "\ufeff# chosen by others\r\n7\r\n\r\n 10 \r\n7\r\n150\r\n", encoding="utf-8"
    )
    return Place("ids.txt")


def test_all_questions_are_asked_where_no_key_chooses(hand_study: Study, log: logging.Logger) -> None:
    asked, _ = ask(hand_study, log)
    assert sorted(asked, key=int) == [row["question_id"] for row in FILE]


def test_the_first_rows_and_a_file_of_ids_choose_together(
    hand_study: Study, log: logging.Logger, ids: Place
) -> None:
    assert sorted(ask(hand_study, log, ids=ids)[0]) == ["10", "150", "7"]
    assert sorted(ask(hand_study, log, ids=ids, first_rows=100)[0]) == ["10", "7"]
    assert ask(hand_study, log, ids=ids, first_rows=9)[0] == ["7"]
    with pytest.raises(
        SourceError, match="any relation among those that first_rows and ids leave; it has: none"
    ):
        ask(hand_study, log, ids=ids, first_rows=5)


def test_a_dataset_that_is_drawn_as_another_asks_the_same_questions(
    hand_study: Study, log: logging.Logger
) -> None:
    limits = {"max_questions_per_relation": 15, "max_questions": 20}
    datasets = [
        Dataset(name, (), drawn_as=other, **limits) for name, other in (("a", None), ("b", None), ("b", "a"))
    ]
    choice = Choice.of(hand_study)
    first, other, same = ([*map(str, choose_questions(choice, one, FILE, log)[0])] for one in datasets)
    assert same == first != other


def test_a_draw_over_all_relations_keeps_their_shares_and_grows_with_the_limit(
    hand_study: Study, log: logging.Logger
) -> None:
    few, more = (ask(hand_study, log, max_questions=n)[0] for n in (30, 60))
    assert (len(few), len(more)) == (30, 60)
    assert set(few) < set(more)
    relations = Counter(FILE[int(question)]["relation"] for question in more)
    assert 1 <= relations["rare"] <= 15  # a tenth of the file
    both, _ = ask(hand_study, log, max_questions_per_relation=15, max_questions=20)
    assert set(both) < set(ask(hand_study, log, max_questions_per_relation=15)[0])
    assert (
        Counter(FILE[int(question)]["relation"] for question in both)["rare"] >= 5
    )  # half of what was drawn before


def test_ids_of_no_question_are_one_line_and_put_aside(
    hand_study: Study, log: logging.Logger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ids.txt"
    path.write_text("7\nx1\nx2\nx3\nx4\n", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert ask(hand_study, log, ids=Place("ids.txt")) == (["7"], [f"ids.txt x{n}" for n in (1, 2, 3, 4)])
    assert caplog.messages == [
        f"dataset open: 4 of 5 ids in {path} are of no question: x1, x2, x3; they go to quarantine"
    ]
    path.write_text("x1\nx2\n", encoding="utf-8")
    with pytest.raises(SourceError, match=r"2 of 2 ids in .*ids.txt are of no question: x1, x2$"):
        ask(hand_study, log, ids=Place("ids.txt"))
    path.write_text("# nothing\n", encoding="utf-8")
    with pytest.raises(SourceError, match=r"dataset open: .*ids.txt holds no id$"):
        ask(hand_study, log, ids=Place("ids.txt"))


def test_every_key_is_part_of_the_fingerprint(hand_study: Study, tmp_path: Path, ids: Place) -> None:
    def stamp(**keys: Any) -> list[Any]:
        dataset = dataclasses.replace(hand_study.datasets[0], **keys)
        return choice_slice(dataclasses.replace(hand_study, datasets=(dataset,)))

    found = [
        stamp(),
        *(stamp(**{key: 5}) for key in ("first_rows", "max_questions", "max_questions_per_relation")),
    ]
    found += [stamp(ids=ids), stamp(drawn_as="other")]
    (tmp_path / "ids.txt").write_text("8\n", encoding="utf-8")
    found.append(stamp(ids=ids))
    assert all(one not in found[:place] for place, one in enumerate(found))
    other_seed = dataclasses.replace(hand_study, seed=9)
    assert choice_slice(other_seed) == choice_slice(hand_study)  # nothing is drawn


def test_a_file_of_ids_may_be_of_objects(hand_study: Study, log: logging.Logger, tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    path.write_text('{"id": 7, "said": "a"}\n{"id": "10"}\n', encoding="utf-8")
    assert sorted(ask(hand_study, log, ids=Place("ids.txt"))[0]) == ["10", "7"]
    for line in ('{"id": 7', '{"key": 7}'):
        path.write_text(line, encoding="utf-8")
        with pytest.raises(SourceError, match=r"ids.txt: an object with key id was expected, not \{"):
            ask(hand_study, log, ids=Place("ids.txt"))
