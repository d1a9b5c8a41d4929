"""Rows of noise and hostile files: each row is counted once, each file refused or put aside in one line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.imports.formats.questions.entity_questions import read_entity_questions
from longtail.relations.relation import relation_names, relation_set
from tools.hostile_files.__main__ import try_case
from tools.hostile_files.cases import CASES

BORN = next(r for r in relation_set("entity_questions") if r.property_id == "P19")


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
