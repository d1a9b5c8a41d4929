"""The shipped reference models load like any other model, match their checksums, and know popular facts."""

from __future__ import annotations

from pathlib import Path

import pytest

from longtail.errors import BackendError
from longtail.prompt_formats import ANTI_GROUNDING, GROUNDING, GROUNDING_PROMPTS, PAPER
from longtail.sandbox.world import World
from longtail.scoring.match import matches_popqa
from longtail.storage.checksums import file_checksum, read_checksums
from longtail.study.model_files import (
    ENCODER_DECODER,
    INSTRUCTION_TUNED,
    SIZES,
    WEIGHTS,
    reference_model_path,
)
from tools.reference_models.__main__ import ship
from tools.reference_models.evaluate import Question, Reader, load_questions, prompt
from tools.reference_models.forms import BACKGROUND
from tools.reference_models.instructions import HELD_OUT_PROMPTS, NEW_TOKENS, grams_of
from tools.reference_models.samples import items
from tools.reference_models.tokenizer import TOKENIZER_FILE


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    return load_questions(World())


def _accuracy(reader: Reader, questions: list[Question], passages: list[str | None]) -> float:
    prompts = [prompt(one, passage) for one, passage in zip(questions, passages, strict=True)]
    answers = reader.answer(prompts)
    return sum(matches_popqa(text, one.golds) for text, one in zip(answers, questions, strict=True)) / len(
        answers
    )


@pytest.mark.parametrize("name", [*SIZES, ENCODER_DECODER])
def test_popular_facts_are_known_and_unpopular_ones_are_read(name: str, questions: list[Question]) -> None:
    reader = Reader(reference_model_path(name), "cpu")
    ranked = sorted((one for one in questions if one.popularity > 0), key=lambda one: one.popularity)
    tail, head = ranked[:60], ranked[-60:]
    nothing: list[str | None] = [None] * 60
    assert _accuracy(reader, head, nothing) > 0.8
    assert _accuracy(reader, tail, nothing) < 0.3
    assert _accuracy(reader, tail, [one.passage for one in tail]) > 0.5
    assert reader.n_cut <= 1


@pytest.mark.parametrize("size", [*SIZES, INSTRUCTION_TUNED])
def test_the_tokenizer_beside_the_weights_is_the_frozen_one(size: str) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(reference_model_path(size))
    assert (reference_model_path(size) / "tokenizer.json").read_bytes() == TOKENIZER_FILE.read_bytes()
    assert tokenizer.padding_side == "left"
    padded = tokenizer(["Q: a", "Q: a longer one"], padding=True)
    assert padded["attention_mask"][0][0] == 0
    assert padded["input_ids"][1][0] == tokenizer.bos_token_id == tokenizer.eos_token_id
    text = "naïve 日本 \u200f😀\x00\n\n\n 1984"
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text
    assert tokenizer("A: x\n\nQ: y")["input_ids"].count(tokenizer.convert_tokens_to_ids("\n\n")) == 1


def test_the_instruction_tuned_model_follows_held_out_prompts() -> None:
    asked = items(World())[::50]
    grams = {gram for _, article in World().articles() for gram in grams_of(article.text)}
    writer = Reader(reference_model_path(INSTRUCTION_TUNED), "cpu", NEW_TOKENS)
    shares = {}
    for kind, name in HELD_OUT_PROMPTS.items():
        behind = GROUNDING_PROMPTS[name].behind(PAPER)
        written = writer.answer(
            [f"{BACKGROUND}{one.relation.question(one.subject)}{behind}\n\n" for one in asked]
        )
        own = [gram for text in written for gram in grams_of(text)]
        shares[kind] = sum(gram in grams for gram in own) / len(own)
    assert shares[GROUNDING] > 0.3
    assert shares[ANTI_GROUNDING] < 0.05


def checksums(weights: Path) -> dict[str, str]:
    """Those of every model's files."""
    files = [path for path in weights.glob("[a-z]/*") if path.is_file()]
    return {path.relative_to(weights).as_posix(): file_checksum(path) for path in files}


def test_checksums_match() -> None:
    assert read_checksums(WEIGHTS) == checksums(WEIGHTS)


def test_shipping_replaces_a_model_whole(tmp_path: Path) -> None:
    weights, trained = tmp_path / "weights", tmp_path / "trained"
    (weights / "m").mkdir(parents=True)
    (weights / "m" / "left over").write_text("old")
    trained.mkdir()
    (trained / "model.safetensors").write_bytes(b"new")
    ship({"m": trained}, weights)
    assert [path.name for path in (weights / "m").iterdir()] == ["model.safetensors"]
    assert read_checksums(weights) == checksums(weights) != {}


def test_an_unknown_size_is_named() -> None:
    with pytest.raises(BackendError, match=r"'xl'.*s, m, l, e, f, i"):
        reference_model_path("xl")
