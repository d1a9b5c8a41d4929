"""ParaRel: facts by uuid, patterns, candidates; what cannot be used is put aside and counted."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from longtail.errors import SourceError
from longtail.imports.formats.questions.pararel import FACTS, PATTERNS, find_files, read_pararel
from longtail.questions.build import build_paraphrases, build_questions, describe_cloze_queries
from longtail.storage.lake import Lake
from tests.imported_files import study_of_files
from tests.real_data import REAL_DATA, needs_real_data

LOG = logging.getLogger("test")
CAPITALS = ["The capital of [X] is [Y] .", "[Y] is the capital of [X].", "[X]'s capital, [Y]."]


def write(
    folder: Path, relation: str, patterns: Sequence[Any], facts: Sequence[tuple[str, str, str]]
) -> Path:
    """A relation's two files. A pattern is a text or a whole row; a fact is uuid, subject and object."""
    rows: Mapping[str, list[Any]] = {
        PATTERNS: [{"pattern": one, "tense": "present"} if isinstance(one, str) else one for one in patterns],
        FACTS: [{"uuid": uuid, "sub_label": subject, "obj_label": label} for uuid, subject, label in facts],
    }
    for name, own in rows.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(row) + "\n" for row in own)
        (folder / name / f"{relation}.jsonl").write_text(text or "\n", encoding="utf-8")
    return folder


def test_facts_are_kept_apart_by_uuid_and_linked_by_a_name_that_one_entity_has(tmp_path: Path) -> None:
    facts = [("u1", "Georgia", "Tbilisi"), ("u2", "Georgia", "Atlanta"), ("u3", "Oslo", "Oslo")]
    write(tmp_path, "P36", CAPITALS, [*facts, ("u4", "Peru", "Lima")])
    found = read_pararel(tmp_path, (), {"Georgia": {"Q230", "Q1428"}, "Peru": {"Q419"}})
    assert {key: (row["subject_id"], row["gold_answers"]) for key, row in found.questions.items()} == {
        "u1": (None, ["Tbilisi"]), "u2": (None, ["Atlanta"]), "u3": (None, ["Oslo"]), "u4": ("Q419", ["Lima"]),
    }  # fmt: skip
    assert found.questions["u1"]["question"] == "The capital of Georgia is [Y] ."
    assert found.candidates == {"P36": ["Atlanta", "Lima", "Oslo", "Tbilisi"]}
    assert [pattern.text for pattern in found.patterns["P36"]] == CAPITALS
    counts = found.linking["P36"]
    assert (counts.n_questions, counts.n_linked, counts.n_no_entity, counts.n_several_entities) == (
        4,
        1,
        1,
        2,
    )
    assert found.says[0].startswith("2 facts share")


def test_rows_that_cannot_be_used_are_put_aside_with_their_reason(tmp_path: Path) -> None:
    patterns = [
        "[X] is here.", "Here is [Y].", "[X] and [X] are [Y].", CAPITALS[0], CAPITALS[0], {"lemma": "x"},
        {"pattern": "[X] has [Y].", "lemma": "have", "tense": "?"},
    ]  # fmt: skip
    facts = [
        ("u1", "Peru", "Lima"), ("u1", "Chile", "Santiago"), ("u2", "Peru", " "), ("", "Peru", "Lima"),
        ("u3", "[Y]", "Lima"), ("u4", "", "Lima"),
    ]  # fmt: skip
    write(tmp_path, "P36", patterns, facts)
    write(tmp_path, "P17", [], [("u5", "Lima", "Peru")])
    write(tmp_path, "P30", ["[X] is in [Y]."], [])
    found = read_pararel(tmp_path, (), {})
    assert list(found.questions) == ["u1"]
    assert found.candidates == {"P36": ["Lima"]}
    assert [(row.row_key, row.reason) for row in found.rejected] == [
        ("trex_lms_vocab/P17.jsonl row 0", "relation without patterns: none of its facts is asked"),
        ("trex_lms_vocab/P30.jsonl row 0", "relation without facts: none of its facts is asked"),
        ("graphs_json/P36.jsonl row 1", "key pattern: [Y] was expected once"),
        ("graphs_json/P36.jsonl row 2", "key pattern: [X] was expected once"),
        ("graphs_json/P36.jsonl row 3", "key pattern: [X] was expected once"),
        ("graphs_json/P36.jsonl row 5", "key pattern: the relation has it already; the first is kept"),
        ("graphs_json/P36.jsonl row 6", "key pattern: [X] was expected once"),
        ("trex_lms_vocab/P36.jsonl row 2", "key uuid: another fact has it already; the first is kept"),
        (
            "trex_lms_vocab/P36.jsonl row 3",
            "key obj_label: the object is no candidate, since it has no label",
        ),
        ("trex_lms_vocab/P36.jsonl row 4", "key uuid: a text was expected"),
        ("trex_lms_vocab/P36.jsonl row 5", "key sub_label: a text without [X] and [Y] was expected"),
        ("trex_lms_vocab/P36.jsonl row 6", "key sub_label: a text without [X] and [Y] was expected"),
    ]
    last = found.patterns["P36"][-1]
    assert (last.lemma, last.extended_lemma, last.tense) == ("have", None, None)


def test_a_uuid_that_another_relation_has_is_put_aside(tmp_path: Path) -> None:
    for relation in ("P17", "P36"):
        write(
            tmp_path, relation, CAPITALS, [("u1", "Peru", "Lima"), (f"own {relation}", "Chile", "Santiago")]
        )
    found = read_pararel(tmp_path, (), {})
    assert {key: row["relation"] for key, row in found.questions.items()} == {
        "u1": "P17", "own P17": "P17", "own P36": "P36",
    }  # fmt: skip
    assert [(row.row_key, row.reason) for row in found.rejected] == [
        ("trex_lms_vocab/P36.jsonl row 1", "key uuid: another fact has it already; the first is kept")
    ]
    assert [found.linking[one].n_put_aside for one in ("P17", "P36")] == [0, 1]


def test_a_relation_of_one_pattern_is_asked_and_named(tmp_path: Path) -> None:
    write(tmp_path, "P36", CAPITALS[:1], [("u1", "Peru", "Lima")])
    found = read_pararel(tmp_path, ["P36"], {})
    assert any("one pattern alone" in line and "P36" in line for line in found.says)


@pytest.mark.parametrize(
    ("relations", "message"),
    [(["P99"], "holds no file of relation P99; it has: P17"), ([], "holds no fact that can be asked")],
)
def test_what_cannot_be_asked_is_refused(tmp_path: Path, relations: list[str], message: str) -> None:
    write(tmp_path, "P17", [], [("u5", "Lima", "Peru")])
    with pytest.raises(SourceError, match=message):
        read_pararel(tmp_path, relations, {})


EDGE = {"relation": "P36", "from": CAPITALS[0], "to": CAPITALS[1], "determiner": False}


def test_edges_say_what_changes_and_those_of_other_patterns_are_put_aside(tmp_path: Path) -> None:
    write(tmp_path, "P36", CAPITALS, [("u1", "Peru", "Lima")])
    write(tmp_path, "P17", CAPITALS[:1], [("u2", "Lima", "Peru")])
    edges: list[Any] = [
        {**EDGE, "syntactic": True, "lexical": False},
        {**EDGE, "syntactic": True, "lexical": True, "from": CAPITALS[1], "to": CAPITALS[0]},
        {**EDGE, "syntactic": False, "lexical": True, "to": CAPITALS[2]},
        {**EDGE, "syntactic": True, "lexical": True, "determiner": True, "from": CAPITALS[2]},
        {**EDGE, "syntactic": False, "lexical": False, "from": CAPITALS[1], "to": CAPITALS[2]},
        {**EDGE, "syntactic": False, "lexical": False},
        {**EDGE, "syntactic": True, "lexical": False, "to": "[X] rules [Y]."},
        {**EDGE, "syntactic": 1, "lexical": 0, "from": CAPITALS[2], "to": CAPITALS[0]},
        {**EDGE, "syntactic": True, "lexical": False, "relation": "P99"},
        {**EDGE, "syntactic": True, "lexical": False, "relation": "P17"},
    ]
    (tmp_path / "edges.jsonl").write_text("".join(json.dumps(edge) + "\n" for edge in edges))
    found = read_pararel(tmp_path, ["P36"], {})
    assert tmp_path / "edges.jsonl" in find_files(tmp_path)
    first, second, third = CAPITALS
    assert found.changes == {
        ("P36", first, second): "syntactic", ("P36", second, first): "both", ("P36", first, third): "lexical",
        ("P36", third, second): "determiner", ("P36", second, third): "no_change",
    }  # fmt: skip
    assert [(row.row_key, row.reason) for row in found.rejected] == [
        ("edges.jsonl row 6", "keys from and to: the pair is there already; the first is kept"),
        ("edges.jsonl row 7", "key from or to: P36 has no such pattern: '[X] rules [Y].'"),
        ("edges.jsonl row 8", "keys syntactic, lexical and determiner: true or false was expected"),
        ("edges.jsonl row 9", f"key from or to: P99 has no such pattern: {first!r}"),
    ]
    assert any("4 edges put aside" in line and "edges.jsonl row 6: keys from" in line for line in found.says)


@needs_real_data
def test_the_real_files_are_read_whole() -> None:
    found = read_pararel(REAL_DATA / "pararel", (), {})
    assert (len(found.questions), sum(map(len, found.patterns.values())), len(found.patterns)) == (
        22_418,
        274,
        33,
    )
    assert (len(found.candidates["P279"]), len(found.candidates["P30"])) == (396, 5)
    assert found.says[1].endswith("consistent: P1001")
    assert {row.row_key for row in found.rejected} == {
        "trex_lms_vocab/P31.jsonl row 0", "trex_lms_vocab/P527.jsonl row 0",
    }  # fmt: skip
    assert int(found.says[0].split()[0]) > 2_000
    kinds = Counter(found.changes.values())
    assert kinds == {"both": 808, "lexical": 218, "syntactic": 50, "no_change": 48, "determiner": 1_736}
    assert len({relation for relation, _, _ in found.changes}) == 32


def test_patterns_and_candidates_reach_the_lake_with_their_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "pararel", "P36", CAPITALS, [("u1", "Peru", "Lima"), ("u2", "Chile", "Santiago")])
    edge = {**EDGE, "syntactic": True, "lexical": True}
    (tmp_path / "pararel" / "edges.jsonl").write_text(json.dumps(edge))
    lake = in_lake(tmp_path, tmp_path, monkeypatch)
    assert lake.read("candidates").to_pylist() == [
        {"dataset": "pararel", "relation": "P36", "candidate": label} for label in ("Lima", "Santiago")
    ]
    patterns = lake.read("patterns").to_pylist()
    assert [row["changes"] for row in patterns] == [[None, "both", None], [None] * 3, [None] * 3]
    assert {(row["dataset"], row["relation"]) for row in patterns} == {("pararel", "P36")}
    assert len(patterns) == len(CAPITALS)
    assert len(lake.read("paraphrases").to_pylist()) == 2 * len(CAPITALS)


def in_lake(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """The lake of a study that asks four facts of each relation of `data`: questions, patterns and wordings."""
    monkeypatch.setenv("LONGTAIL_REAL_DATA", str(data))
    place = {"format": "pararel", "path_env": "LONGTAIL_REAL_DATA", "path": "pararel"}
    study, lake = study_of_files(
        tmp_path,
        datasets=[{"name": "pararel", "max_questions_per_relation": 4, "import": place}],
        prompts=[{"name": "cloze", "format": "cloze_prefix", "generations": ["candidates"]}],
    )
    build_questions(study, lake, LOG)
    describe_cloze_queries(study, lake, LOG)
    build_paraphrases(study, lake, LOG)
    return lake


@needs_real_data
def test_the_real_files_reach_the_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = in_lake(tmp_path, REAL_DATA, monkeypatch)
    patterns = lake.read("patterns").to_pylist()
    assert (len(patterns), sum(row["ends_in_object"] for row in patterns)) == (274, 167)
    assert sum(row["article"] is not None for row in patterns) == 19
    questions = lake.read("questions").to_pylist()
    assert len(questions) == 33 * 4
    wordings = lake.read("paraphrases").to_pylist()
    assert len(wordings) == 274 * 4
    first = {row["question_id"]: row["paraphrase"] for row in wordings if row["paraphrase_id"] == 0}
    assert first == {row["question_id"]: row["question"] for row in questions}
    candidates = {(row["relation"], row["candidate"]) for row in lake.read("candidates").to_pylist()}
    assert all((row["relation"], row["gold_answers"][0]) in candidates for row in questions)
