"""Passages from articles and from verbalised triples."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.errors import LakeError
from longtail.relations.relation import enumerate_names
from longtail.retrieval.passages import build_passages
from longtail.retrieval.splitting import PASSAGE_WORDS, TAIL_WORDS, passages_of, sentences_of
from longtail.sandbox.world import World
from longtail.storage.lake import Lake
from longtail.study.study import Study


def test_triples_are_verbalised_one_passage_a_subject(searchable: Lake) -> None:
    rows = {row["passage_id"]: row for row in searchable.read("passages").to_pylist()}
    assert list(rows) == ["Q1-0", "Q2-0", "Q5-0", "Q6-0"]  # Q405 has no label
    ada = rows["Q1-0"]
    assert (
        ada["text"]
        == "The occupation of Ada Quill is Weaver and Painter and more. Ada Quill was born in Łódź."
    )
    assert (ada["entity_id"], ada["title"], ada["position"], ada["source"]) == (
        "Q1",
        "Ada Quill",
        0,
        "verbalised",
    )
    assert rows["Q5-0"]["text"] == "The genre of The [subj] {0} \\1 %s is Ünïcödé."
    assert rows["Q6-0"]["text"] == "Nun\x00Mark \u200f العربية 👩‍🚀 was born in Łódź."


def test_enumerated() -> None:
    assert [enumerate_names(list("abc")[:n]) for n in (1, 2, 3)] == ["a", "a and b", "a, b and c"]


def test_articles_of_the_sandbox(hand_study: Study, log: logging.Logger) -> None:
    lake = Lake(hand_study.home.lake)
    assert not build_passages(hand_study, lake, log).was_current
    assert build_passages(hand_study, lake, log).was_current
    expected = {entity_id: (a.title, a.text.split()) for entity_id, a in World(0, 8).articles()}
    found: dict[str, tuple[str, list[str]]] = {}
    for row in lake.read("passages").to_pylist():
        assert row["passage_id"] == f"{row['entity_id']}-{row['position']}"
        assert row["source"] == "sandbox"
        words = found.setdefault(row["entity_id"], (row["title"], []))[1]
        words.extend(row["text"].split())
    assert found == expected


def test_missing_triples_say_so(rdf_study: Study, log: logging.Logger) -> None:
    with pytest.raises(LakeError, match="lake/triples"):
        build_passages(rdf_study, Lake(rdf_study.home.lake), log)


WORDS = st.sampled_from(
    ["cat", "Dr.", "end.", "Why?", "«so»", "A.", "łódź", "7", 'ok!"', "世界。", "\u0915\u094d"]
)


@given(st.lists(st.tuples(WORDS, st.sampled_from([" ", "\n", "  ", "\u00a0", "\n\n"])), max_size=700))
def test_every_word_once_in_order(parts: list[tuple[str, str]]) -> None:
    text = "".join(word + gap for word, gap in parts)
    passages = passages_of(text)
    assert " ".join(passages).split() == text.split()
    counts = [len(passage.split()) for passage in passages]
    assert all(0 < count <= PASSAGE_WORDS for count in counts[:-1])
    if len(counts) > 1:
        assert TAIL_WORDS <= counts[-1] < PASSAGE_WORDS + TAIL_WORDS


@given(st.text(max_size=3000))
def test_any_text_keeps_its_words(text: str) -> None:
    assert " ".join(passages_of(text)).split() == text.split()


def test_sentences_are_kept_whole() -> None:
    sentence = " ".join(["word"] * 39) + " end."
    text = " ".join(["Big " + sentence] * 5)
    passages = passages_of(text)
    assert [len(passage.split()) for passage in passages] == [82, 82, 41]
    assert all(passage.startswith("Big ") and passage.endswith("end.") for passage in passages)


def test_a_long_sentence_is_cut_at_words() -> None:
    passages = passages_of("a " * 250)
    assert [len(passage.split()) for passage in passages] == [100, 100, 50]


def test_a_short_tail_joins_the_passage_before() -> None:
    assert [len(p.split()) for p in passages_of("a " * 224)] == [100, 124]
    assert [len(p.split()) for p in passages_of("a " * 24)] == [24]


def test_sentence_ends() -> None:
    assert sentences_of("He met Dr. Smith. J. Doe left! “Why?” Nobody knows… 7 came.") == [
        "He met Dr. Smith.", "J. Doe left!", "“Why?”", "Nobody knows…", "7 came.",
    ]  # fmt: skip
    assert sentences_of("1.5 m tall, e.g. this one. And that") == ["1.5 m tall, e.g. this one.", "And that"]
    assert sentences_of("Title\n\nText") == ["Title", "Text"]
    assert sentences_of(" \n ") == []
