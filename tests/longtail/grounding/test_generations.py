"""A study that declares a portrait: it is built from the chosen passages, and every generation gets its score."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from longtail.errors import LakeError, StudyError
from longtail.grounding.corpus import build_portrait, open_of
from longtail.grounding.quip import score_generations
from longtail.storage.lake import Lake
from longtail.study.study import Study
from longtail.tables import TABLES
from tests.flipped_bits import flip_bit
from tests.longtail.grounding.plain_reference import grams, share_in

GROUNDING = "grounding: {portrait: {false_positive_rate: 1.0e-6}}\n"
LICENCE = "source: W, date: unknown, licence: none}"
COLLECTIONS = f"""collections:
  - {{name: one, format: dpr, path: a.tsv, {LICENCE}
  - {{name: two, format: dpr, path: b.tsv, {LICENCE}
"""
TEXTS = {
    "one": "Ada Quill was a weaver, and lived in the city of Lodz all her life.",
    "two": "The mother of Ada Quill wrote many long letters to her daughter.",
}
ANSWERS = [
    TEXTS["one"],
    "a weaver",
    f"I say: {TEXTS['two'][11:50]} or so",
    "nothing that anybody has ever written",
    "",
]
_BLANK = {pa.string(): "", pa.bool_(): False, pa.int32(): 0, pa.int64(): 0, pa.float64(): 0.0}

Make = Callable[[str], Study]


def rows_of(table: str, texts: list[str], **more: str) -> list[dict[str, object]]:
    blank = {column.name: _BLANK.get(column.type) for column in TABLES[table].columns}
    return [{**blank, **more, "question_id": f"Q{i}", "raw_text": text} for i, text in enumerate(texts)]


@pytest.fixture
def study(make_study: Make, hand_text: str) -> Study:
    text = hand_text.replace("[closed_book, bm25, dense, oracle]", "[closed_book, genread]")
    return make_study(text + GROUNDING)


@pytest.fixture
def lake(study: Study) -> Lake:
    lake = Lake(study.home.lake)
    blank = {column.name: _BLANK.get(column.type) for column in TABLES["passages"].columns}
    passages = [
        {**blank, "passage_id": name, "collection": name, "text": text} for name, text in TEXTS.items()
    ]
    lake.write("passages", passages, fingerprint="hand")
    for method in study.methods:
        rows = rows_of("answers", ANSWERS, model="tiny", method=method, prompt="zero_shot")
        lake.write("answers", rows, fingerprint="hand", partition=f"tiny|{method}")
    lake.write(
        "generated_passages",
        rows_of("generated_passages", ANSWERS[::-1]),
        fingerprint="hand",
        partition="tiny",
    )
    return lake


def test_every_generation_has_its_score_and_its_spans(study: Study, lake: Lake, log: logging.Logger) -> None:
    build_portrait(study, lake, log)
    outcome = score_generations(study, lake, "tiny", log)
    exact = share_in(TEXTS.values())
    rows = lake.read("quip_scores", "tiny").to_pylist()
    sources = [("answers", "closed_book", "zero_shot"), ("answers", "genread", "zero_shot")]
    sources.append(("generated_passages", "genread", None))
    for source in sources:
        own = [row for row in rows if (row["text_from"], row["method"], row["prompt"]) == source]
        texts = ANSWERS[::-1] if source[0] == "generated_passages" else ANSWERS
        assert [row["quip"] for row in own] == [exact(text) for text in texts]
        assert [row["quip_reference"] for row in own] == [exact(text) or 0 for text in texts]
        assert [row["n_grams"] for row in own] == [len(grams(text)) for text in texts]
        spans = [
            [text[a:b] for a, b in zip(row["span_starts"], row["span_ends"], strict=True)]
            for row, text in zip(own, texts, strict=True)
        ]
        expected = [[TEXTS["one"]], [], [" " + TEXTS["two"][11:50] + " "], [], []]
        assert [[quote.strip() for quote in some] for some in spans] == [
            [quote.strip() for quote in some]
            for some in (expected[::-1] if source[0] == "generated_passages" else expected)
        ]
    assert len(rows) == outcome.stamp.n_rows == 3 * len(ANSWERS)
    assert score_generations(study, lake, "tiny", log).was_current


def test_where_no_prompt_asks_questions_no_answers_are_expected(
    study: Study, lake: Lake, log: logging.Logger
) -> None:
    asking = replace(study, prompts=tuple(replace(one, generations=("candidates",)) for one in study.prompts))
    for method in study.methods:
        lake.discard("answers", f"tiny|{method}")
    build_portrait(asking, lake, log)
    score_generations(asking, lake, "tiny", log)
    assert {row["text_from"] for row in lake.read("quip_scores", "tiny").to_pylist()} == {
        "generated_passages"
    }


def test_explanations_are_scored_under_their_grounding_prompts(
    make_study: Make, hand_text: str, lake: Lake, log: logging.Logger
) -> None:
    text = hand_text.replace("[closed_book, bm25, dense, oracle]", "[closed_book]")
    grounding = "grounding: {portrait: {false_positive_rate: 1.0e-6}, prompts: [null, direct_quote]}\n"
    asked = make_study(text + grounding)
    common = {"model": "tiny", "method": "closed_book"}
    explained = [
        {"grounding_prompt": "null", "explanation": None, "reference_explanation": TEXTS["one"]},
        {"grounding_prompt": "direct_quote", "explanation": TEXTS["one"], "reference_explanation": "short"},
        {"grounding_prompt": "null", "explanation": "too short", "reference_explanation": "too short"},
        {"grounding_prompt": "direct_quote", "explanation": "", "reference_explanation": ""},
    ]
    blank = rows_of("grounded_generations", ["not what is compared"] * len(explained), **common)
    rows = [{**row, **one} for row, one in zip(blank, explained, strict=True)]
    for row in rows:
        row.pop("raw_text")
    lake.write("grounded_generations", rows, fingerprint="hand", partition="tiny")
    build_portrait(asked, lake, log)
    score_generations(asked, lake, "tiny", log)
    scored = [
        (row["question_id"], row["method"], row["prompt"], row["n_grams"], row["quip"], row["quip_reference"])
        for row in lake.read("quip_scores", "tiny").to_pylist()
        if row["text_from"] == "grounded_generations"
    ]
    assert scored == [
        ("Q0", "closed_book", "null", 0, None, 1.0),
        ("Q1", "closed_book", "direct_quote", len(TEXTS["one"]) - 24, 1.0, 0.0),
        ("Q2", "closed_book", "null", 0, None, 0.0),
        ("Q3", "closed_book", "direct_quote", 0, None, 0.0),
    ]


def test_a_current_portrait_is_kept_and_another_corpus_has_another(
    study: Study, lake: Lake, log: logging.Logger
) -> None:
    first = build_portrait(study, lake, log)
    again = build_portrait(study, lake, log)
    assert (first.was_current, again.was_current) == (False, True)
    assert first.n_grams == sum(len(text) - 24 for text in TEXTS.values())
    score_generations(study, lake, "tiny", log)
    lake.write("passages", [], fingerprint="none")
    with pytest.raises(
        LakeError, match=r"portrait of the passages is missing .* materialise asset indexes/portrait"
    ):
        score_generations(study, lake, "tiny", log)
    empty = build_portrait(study, lake, log)
    assert (empty.n_grams, empty.observed_rate) == (0, 0)
    assert not first.path.exists()
    score_generations(study, lake, "tiny", log)
    scores = {row["quip"] for row in lake.read("quip_scores", "tiny").to_pylist()}
    assert scores == {0, None}


@pytest.mark.parametrize("name", ["plan.json", "00000.portrait"])
@pytest.mark.parametrize("at", [0.2, 0.6, 0.99])
def test_a_damaged_portrait_is_refused_and_made_again(
    study: Study, lake: Lake, log: logging.Logger, name: str, at: float
) -> None:
    folder = build_portrait(study, lake, log).path
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    flip_bit(folder / name, at)
    with pytest.raises(LakeError, match="portrait"):
        open_of(study, lake)
    assert not build_portrait(study, lake, log).was_current
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole


def test_a_portrait_of_some_collections_knows_no_others(
    make_study: Make, hand_text: str, lake: Lake, log: logging.Logger
) -> None:
    text = hand_text.replace("kind: sandbox, seed: 0, facts_per_relation: 8", "kind: rdf_file")
    text = text.replace('page_views, last_month: "2026-10"', "sitelinks")
    chosen = make_study(text + COLLECTIONS + "grounding: {portrait: {collections: [two]}}\n")
    assert build_portrait(chosen, lake, log).n_grams == len(TEXTS["two"]) - 24
    assert open_of(chosen, lake).plan.rate == 0.001


def test_missing_generations_are_named(study: Study, lake: Lake, log: logging.Logger) -> None:
    build_portrait(study, lake, log)
    lake.discard("generated_passages", "tiny")
    with pytest.raises(LakeError, match="generated_passages, partition tiny is missing"):
        score_generations(study, lake, "tiny", log)


@pytest.mark.parametrize(
    ("grounding", "message"),
    [
        ("grounding: {}", r"grounding.portrait: is missing"),
        ("grounding: {portrait: {rate: 1}}", r"grounding.portrait.rate: unknown key"),
        ("grounding: {portrait: {collections: [one]}}", r"collections: goes with the study's collections"),
        ("grounding: {portrait: {false_positive_rate: 0}}", r"must be a number above 1e-09 and at most 0.5"),
        (COLLECTIONS + "grounding: {portrait: {collections: [x]}}", r"'x' is not one of: one, two"),
        (
            "grounding: {portrait: {}, prompts: [quote]}",
            r"grounding.prompts: 'quote' is not one of: null, based",
        ),
        ("grounding: {portrait: {}, prompts: null_prompt}", r"grounding.prompts: must be a list"),
        ("grounding: {portrait: {}, steps: 3}", r"grounding.steps: must be a whole number of 1 to 2"),
        ("grounding: {portrait: {}, steps: {other: 2}}", r"grounding.steps.other: unknown key"),
        ("grounding: {portrait: {}, turns: {tiny: go}}", r"grounding.turns.tiny: must hold {prompt} once"),
        (
            "grounding: {portrait: {}, methods: [genread]}",
            r"grounding.methods: 'genread' is not one of: closed",
        ),
        ("grounding: {portrait: {}, long_answers: [x]}", r"grounding.long_answers: 'x' is not one of"),
        ("grounding: {portrait: {}, datasets: [other]}", r"grounding.datasets: 'other' is not one of"),
    ],
)
def test_wrong_keys_are_refused_by_name(
    make_study: Make, hand_text: str, grounding: str, message: str
) -> None:
    with pytest.raises(StudyError, match=message):
        make_study(hand_text + grounding + "\n")


def test_a_study_without_grounding_has_no_portrait(
    hand_study: Study, hand_lake: Lake, log: logging.Logger
) -> None:
    with pytest.raises(StudyError, match="grounding is missing"):
        build_portrait(hand_study, hand_lake, log)
