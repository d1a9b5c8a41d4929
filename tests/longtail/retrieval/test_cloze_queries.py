"""Retrievers search with the words of a cloze query; questions of other datasets stay as they are."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from longtail.questions.build import build_paraphrases, build_questions, describe_cloze_queries
from longtail.retrieval.indexes import build_index
from longtail.retrieval.passages import build_passages
from longtail.retrieval.retrieve import read_queries, retrieve_passages
from longtail.storage.lake import Lake
from longtail.study.study import Study

STUDY = """
name: clozes
description: d
datasets:
  - {name: facts, import: {format: pararel, path: facts}}
  - {name: signs, import: {format: table, path: signs.csv}}
prompts: [{name: cloze, format: cloze_prefix, generations: [candidates]}]
models: [{name: tiny, path: "fake:digest", backend: fake}]
methods: [closed_book, bm25]
retrieve_paraphrases: true
popularity: {measure: imported}
"""


def test_a_sign_is_removed_from_cloze_queries_alone(
    make_study: Callable[[str], Study], hand_lake: Lake, log: logging.Logger
) -> None:
    study = make_study(STUDY)
    files = {
        "graphs_json": [{"pattern": "[X] was born in [Y]."}, {"pattern": "[Y] is where [X] was born."}],
        "trex_lms_vocab": [{"uuid": "u1", "sub_label": "Ada Quill", "obj_label": "Łódź"}],
    }
    for folder, rows in files.items():
        file = study.path.parent / "facts" / folder / "P19.jsonl"
        file.parent.mkdir(parents=True)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    text = "What does [Y] in  a pattern stand for?"
    passages = ["The object stands there.", "Ada Quill: born in Łódź.", "y, the letter."]
    rows = [f"{number},{text},the object,{passage}" for number, passage in enumerate(passages)]
    (study.path.parent / "signs.csv").write_text(
        "\n".join(["id,question,answer,passage", *rows]), encoding="utf-8"
    )
    assert [dataset.name for dataset in study.cloze_datasets] == ["facts"]
    build_questions(study, hand_lake, log)
    describe_cloze_queries(study, hand_lake, log)
    build_paraphrases(study, hand_lake, log)
    searched = {
        (query.dataset, query.paraphrase_id, query.text)
        for query in read_queries(hand_lake, ["facts"], with_paraphrases=True)
    }
    assert searched == {
        ("facts", 0, "Ada Quill was born in."),
        ("facts", 1, "is where Ada Quill was born."),
        ("signs", 0, text),
    }
    assert {row["question"] for row in hand_lake.read("questions").to_pylist()} == {
        "Ada Quill was born in [Y].",
        text,
    }
    build_passages(study, hand_lake, log)
    build_index(study, hand_lake, "bm25", log)
    assert not retrieve_passages(study, hand_lake, "bm25", log).was_current
    assert retrieve_passages(study, hand_lake, "bm25", log).was_current
