"""BM25 against a brute-force implementation of Lucene's formula, and its ranking and tokens."""

from __future__ import annotations

import dataclasses
import logging
import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.errors import IndexMissingError
from longtail.methods import METHODS, Method
from longtail.retrieval.base import Context, Hit, Query, load_retriever
from longtail.retrieval.bm25 import best_rows, tokeniser, tokens_of
from longtail.retrieval.indexes import build_index
from longtail.retrieval.retrieve import retrieve_passages
from longtail.retrieval.retrievers.bm25 import STEMMERS, STOP_WORDS, Bm25Settings
from longtail.retrieval.stored_passages import Passage, StoredPassages
from longtail.storage.lake import Lake
from longtail.study.study import Study

LOG = logging.getLogger("longtail-tests")


def passage(number: int, text: str, title: str = "") -> Passage:
    return Passage(f"Q{number:03d}-0", f"Q{number:03d}", title, 0, text)


def found(
    folder: Path, passages: list[Passage], questions: list[str], k: int, shard_rows: int = 1_000,
    method: Method = METHODS["bm25"],
) -> list[list[Hit]]:  # fmt: skip
    context = Context(StoredPassages.of(passages, shard_rows), folder, folder, LOG, k)
    retriever = load_retriever(method)
    retriever.build(context)
    return retriever.search(context, [Query("d", str(i), text, "", ()) for i, text in enumerate(questions)])


def brute_force(passages: list[Passage], question: str) -> dict[str, float]:
    documents = {p.passage_id: Counter(tokens_of(f"{p.title} {p.text}")) for p in passages}
    mean_length = sum(d.total() for d in documents.values()) / len(documents)
    scores = {}
    for passage_id, counts in documents.items():
        score = 0.0
        for token in tokens_of(question):
            n = sum(token in d for d in documents.values())
            if counts[token]:
                idf = math.log(1 + (len(documents) - n + 0.5) / (n + 0.5))
                score += (
                    idf * counts[token] / (counts[token] + 1.5 * (0.25 + 0.75 * counts.total() / mean_length))
                )
        scores[passage_id] = score
    return scores


def test_scores_equal_brute_force(tmp_path: Path) -> None:
    rng = random.Random(7)
    words = ["ada", "Łódź", "weaver", "born", "in", "the", "city", "of", "कर्म", "é", "père", "x1"]
    passages = [
        passage(i, " ".join(rng.choices(words, k=rng.randint(1, 40))), title=rng.choice(words))
        for i in range(60)
    ]
    questions = [" ".join(rng.choices([*words, "unseen"], k=5)) for _ in range(40)]
    for question, hits in zip(questions, found(tmp_path, passages, questions, 10), strict=True):
        expected = brute_force(passages, question)
        assert [hit.score for hit in hits] == pytest.approx(
            [expected[hit.passage_id] for hit in hits], rel=1e-5
        )
        best = sorted((s for s in expected.values() if s > 0), reverse=True)[:10]
        assert [hit.score for hit in hits] == pytest.approx(best, rel=1e-5)


def test_equal_scores_go_by_passage_id(tmp_path: Path) -> None:
    passages = [passage(i, "Ada Quill was born in Rome") for i in range(20)]  # namesakes with the same text
    hits = found(tmp_path, passages, ["Where was Ada Quill born?"], 3)[0]
    assert [hit.passage_id for hit in hits] == ["Q000-0", "Q001-0", "Q002-0"]


def test_no_shared_token_is_no_hit(tmp_path: Path) -> None:
    passages = [passage(1, "one two"), passage(2, "three")]
    assert found(tmp_path, passages, ["four", "", "?!", "three"], 5) == [
        [],
        [],
        [],
        [Hit("Q002-0", pytest.approx(0.7, abs=0.5))],
    ]


def test_passages_without_any_token(tmp_path: Path) -> None:
    assert found(tmp_path, [passage(1, "?!"), passage(2, "…")], ["anything"], 2) == [[]]


def test_hostile_tokens_survive_storing(tmp_path: Path) -> None:
    text = 'quote" back\\slash 👩‍🚀 \u200fعربية nul\x00byte \ud7ff'
    passages = [passage(1, text), passage(2, "other")]
    for word in ("QUOTE", "slash", "عربية", "nul"):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        assert found(folder, passages, [word], 1)[0][0].passage_id == "Q001-0"


def test_tokens() -> None:
    assert tokens_of("What is Ada's occupation?") == ["what", "is", "ada", "s", "occupation"]
    assert tokens_of("Cafe\u0301 CAFÉ STRASSE straße") == ["café", "café", "strasse", "strasse"]
    assert tokens_of("हिन्दी") == ["हिन्दी"]  # vowel signs are marks: they do not break a word
    assert tokens_of("ﬁne ①") == ["fine", "1"]


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5]), min_size=1, max_size=40), st.integers(1, 45))
@settings(max_examples=200)
def test_best_rows_equal_a_full_sort(scores: list[float], k: int) -> None:
    expected = sorted((row for row, s in enumerate(scores) if s > 0), key=lambda row: (-scores[row], row))[:k]
    assert best_rows(np.array(scores, dtype=np.float32), k).tolist() == expected


LOG = logging.getLogger("longtail-tests")


def declared(
    folder: Path, texts: list[str], questions: list[str], settings: Bm25Settings, k: int, shard_rows: int
) -> list[list[Hit]]:
    passages = [Passage(f"P{i:03}", None, "", 0, text) for i, text in enumerate(texts)]
    method = dataclasses.replace(METHODS["bm25"], name="other", settings=settings)
    return found(folder, passages, questions, k, shard_rows, method)


def test_scores_equal_those_of_bare_bm25s(tmp_path: Path) -> None:
    import bm25s

    rng = np.random.default_rng(2)
    words = np.array([f"w{i}" for i in range(40)])
    texts = [" ".join(words[rng.zipf(1.4, rng.integers(1, 30)) % 40]) for _ in range(90)]
    questions = [" ".join([*words[rng.integers(0, 40, 4)], "unseen"]) for _ in range(25)]
    bare = bm25s.BM25(k1=0.9, b=0.4)
    bare.index([text.split() for text in texts], show_progress=False)
    settings = Bm25Settings(0.9, 0.4)
    for question, hits in zip(
        questions, declared(tmp_path, texts, questions, settings, 1_000, 25), strict=True
    ):
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


def test_bigrams_find_chinese_and_words_do_not(tmp_path: Path) -> None:
    texts = ["艾达是一名织工。", "罗马是意大利的首都。", "plain words"]
    for tokens, ids in (("words", []), ("cjk_bigrams", ["P001"])):
        (folder := tmp_path / tokens).mkdir()
        (hits,) = declared(folder, texts, ["意大利首都在哪里"], Bm25Settings(tokens=tokens), 1, 2)
        assert [hit.passage_id for hit in hits] == ids


def test_a_question_of_stop_words_only_finds_nothing_and_k_may_be_above_all_passages(tmp_path: Path) -> None:
    texts = ["the weaver", "a weaver and the painter", "of the"]
    hits = declared(
        tmp_path, texts, ["what is the", "the weavers"], Bm25Settings(stop_words="english"), 50, 2
    )
    assert hits == [[], []]  # "what" and "weavers" stand in no passage
    stemmed = Bm25Settings(stop_words="english", stemmer="english")
    (tmp_path / "stemmed").mkdir()
    hits = declared(tmp_path / "stemmed", texts, ["of the", "the weavers"], stemmed, 50, 2)
    assert [[hit.passage_id for hit in own] for own in hits] == [[], ["P000", "P001"]]


def test_a_declared_retriever_has_its_own_index_and_rows_and_another_declaration_is_refused_by_name(
    rdf_text: str, make_study: Callable[[str], Study], searchable: Lake, log: logging.Logger
) -> None:
    given = "retrievers: [{name: stemmed, kind: bm25, stemmer: english}]\n"
    text = rdf_text.replace("bm25, dense, oracle", "bm25, stemmed, hybrid") + given
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
