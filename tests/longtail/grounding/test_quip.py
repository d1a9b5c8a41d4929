"""QUIP against its definition: normalisation, undefined texts, spans, a known share of copied text, real texts. A study's
portrait is built from the chosen passages, and every generation gets its score.
"""

from __future__ import annotations

import gzip
import json
import logging
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.errors import LakeError, StudyError
from longtail.grounding.corpus import build_portrait, open_of
from longtail.grounding.portrait import (
    Hasher,
    Portrait,
    Texts,
    build,
    count_grams,
    open_portrait,
    plan_portrait,
)
from longtail.grounding.quip import Quotes, Scorer, score_generations
from longtail.storage.lake import Lake
from longtail.study.study import Study
from longtail.tables import TABLES
from tests.flipped_bits import flip_bit
from tests.longtail.grounding.plain_reference import corpus_of, grams, normalised, share_in, texts_of
from tests.real_data import REAL_DATA, needs_real_data

LOG = logging.getLogger("test")
SPACES = "".join(chr(point) for point in range(0x110000) if chr(point).isspace())
ALPHABET = st.sampled_from("aB é日😀\x00\ud800") | st.sampled_from(SPACES) | st.characters()


def portrait_of(folder: Path, texts: list[str], rate: float = 1e-6) -> Portrait:
    _, n_grams = count_grams(corpus_of(texts)(), seed=0)
    plan = plan_portrait(n_grams, rate, seed=0)
    build(folder / "portrait" / "stamp", plan, corpus_of(texts), LOG)
    return open_portrait(folder / "portrait" / "stamp")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text(ALPHABET, max_size=90), max_size=5), st.integers(3, 40))
def test_hashed_grams_are_those_of_the_normalised_text(texts: list[str], room: int) -> None:
    """Whatever the size of the buffer; a text that is normalised already has the same grams."""
    hashed = [
        [piece.hashes.copy() for piece in Hasher(0, room).pieces(texts_of(some))]
        for some in (texts, [normalised(text) for text in texts])
    ]
    raw, clean = (np.concatenate([*one, np.empty(0, np.uint64)]) for one in hashed)
    expected = [gram for text in texts for gram in grams(text)]
    assert len(raw) == len(expected)
    assert np.array_equal(raw, clean)
    assert len(set(raw.tolist())) == len(set(expected))  # the same grams are the same hashes, and no others


def test_the_order_of_normalisation() -> None:
    """A space before a line end stays, white space after it goes, and so does a second line end behind spaces."""
    assert normalised(" a\t b \r\n \n\u2003c\r") == "a b \nc"
    long = "x" * 12
    one, other = f"{long} \r\n \n\t {long}", f"{long} \n{long}"
    first, second = (next(Hasher(0, 50).pieces(texts_of([text]))).hashes.tolist() for text in (one, other))
    assert first == second
    assert len(first) == 2


def test_texts_of_arrow_and_of_python_are_the_same() -> None:
    import pyarrow as pa

    texts = ["one", "", "zwei é 😀", "three"]
    column = pa.chunked_array([["before", *texts]]).chunk(0).slice(1)
    found = Texts.of_arrow(column)
    own = [found.data[a:b].tobytes().decode() for a, b in zip(found.offsets, found.offsets[1:], strict=False)]
    assert own == texts
    assert len(Texts.of_arrow(pa.array([], pa.string()))) == 0


def test_short_texts_are_undefined_and_others_exact(tmp_path: Path) -> None:
    corpus = ["The quick brown fox jumps over the lazy dog.", "short", "", "\x00" * 30, "\ud800" * 26]
    share = share_in(corpus)
    texts = [*corpus, "x" * 24, "x" * 25, " quick  brown\nfox jumps over the lazy dog", "fox " * 30]
    quotes = Scorer(portrait_of(tmp_path, corpus)).quotes(texts_of(texts))
    assert [None if np.isnan(one) else one for one in quotes.scores] == [share(text) for text in texts]


@pytest.mark.parametrize("room", [40, 1_000])
def test_spans_are_the_quoted_places_of_the_raw_text(tmp_path: Path, room: int) -> None:
    known = "It is a truth universally acknowledged, that a single man"
    other = "nothing of this is in the corpus, not one part"
    text = f"😀{other}|{known[3:40]}  {other}\n\n {known}."
    texts = ["", text, known, other]
    quotes = Scorer(portrait_of(tmp_path, [known]), room).quotes(texts_of(texts))
    spans = [
        (int(i), int(a), int(b)) for i, a, b in zip(quotes.texts, quotes.starts, quotes.ends, strict=True)
    ]
    assert [i for i, _, _ in spans] == [1, 1, 2]
    for i, first, n in zip(quotes.texts, quotes.first_grams, quotes.span_grams, strict=True):
        found = [gram in grams(known) for gram in grams(texts[i])]
        assert all(found[first : first + n])
        assert not any(found[place] for place in (first - 1, first + n) if 0 <= place < len(found))
    assert np.bincount(quotes.texts, quotes.span_grams, len(texts)).tolist() == quotes.n_quoted.tolist()
    assert [text[a:b] for i, a, b in spans if i == 1] == [known[3:40] + "  ", known]


def test_a_long_line_is_read_in_pieces(tmp_path: Path) -> None:
    """Neither building nor scoring takes more memory for a longer line; a span does not break where a piece ends."""
    line = "".join(map(chr, np.random.default_rng(1).integers(97, 123, 1_000_000)))
    plan = plan_portrait(len(line), 1e-6, seed=0)

    def built_and_scored(texts: Texts, name: str) -> tuple[Quotes, int]:
        tracemalloc.start()
        build(tmp_path / "portrait" / name, plan, lambda: [texts], LOG, room=10_000)
        quotes = Scorer(open_portrait(tmp_path / "portrait" / name), room=10_000).quotes(texts)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return quotes, peak

    built_and_scored(texts_of(["compiles the loops" * 3]), "first")
    peaks = [built_and_scored(texts_of([line[:n]]), str(n))[1] for n in (50_000, 200_000)]
    quotes, peak = built_and_scored(texts_of([line]), "whole")
    assert max(*peaks, peak) - min(peaks) < 50_000
    assert (quotes.n_grams[0], quotes.scores[0]) == (len(line) - 24, 1)
    assert (quotes.starts.tolist(), quotes.ends.tolist()) == ([0], [len(line)])
    assert (quotes.first_grams.tolist(), quotes.span_grams.tolist()) == ([0], quotes.n_grams.tolist())


@needs_real_data
def test_real_texts_have_the_exact_score_within_the_planned_rate(tmp_path: Path) -> None:
    """Half of the openings of Wikipedia's articles against the other half, and the share of wrong grams."""
    with gzip.open(REAL_DATA / "wikipedia" / "leads.jsonl.gz", "rt", encoding="utf-8") as stream:
        texts = [row["text"] for row in map(json.loads, stream)][:3_000]
    corpus, asked = texts[::2], texts[1::2]
    exact = share_in(corpus)
    quotes = Scorer(portrait_of(tmp_path, corpus, rate=0.001)).quotes(texts_of([*asked, *corpus]))
    scores = [None if np.isnan(one) else one for one in quotes.scores]
    expected = [exact(text) for text in [*asked, *corpus]]
    assert [one is None for one in scores] == [one is None for one in expected]
    assert scores[len(asked) :] == expected[len(asked) :]  # no gram of the corpus is missed
    n_grams = quotes.n_grams[: len(asked)]
    truly = np.array([0 if one is None else one for one in expected[: len(asked)]]) * n_grams
    n_wrong = quotes.n_quoted[: len(asked)].sum() - truly.sum()
    assert 0.0008 < n_wrong / (n_grams - truly).sum() < 0.0012


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
    flip_bit(first.path / "00000.portrait", 0.6)
    with pytest.raises(LakeError, match="portrait"):
        open_of(study, lake)
    assert not build_portrait(study, lake, log).was_current
    assert first.portrait.plan.n_grams == sum(len(text) - 24 for text in TEXTS.values())
    score_generations(study, lake, "tiny", log)
    lake.write("passages", [], fingerprint="none")
    with pytest.raises(LakeError, match=r"portrait is missing: materialise asset indexes/portrait"):
        score_generations(study, lake, "tiny", log)
    empty = build_portrait(study, lake, log)
    assert empty.portrait.plan.n_grams == 0
    assert not first.path.exists()
    score_generations(study, lake, "tiny", log)
    scores = {row["quip"] for row in lake.read("quip_scores", "tiny").to_pylist()}
    assert scores == {0, None}


def test_a_portrait_of_some_collections_knows_no_others(
    make_study: Make, hand_text: str, lake: Lake, log: logging.Logger
) -> None:
    text = hand_text.replace("kind: sandbox, seed: 0, facts_per_relation: 8", "kind: rdf_file")
    text = text.replace('page_views, last_month: "2026-10"', "sitelinks")
    chosen = make_study(text + COLLECTIONS + "grounding: {portrait: {collections: [two]}}\n")
    assert build_portrait(chosen, lake, log).portrait.plan.n_grams == len(TEXTS["two"]) - 24
    assert open_of(chosen, lake).plan.rate == 0.001


@pytest.mark.parametrize(
    ("grounding", "message"),
    [
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
