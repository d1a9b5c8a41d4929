"""A checkpoint in the shape that Atlas is published in: converted once, it answers and embeds as the models in it did."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, BertConfig, BertModel, BertTokenizerFast

from longtail.embedding.declared import DeclaredEncoder
from longtail.embedding.settings import EncoderSettings
from longtail.errors import BackendError
from longtail.generation.backends.hf import FusionInDecoder
from longtail.models import atlas_models
from longtail.models.atlas_models import FILE, READER, RETRIEVER, convert
from longtail.study.models import Model
from tests.longtail.generation.tiny_models import save_tiny_model

PROMPTS, PASSAGES = ["Q: ab cd A:", "Q: h A:"], [["abc de. " * 3, "f", "gh"], ["a", "b c"]]
CANDIDATES = ["<extra_id_0> ab", "<extra_id_0> abc de"]
LOG = logging.getLogger("test")
TEXTS = ["the river", "a city in the north", "weaver"]


@pytest.fixture(scope="module")
def began_with(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A T5 and a BERT with random weights."""
    folder = tmp_path_factory.mktemp("models")
    save_tiny_model(folder / READER, "t5")
    vocabulary = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *sorted({word for text in TEXTS for word in text.split()}),
    ]
    tokenizer = BertTokenizerFast(vocab={word: i for i, word in enumerate(vocabulary)}, model_max_length=24)
    tokenizer.save_pretrained(folder / RETRIEVER)
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=24, initializer_range=0.6, pooling="average",
    )  # fmt: skip
    BertModel(config).save_pretrained(folder / RETRIEVER)
    return {part: folder / part for part in (READER, RETRIEVER)}


def weights_of(began_with: Mapping[str, Path], *encoders: str) -> dict[str, Any]:
    """The names that Atlas' training gives them, leftovers of old versions of transformers among them."""
    reader = AutoModelForSeq2SeqLM.from_pretrained(began_with[READER]).state_dict()
    bert = BertModel.from_pretrained(began_with[RETRIEVER], add_pooling_layer=False).state_dict()
    bert["embeddings.position_ids"] = torch.arange(24)[None]
    return {f"reader.{name}": value for name, value in reader.items()} | {
        f"retriever.{encoder}.{name}": value.clone()
        for encoder in encoders or ("contriever",)
        for name, value in bert.items()
    }


def publish(folder: Path, began_with: Mapping[str, Path], weights: Any, **more: Any) -> Path:
    """The file that Atlas' training saves; its folder."""
    opt = argparse.Namespace(
        reader_model_type=str(began_with[READER]), retriever_model_path=str(began_with[RETRIEVER]),
        text_maxlength=384, device=torch.device("cpu"),
    )  # fmt: skip
    folder.mkdir()
    checkpoint = {"step": 7, "model": weights, "optimizer": None, "scheduler": {"last_epoch": 7}, "opt": opt}
    torch.save(checkpoint | more, folder / FILE)
    return folder


def reader(path: Path) -> FusionInDecoder:
    return FusionInDecoder(
        Model("reader", str(path), backend="fusion_in_decoder", device="cpu", encoder_decoder=True)
    )


def encoder(path: Path) -> DeclaredEncoder:
    return DeclaredEncoder("contriever", EncoderSettings(path=str(path), normalise=False))


def test_the_converted_models_answer_and_embed_as_those_in_the_checkpoint(
    began_with: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    published = publish(tmp_path / "published", began_with, weights_of(began_with))
    folder = tmp_path / "converted"
    monkeypatch.setattr("sys.argv", ["atlas_models", str(published), str(folder)])
    atlas_models.main()
    assert "pooling: mean, normalise: false" in capsys.readouterr().out
    assert sorted(file.suffix for file in folder.glob("*/model*")) == [".safetensors"] * 2
    found, expected = (
        reader(path).score(PROMPTS, [CANDIDATES] * 2, passages=PASSAGES)
        for path in (folder / READER, began_with[READER])
    )
    assert [own.scores for own in found] == [own.scores for own in expected]  # type: ignore[union-attr]
    vectors = encoder(folder / RETRIEVER).load("cpu").encode(TEXTS, LOG)
    assert np.array_equal(vectors, encoder(began_with[RETRIEVER]).load("cpu").encode(TEXTS, LOG))


@pytest.mark.parametrize(
    "name",
    [
        lambda name: name.replace(".", ".module.", 1),
        lambda name: name.replace(".contriever.", ".module.contriever."),
    ],
)
def test_weights_of_a_training_on_several_machines_have_another_name(
    began_with: Mapping[str, Path], tmp_path: Path, name: Any
) -> None:
    weights = {name(key): value for key, value in weights_of(began_with).items()}
    convert(publish(tmp_path / "published", began_with, weights), tmp_path / "converted")
    assert (tmp_path / "converted" / RETRIEVER / "model.safetensors").is_file()


def test_two_encoders_are_one_only_where_they_are_equal(
    began_with: Mapping[str, Path], tmp_path: Path
) -> None:
    weights = weights_of(began_with, "query_contriever", "passage_contriever")
    convert(publish(tmp_path / "same", began_with, weights), tmp_path / "converted")
    assert encoder(tmp_path / "converted" / RETRIEVER).load("cpu").n_dimensions == 32
    weights["retriever.query_contriever.embeddings.LayerNorm.bias"] += 1
    with pytest.raises(BackendError, match="one encoder for questions and another one for passages"):
        convert(publish(tmp_path / "other", began_with, weights), tmp_path / "none")
    assert not (tmp_path / "none").exists()


class Evil:
    """Leaves a file where it is unpickled by anything that runs what a pickle says."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_wants_to_run_something_is_refused_and_runs_nothing(
    began_with: Mapping[str, Path], tmp_path: Path
) -> None:
    published = publish(
        tmp_path / "evil", began_with, weights_of(began_with), scheduler=Evil(tmp_path / "ran")
    )
    with pytest.raises(BackendError, match="holds more than weights and options") as caught:
        convert(published, tmp_path / "converted")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda own: own.pop("reader.encoder.block.0.layer.0.SelfAttention.q.weight"), "lacks weights of the reader"),
        (lambda own: own.update({"reader.x": torch.zeros(1)}), "has unknown weights of the reader .*: x"),
        (lambda own: own.update({"retriever.x.y": torch.zeros(1)}), "retriever.x.y is none of a Contriever"),
        (lambda own: own.update({"index.x": torch.zeros(1)}), "index.x belongs neither to a reader nor"),
        (dict.clear, "is no checkpoint of Atlas: it has no weights of a reader"),
        (
            lambda own: own.update({"reader.shared.weight": torch.zeros(3, 32)}),
            "reader does not fit the checkpoint",
        ),
    ],
)  # fmt: skip
def test_weights_that_are_not_those_of_atlas_are_refused(
    began_with: Mapping[str, Path], tmp_path: Path, change: Any, message: str
) -> None:
    weights = weights_of(began_with)
    change(weights)
    with pytest.raises(BackendError, match=message):
        convert(publish(tmp_path / "published", began_with, weights), tmp_path / "converted")
    assert [path.name for path in tmp_path.iterdir()] == ["published"]


def test_what_cannot_be_converted_is_refused_in_one_line(
    began_with: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = publish(tmp_path / "published", began_with, weights_of(began_with), opt=None)
    with pytest.raises(BackendError, match="names no reader_model_type; say which model it is with --reader"):
        convert(published, tmp_path / "converted")
    with pytest.raises(BackendError, match="nowhere: gives no configuration"):
        convert(published, tmp_path / "converted", str(tmp_path / "nowhere"), "x")
    with pytest.raises(BackendError, match="is there already"):
        convert(published, tmp_path)
    (tmp_path / "text").write_text("no checkpoint")
    monkeypatch.setattr("sys.argv", ["atlas_models", str(tmp_path / "text"), str(tmp_path / "converted")])
    with pytest.raises(SystemExit, match=r"error: .*text: "):
        atlas_models.main()
    convert(published, tmp_path / "converted", *map(str, began_with.values()))
    assert reader(tmp_path / "converted" / READER).identity.engine == "transformers"
