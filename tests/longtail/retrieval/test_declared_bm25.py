"""BM25 as a study declares it: scores equal those of bare bm25s; stop words and stems."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from longtail.errors import IndexMissingError
from longtail.methods import METHODS
from longtail.retrieval.base import Context, Hit, Query, load_retriever
from longtail.retrieval.bm25 import tokeniser
from longtail.retrieval.indexes import build_index
from longtail.retrieval.retrieve import retrieve_passages
from longtail.retrieval.retrievers.bm25 import STEMMERS, STOP_WORDS, Bm25Settings
from longtail.retrieval.stored_passages import Passage, StoredPassages
from longtail.storage.lake import Lake
from longtail.study.study import Study

LOG = logging.getLogger("longtail-tests")


def found(
    folder: Path, texts: list[str], questions: list[str], settings: Bm25Settings, k: int, shard_rows: int
) -> list[list[Hit]]:
    passages = [Passage(f"P{i:03}", None, "", 0, text) for i, text in enumerate(texts)]
    retriever = load_retriever(dataclasses.replace(METHODS["bm25"], name="other", settings=settings))
    context = Context(StoredPassages.of(passages, shard_rows), folder, folder, LOG, k)
    retriever.build(context)
    return retriever.search(context, [Query("d", str(i), text, None, ()) for i, text in enumerate(questions)])


def test_scores_equal_those_of_bare_bm25s(tmp_path: Path) -> None:
    import bm25s

    rng = np.random.default_rng(2)
    words = np.array([f"w{i}" for i in range(40)])
    texts = [" ".join(words[rng.zipf(1.4, rng.integers(1, 30)) % 40]) for _ in range(90)]
    questions = [" ".join([*words[rng.integers(0, 40, 4)], "unseen"]) for _ in range(25)]
    bare = bm25s.BM25(k1=0.9, b=0.4)
    bare.index([text.split() for text in texts], show_progress=False)
    settings = Bm25Settings(0.9, 0.4)
    for question, hits in zip(questions, found(tmp_path, texts, questions, settings, 1_000, 25), strict=True):
        known = [word for word in question.split() if word in bare.vocab_dict]
        scores = bare.get_scores(known)
        assert len(hits) == (scores > scores.min() if known else np.zeros(90)).sum()
        for hit in hits:
            assert hit.score == pytest.approx(float(scores[int(hit.passage_id[1:])]), abs=1e-5)


def test_tokens_lose_stop_words_and_then_their_endings() -> None:
    text = "The weavers of Łódź were weaving: these are their CITIES"
    tokens = tokeniser(Bm25Settings(stop_words="english"))(text)
    assert tokens == ["weavers", "łódź", "were", "weaving", "cities"]
    both = tokeniser(Bm25Settings(stop_words="english_plus", stemmer="english"))(text)
    assert both == ["weaver", "łódź", "weav", "citi"]
    assert tokeniser(Bm25Settings(stemmer="english"))("the cities") == ["the", "citi"]


def test_every_list_and_every_stemmer_is_there() -> None:
    for stop_words in STOP_WORDS:
        assert tokeniser(Bm25Settings(stop_words=stop_words))("xyzzy") == ["xyzzy"]
    for stemmer in STEMMERS:
        assert len(tokeniser(Bm25Settings(stemmer=stemmer))("xyzzy plugh")) == 2


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("iPhone手機の2020年", ["iphone", "手機", "機の", "2020", "年"]),
        (
            "ﾃﾚﾋﾞとビール",
            ["テレ", "レビ", "ビと", "とビ", "ビー", "ール"],
        ),  # half width; the mark of a long vowel
        ("ประเทศ ที่", ["ปร", "ระ", "ะเ", "เท", "ทศ", "ที่"]),  # marks stay with their letter
        ("東 葛\U000e0100城", ["東", "葛\U000e0100城"]),
        (
            "한국어 단어, naïve Łódź's café",
            ["한국어", "단어", "naïve", "łódź", "s", "café"],
        ),  # words have boundaries
        ("plain", ["plain"]),
    ],
)
def test_pairs_of_characters_stand_for_words_that_have_no_boundaries(text: str, tokens: list[str]) -> None:
    assert tokeniser(Bm25Settings(tokens="cjk_bigrams"))(text) == tokens


def test_bigrams_find_chinese_and_words_do_not_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    texts = ["艾达是一名织工。", "罗马是意大利的首都。", "plain words"]
    for tokens, hits in (("words", []), ("cjk_bigrams", ["P001"])):
        caplog.clear()
        (folder := tmp_path / tokens).mkdir()
        (own,) = found(folder, texts, ["意大利首都在哪里"], Bm25Settings(tokens=tokens), 1, 2)
        assert [hit.passage_id for hit in own] == hits
        said = "other: 50 % of the tokens of the passages are runs of Chinese, Japanese, Thai"
        assert (said in caplog.text) == (tokens == "words")


def test_a_question_of_stop_words_only_finds_nothing_and_k_may_be_above_all_passages(tmp_path: Path) -> None:
    texts = ["the weaver", "a weaver and the painter", "of the"]
    hits = found(tmp_path, texts, ["what is the", "the weavers"], Bm25Settings(stop_words="english"), 50, 2)
    assert hits == [[], []]  # "what" and "weavers" stand in no passage
    stemmed = Bm25Settings(stop_words="english", stemmer="english")
    (tmp_path / "stemmed").mkdir()
    hits = found(tmp_path / "stemmed", texts, ["of the", "the weavers"], stemmed, 50, 2)
    assert [[hit.passage_id for hit in own] for own in hits] == [[], ["P000", "P001"]]


def test_a_declared_retriever_has_its_own_index_and_rows_and_another_declaration_is_refused_by_name(
    rdf_text: str, make_study: Callable[[str], Study], searchable: Lake, log: logging.Logger
) -> None:
    declared = "retrievers: [{name: stemmed, kind: bm25, stemmer: english}]\n"
    text = rdf_text.replace("bm25, dense, oracle", "bm25, stemmed, hybrid") + declared
    study = make_study(text)
    assert study.results_read_by("hybrid") == ("bm25", "stemmed")
    for name in study.retrieval_methods:
        if study.method(name).index:
            assert build_index(study, searchable, name, log).path.parent.name == name
        retrieve_passages(study, searchable, name, log)
    rows = searchable.read("retrieved_passages", "stemmed").to_pylist()
    assert {row["retriever"] for row in rows} == {"stemmed"}
    assert rows
    other = make_study(text.replace("stemmer: english", "stemmer: english, k1: 0.9"))
    with pytest.raises(
        IndexMissingError,
        match=r"stemmed index is of other library or encoder: bm25s [\d.]+, k1 1\.5, .*not .*k1 0\.9",
    ):
        retrieve_passages(other, searchable, "stemmed", log)
    other = make_study(text.replace("stemmer: english", "stemmer: english, tokens: cjk_bigrams"))
    with pytest.raises(IndexMissingError, match=r"english stems, not .*english stems, cjk_bigrams"):
        retrieve_passages(other, searchable, "stemmed", log)
