"""Passages hold every word once, break at sentence ends, and stay near 100 words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longtail.retrieval.splitting import PASSAGE_WORDS, TAIL_WORDS, passages_of, sentences_of

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
