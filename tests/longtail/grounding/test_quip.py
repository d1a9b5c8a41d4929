"""QUIP against its definition: normalisation, undefined texts, spans, a known share of copied text, real texts."""

from __future__ import annotations

import gzip
import json
import logging
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.grounding.portrait import Portrait, build, count_grams, open_portrait, plan_portrait
from longtail.grounding.quip import Quotes, Scorer
from longtail.grounding.texts import Hasher, Texts
from tests.longtail.grounding.plain_reference import corpus_of, grams, normalised, share_in
from tests.real_data import REAL_DATA, needs_real_data

LOG = logging.getLogger("test")
SPACES = "".join(chr(point) for point in range(0x110000) if chr(point).isspace())
ALPHABET = st.sampled_from("aB é日😀\x00\ud800") | st.sampled_from(SPACES) | st.characters()


def portrait_of(folder: Path, texts: list[str], rate: float = 1e-6) -> Portrait:
    _, n_grams = count_grams(corpus_of(texts)(), seed=0)
    plan = plan_portrait(n_grams, rate, seed=0)
    build(folder / "portrait" / "stamp", plan, corpus_of(texts), LOG)
    return open_portrait(folder / "portrait" / "stamp", plan)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text(ALPHABET, max_size=90), max_size=5), st.integers(3, 40))
def test_hashed_grams_are_those_of_the_normalised_text(texts: list[str], room: int) -> None:
    """Whatever the size of the buffer; a text that is normalised already has the same grams."""
    hashed = [
        [piece.hashes.copy() for piece in Hasher(0, room).pieces(Texts.of(some))]
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
    first, second = (next(Hasher(0, 50).pieces(Texts.of([text]))).hashes.tolist() for text in (one, other))
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
    quotes = Scorer(portrait_of(tmp_path, corpus)).quotes(Texts.of(texts))
    assert [None if np.isnan(one) else one for one in quotes.scores] == [share(text) for text in texts]


@pytest.mark.parametrize("room", [40, 1_000])
def test_spans_are_the_quoted_places_of_the_raw_text(tmp_path: Path, room: int) -> None:
    known = "It is a truth universally acknowledged, that a single man"
    other = "nothing of this is in the corpus, not one part"
    text = f"😀{other}|{known[3:40]}  {other}\n\n {known}."
    texts = ["", text, known, other]
    quotes = Scorer(portrait_of(tmp_path, [known]), room).quotes(Texts.of(texts))
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


def test_a_stated_share_of_copied_text_is_recovered(tmp_path: Path) -> None:
    """A writer that copies 40 % of a passage has a QUIP of 40 %, but for the grams that cross the border."""
    rng = np.random.default_rng(0)
    passages = ["".join(map(chr, rng.integers(97, 123, 1_000))) for _ in range(50)]
    own = ["".join(map(chr, rng.integers(65, 91, 600))) for _ in passages]
    written = [passage[300:700] + invented for passage, invented in zip(passages, own, strict=True)]
    quotes = Scorer(portrait_of(tmp_path, passages, rate=1e-3)).quotes(Texts.of(written))
    copied = (400 - 24) / (1_000 - 24)
    assert quotes.scores == pytest.approx(copied, abs=0.01)
    assert quotes.scores.mean() == pytest.approx(copied, abs=0.001)


def test_a_long_line_is_read_in_pieces(tmp_path: Path) -> None:
    """Neither building nor scoring takes more memory for a longer line; a span does not break where a piece ends."""
    line = "".join(map(chr, np.random.default_rng(1).integers(97, 123, 1_000_000)))
    plan = plan_portrait(len(line), 1e-6, seed=0)

    def built_and_scored(texts: Texts, name: str) -> tuple[Quotes, int]:
        tracemalloc.start()
        build(tmp_path / "portrait" / name, plan, lambda: [texts], LOG, room=10_000)
        quotes = Scorer(open_portrait(tmp_path / "portrait" / name, plan), room=10_000).quotes(texts)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return quotes, peak

    built_and_scored(Texts.of(["compiles the loops" * 3]), "first")
    peaks = [built_and_scored(Texts.of([line[:n]]), str(n))[1] for n in (50_000, 200_000)]
    quotes, peak = built_and_scored(Texts.of([line]), "whole")
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
    quotes = Scorer(portrait_of(tmp_path, corpus, rate=0.001)).quotes(Texts.of([*asked, *corpus]))
    scores = [None if np.isnan(one) else one for one in quotes.scores]
    expected = [exact(text) for text in [*asked, *corpus]]
    assert [one is None for one in scores] == [one is None for one in expected]
    assert scores[len(asked) :] == expected[len(asked) :]  # no gram of the corpus is missed
    n_grams = quotes.n_grams[: len(asked)]
    truly = np.array([0 if one is None else one for one in expected[: len(asked)]]) * n_grams
    n_wrong = quotes.n_quoted[: len(asked)].sum() - truly.sum()
    assert 0.0008 < n_wrong / (n_grams - truly).sum() < 0.0012
