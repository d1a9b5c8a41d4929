"""Every format in the same trouble: other encodings, broken JSON, rows of noise, hostile files. Nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.errors import SourceError
from longtail.imports.format import ImportedDataset
from longtail.imports.formats.answers.adaptive_retrieval import read_result_file, result_file
from longtail.imports.formats.answers.lm_eval import read_log
from longtail.imports.formats.paraphrases.popqa_tp import read_popqa_tp
from longtail.imports.formats.questions.entity_questions import read_entity_questions
from longtail.imports.formats.questions.popqa import read_popqa
from longtail.imports.formats.questions.table import read_questions
from longtail.parsing.line_files import RejectedRows
from longtail.reference.linking import read_nq_open
from longtail.relations.relation import relation_names, relation_set
from longtail.storage.lake import QuarantinedRow
from longtail.study.imports import Import
from longtail.study.parts import read_part
from tests.imported_files import (
    log_lines,
    popqa_rows,
    popqa_tp_rows,
    result_name,
    result_rows,
    results,
    write_log,
    write_popqa,
    write_popqa_tp,
    write_results,
)
from tools.hostile_files.__main__ import try_case
from tools.hostile_files.cases import CASES

ROWS = popqa_rows(("occupation",), 3)
RIGHT = [True, False, True]
Kept = tuple[int, list[QuarantinedRow]]

BORN = next(r for r in relation_set("entity_questions") if r.property_id == "P19")


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return read_popqa(write_popqa(tmp_path_factory.mktemp("popqa") / "popqa.tsv", ROWS)).questions


def write_questions(path: Path, answers: str) -> Path:
    return write_log(path, [{"question": f"q {i}", answers: ["x"]} for i in range(3)])


def read_table(path: Path) -> ImportedDataset:
    declared = read_part(Import, {"format": "table", "path": path.name}, path, "import")
    return read_questions(path, declared, "d")


def read_results(path: Path, questions: dict[str, Any]) -> Kept:
    rejected, file = RejectedRows(path.name), result_file(path)
    assert file is not None
    return len(list(read_result_file(file, questions, rejected))), rejected.rows


def read_samples(path: Path, questions: dict[str, Any]) -> Kept:
    found, rejected = read_log(path, results("lm_eval"), questions)
    return len(found), rejected


def counted(found: Any, kept: str) -> Kept:
    return len(getattr(found, kept)), found.rejected


FORMATS: dict[str, tuple[str, Callable[[Path], Path], Callable[[Path, dict[str, Any]], Kept]]] = {
    "popqa": (
        "popqa.tsv", lambda path: write_popqa(path, ROWS), lambda path, _: counted(read_popqa(path), "questions"),
    ),
    "popqa_tp": (
        "popqa_tp.csv", lambda path: write_popqa_tp(path, popqa_tp_rows(ROWS, 0)),
        lambda path, questions: counted(read_popqa_tp(path, questions), "wordings"),
    ),
    "adaptive_retrieval": (
        result_name("m", "vanilla", 3),
        lambda path: write_results(path.parent, path.name, result_rows(ROWS, RIGHT)), read_results,
    ),
    "table": (
        "table.jsonl", lambda path: write_questions(path, "answers"),
        lambda path, _: counted(read_table(path), "questions"),
    ),
    "lm_eval": ("samples_x.jsonl", lambda path: write_log(path, log_lines(ROWS, RIGHT)), read_samples),
    "nq_open": (
        "NQ-open.dev.jsonl", lambda path: write_questions(path, "answer"),
        lambda path, _: (len(read_nq_open(path)[0]), read_nq_open(path)[1]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_with_a_byte_order_mark_and_crlf_all_is_read(
    name: str, tmp_path: Path, questions: dict[str, Any]
) -> None:
    file, write, read = FORMATS[name]
    path = write(tmp_path / file)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
    assert read(path, questions) == (3, [])


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_refused_by_name(
    name: str, encoding: str, tmp_path: Path, questions: dict[str, Any]
) -> None:
    file, write, read = FORMATS[name]
    path = write(tmp_path / file)
    path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))
    with pytest.raises(SourceError, match="is not UTF-8 but looks like UTF-16") as caught:
        read(path, questions)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", FORMATS)
def test_a_latin_1_row_is_put_aside_and_the_others_stay(
    name: str, tmp_path: Path, questions: dict[str, Any]
) -> None:
    file, write, read = FORMATS[name]
    path = write(tmp_path / file)
    whole = path.read_bytes().rstrip(b"\r\n")
    last = whole.rindex(b"x" if name in ("nq_open", "table") else b"Answer")
    path.write_bytes(whole[:last] + b"\xe9" + whole[last:])
    n, rejected = read(path, questions)
    told = [row for row in rejected if "n=3" not in row.reason]
    assert (n, len(told)) == (2, 1)
    assert any(word in told[0].reason for word in ("not UTF-8", "codec can't decode"))
    assert told[0].row_key == f"{path.name} row 3"


ITEMS = st.one_of(
    st.none(), st.integers(), st.text(max_size=5), st.lists(st.text(max_size=3), max_size=2),
    st.fixed_dictionaries({
        "question": st.one_of(
            st.text(max_size=9), st.sampled_from(["Where was Ann born?", "Where was Bo born?", "Where was Cy born?"])
        ),
        "answers": st.one_of(st.none(), st.lists(st.text(max_size=5), max_size=2), st.just(["Oslo"])),
    }),
)  # fmt: skip


@settings(deadline=None)
@given(items=st.lists(ITEMS, max_size=8))
def test_every_item_of_entity_questions_is_counted_once(
    tmp_path_factory: pytest.TempPathFactory, items: list[object]
) -> None:
    folder = tmp_path_factory.mktemp("eq")
    good = {"question": BORN.question("Di"), "answers": ["Oslo"]}
    (folder / "P19.test.json").write_text(json.dumps([good, *items]), encoding="utf-8")
    names = {"Ann": {"Q1"}, "Bo": {"Q2", "Q3"}, "Di": {"Q4"}}
    found = read_entity_questions(folder, "test", relation_names("entity_questions"), names)
    counts = found.linking["place of birth"]
    assert counts.n_questions == 1 + len(items) == len(found.questions) + len(found.rejected)
    assert counts.n_put_aside == len(found.rejected)
    assert counts.n_linked == sum(q["subject_id"] is not None for q in found.questions.values())
    assert counts.n_linked + counts.n_no_entity + counts.n_several_entities == len(found.questions)


REFUSED = (
    "table: a pipe",
    "parquet: data of noise",
    "parquet: a footer of 2 GB",
    "answers: inspect: paths that climb",
    "model: gguf: a list of 2^60 numbers",
    "model: gguf: lists nested 10,000 deep",
    "model: gguf: a pipe",
    "model: a path that climbs: package:os/../../../etc/passwd",
    "model: a pickle as pytorch_model.bin",
    "portrait: a header of huge numbers",
)
PUT_ASIDE = (
    "table: JSON lines: nested 100,000 deep",
    "pararel: a pattern without [Y]",
    "dpr: NUL and controls",
)


@pytest.mark.parametrize(
    ("name", "outcome"), [(n, "refused") for n in REFUSED] + [(n, "put aside") for n in PUT_ASIDE]
)
def test_a_hostile_file_is_refused_or_put_aside_in_one_line(name: str, outcome: str) -> None:
    (case,) = (case for case in CASES if case.name == name)
    tried = try_case(case)
    assert tried.outcome == outcome, tried.said
