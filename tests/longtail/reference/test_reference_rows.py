"""From a file of NQ-open to lake rows: mentions by name, views of articles outside the lake, shares, keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.errors import LakeError, SourceError, StudyError
from longtail.reference.linking import (
    by_names,
    by_titles,
    describe_linking,
    import_reference_questions,
    link_reference_questions,
    read_nq_open,
)
from longtail.reference.service import Annotation
from longtail.sandbox.world import World
from longtail.wikimedia.page_views import ingest_reference_page_views
from tests.longtail.reference.conftest import LOG, MONTHS, Make


def entity(entity_id: str, label: str, *aliases: str, title: str | None = None) -> dict[str, Any]:
    return {"entity_id": entity_id, "label": label, "aliases": list(aliases), "article_title": title}


ENTITIES = [
    entity("Q1", "Ann Ash", "Annie", title="Ann Ash (poet)"),
    entity("Q2", "Oslo", title="Oslo"),
    entity("Q3", "Oslo"),
    entity("Q4", "Kim", "Kim"),
]


def test_names_of_one_entity_link_and_ambiguous_names_are_reported() -> None:
    rows = list(by_names({"7": "was annie from OSLO or kim", "8": "nobody"}, ENTITIES))
    assert [(r["spot"], r["entity_id"], r["article_title"], r["n_candidates"]) for r in rows] == [
        ("annie", "Q1", "Ann Ash (poet)", 1),
        ("OSLO", None, None, 2),
        ("kim", "Q4", None, 1),
    ]
    assert [row["position"] for row in rows] == [0, 1, 2]
    assert {(row["question_id"], row["linker"]) for row in rows} == {("7", "names")}


def test_annotations_above_the_threshold_in_the_order_of_the_text() -> None:
    one = Annotation(9, 12, "ash", "Ann Ash (poet)", 0.2, 0.5)
    two = Annotation(0, 3, "pop", "Pop music", 0.1, 0.23)
    low = Annotation(4, 6, "x", "Oslo", 0.9, 0.22)
    rows = list(by_titles({"7": [one, low, two], "8": []}, 0.22, ENTITIES))
    assert [(r["position"], r["article_title"], r["entity_id"], r["rho"]) for r in rows] == [
        (0, "Pop music", None, 0.23),
        (1, "Ann Ash (poet)", "Q1", 0.5),
    ]


def test_views_are_requested_for_articles_without_an_entity(make: Make, world: World) -> None:
    namesake = max((e for e in world.entities() if e.kind == "namesake"), key=lambda e: e.popularity)
    known = next(e for e in world.entities() if e.kind != "namesake" and e.article_title and " " in e.label)
    study, lake = make([f"who is {namesake.label}", f"and {known.label}"], tagme={"min_rho": 0})
    import_reference_questions(study, lake, LOG)
    link_reference_questions(study, lake, LOG)
    row = {
        "dataset": "nq", "question_id": "1", "position": 9, "linker": "tagme", "spot": "x", "start": 0, "end": 1,
        "n_candidates": 1, "entity_id": None, "article_title": namesake.article_title, "link_probability": 1.0,
        "rho": 1.0,
    }  # fmt: skip
    rows = [
        *lake.read("reference_mentions").to_pylist(),
        row,
        {**row, "position": 10, "article_title": "No such page"},
    ]
    lake.write("reference_mentions", rows, fingerprint="by hand")
    first, second = ingest_reference_page_views(study, lake, MONTHS, LOG)
    views = {r["article_title"]: r["views"] for r in lake.read("reference_page_views", MONTHS[0]).to_pylist()}
    assert views[str(namesake.article_title)] == world.monthly_views(namesake.entity_id, MONTHS[0])
    assert views["No such page"] is None
    assert known.article_title not in views
    told = {r["article_title"]: r for r in lake.read("reference_page_views", MONTHS[0]).to_pylist()}
    assert {(r["redirects"], r["agent"]) for r in told.values()} == {("resolve", "user")}
    assert told["No such page"]["resolved_title"] is None
    assert told[str(namesake.article_title)]["resolved_title"] is not None
    assert (first.was_current, second.notes["missing"]) == (False, 1)
    assert all(outcome.was_current for outcome in ingest_reference_page_views(study, lake, MONTHS, LOG))


def test_without_such_articles_no_request_is_sent(make: Make) -> None:
    study, lake = make(["nobody at all"])
    import_reference_questions(study, lake, LOG)
    link_reference_questions(study, lake, LOG)
    (outcome,) = ingest_reference_page_views(study, lake, MONTHS[:1], LOG)
    assert outcome.stamp.n_rows == 0
    with pytest.raises(SourceError, match="month 2999-01 is refused"):
        ingest_reference_page_views(study, lake, ["2999-01"], LOG)


def test_a_study_without_reference_questions_has_empty_tables(make: Make) -> None:
    study, lake = make([], reference_questions=[{"name": "nq", "format": "nq_open", "path": "absent.jsonl"}])
    with pytest.raises(SourceError, match="there is no such file or folder to import"):
        import_reference_questions(study, lake, LOG)
    study = study.__class__(**{**study.__dict__, "reference_questions": ()})
    assert import_reference_questions(study, lake, LOG).stamp.n_rows == 0
    assert link_reference_questions(study, lake, LOG).stamp.n_rows == 0
    lake.write("questions", [], fingerprint="x")
    assert describe_linking(study, lake, LOG).stamp.n_rows == 0


def test_linked_shares_are_counted_by_reason(make: Make, world: World) -> None:
    labels: dict[str, int] = {}
    for one in world.entities():
        for name in {one.label.casefold(), *(alias.casefold() for alias in one.aliases)}:
            labels[name] = labels.get(name, 0) + (one.kind != "namesake")
    alone = next(name for name, n in labels.items() if n == 1 and " " in name)
    shared = next(name for name, n in labels.items() if n > 1 and " " in name)
    study, lake = make([f"who is {alone}", f"who is {shared}", "nobody", f"{shared} of {alone}"])
    with pytest.raises(LakeError, match="reference_questions is missing"):
        link_reference_questions(study, lake, LOG)
    import_reference_questions(study, lake, LOG)
    link_reference_questions(study, lake, LOG)
    outcome = describe_linking(study, lake, LOG)
    assert lake.read("entity_linking").to_pylist() == [
        {
            "dataset": "nq", "relation": "all", "linker": "names", "n_questions": 4, "n_linked": 2, "n_no_entity": 1,
            "n_several_entities": 1, "n_put_aside": 0, "n_most_popular": 0,
        }
    ]  # fmt: skip
    assert outcome.notes == {"nq/all": "2 of 4"}


@pytest.mark.parametrize(
    ("tagme", "words"),
    [
        ({"url": "http://tag.example/tag"}, "tagme.url: must be an https address"),
        ({"url": "https://me:secret@tag.example"}, "tagme.url: may hold no user name, password or query"),
        ({"url": "https://tag.example/tag?gcube-token=secret"}, "may hold no user name, password or query"),
        ({"token_env": "secret-token"}, "tagme.token_env: must be the name of an environment variable"),
        ({"token": "secret"}, "tagme.token: unknown key"),
    ],
)
def test_keys_that_are_refused(make: Make, tagme: Any, words: str) -> None:
    with pytest.raises(StudyError, match="reference_questions") as caught:
        make(["q"], tagme=tagme)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


def written(folder: Path, *lines: object) -> Path:
    path = folder / "NQ-open.dev.jsonl"
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"\n".join(texts))
    return path


def question(text: str, *answers: str) -> dict[str, Any]:
    return {"question": text, "answer": list(answers)}


def test_a_line_number_identifies_a_question(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        question("who wrote it ", "Ann", "Ann", " "),
        b"",
        {"question": "where", "answer": [], "def_correct_predictions": ["x"]},
    )
    assert read_nq_open(path) == (
        [
            {"question_id": "1", "question": "who wrote it", "gold_answers": ["Ann"]},
            {"question_id": "3", "question": "where", "gold_answers": []},
        ],
        [],
    )


def test_unusable_lines_are_put_aside_with_a_reason(tmp_path: Path) -> None:
    path = written(
        tmp_path, question("q", "a"), b"{", [1], question("q", "b"), {"question": "no answer"},
        question("  ", "a"), {"question": "q2", "answer": "text"}, b'{"question": "\xe9", "answer": []}',
    )  # fmt: skip
    found, rejected = read_nq_open(path)
    assert [row["question_id"] for row in found] == ["1"]
    assert {row.row_key.split()[-1]: row.reason.split(":")[0] for row in rejected} == {
        "2": "not JSON",
        "3": "a JSON object was expected",
        "4": "repeated question",
        "5": "key answer",
        "6": "key question",
        "7": "key answer",
        "8": "not JSON",
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b'{"question": 1}\n', "holds no question that can be used; NQ-open.dev.jsonl row 1: key question"),
        ('{"question": "q", "answer": []}'.encode("utf-16"), "UTF-16"),
    ],
)
def test_files_of_another_format_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "NQ-open.dev.jsonl"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=str(path)) as caught:
        read_nq_open(path)
    assert words in str(caught.value)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is a folder; name one file"):
        read_nq_open(tmp_path)


@settings(deadline=None)
@given(texts=st.lists(st.text(max_size=20), max_size=6), answers=st.lists(st.text(max_size=9), max_size=3))
def test_every_line_is_a_question_or_put_aside(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], answers: list[str]
) -> None:
    lines = [question(text, *answers) for text in texts]
    path = written(tmp_path_factory.mktemp("nq"), question("first"), *lines)
    found, rejected = read_nq_open(path)
    assert len(found) + len(rejected) == 1 + len(texts)
    assert len({row["question"] for row in found}) == len(found)
