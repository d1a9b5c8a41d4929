"""The transformers backend: batches against `generate`, limits, memory, what cannot be loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from tiny_models import LENGTH, texts, tiny

from longtail.errors import BackendError
from longtail.generation.backends.base import Decoding, Failure, Generation, load_backend
from longtail.generation.backends.hf import TransformersBackend

DECODING = Decoding(15)
ODD = ["Q: a\x00b A:", "Q: \U0001f9ed\u200f\u05d0\u05d1 A:", "Q: \ud800 lone A:", "é" * 5_000]
PROMPTS = [f"Q: {'abc de ' * (i % 9)}{i} A:" for i in range(60)]


def test_results_are_in_order_and_alike_for_any_batching(folders: dict[str, Path]) -> None:
    wide = load_backend(tiny(folders["llama"], batch_tokens=20_000)).generate(PROMPTS, DECODING)
    narrow = load_backend(tiny(folders["llama"], batch_tokens=64)).generate(PROMPTS, DECODING)
    assert texts(wide) == texts(narrow)
    backwards = load_backend(tiny(folders["llama"])).generate(PROMPTS[::-1], DECODING)
    assert texts(backwards)[::-1] == texts(wide)


def test_odd_texts_are_answered(folders: dict[str, Path]) -> None:
    results = load_backend(tiny(folders["gpt2"])).generate(ODD, DECODING)
    assert all(isinstance(result, Generation) for result in results)
    assert load_backend(tiny(folders["gpt2"])).generate([], DECODING) == []


def test_long_prompts_lose_their_beginning(folders: dict[str, Path]) -> None:
    backend = load_backend(tiny(folders["opt"]))
    tail = "x" * 200
    long, short = backend.generate([f"{'é' * 5_000}{tail}", tail], DECODING)
    assert isinstance(long, Generation)
    assert isinstance(short, Generation)
    assert long.prompt_tokens == short.prompt_tokens == LENGTH - 15
    assert long.n_truncated_tokens > 9_000
    assert long.prompt_tokens + long.n_truncated_tokens == 1 + 10_000 + 200
    assert long.text == short.text
    with pytest.raises(BackendError, match="lower max_new_tokens"):
        backend.generate(["a"], Decoding(LENGTH))


def test_a_prompt_whose_scores_are_not_finite_fails_alone(folders: dict[str, Path]) -> None:
    backend = TransformersBackend(tiny(folders["gpt2"]))
    expected = backend.generate(PROMPTS[:9], DECODING)
    with torch.no_grad():
        # only prompts with 40 tokens or more have this position
        backend._loaded.model.transformer.wpe.weight[40].fill_(float("nan"))
    found = backend.generate(PROMPTS[:9], DECODING)
    long = [isinstance(r, Generation) and r.prompt_tokens + r.new_tokens > 40 for r in expected]
    assert 0 < sum(long) < 9
    for before, after, is_long in zip(expected, found, long, strict=True):
        if is_long:
            assert isinstance(after, Failure)
        else:
            assert texts([after]) == texts([before])


def test_samples_are_the_same_in_any_batch(folders: dict[str, Path]) -> None:
    backend = TransformersBackend(tiny(folders["gpt_neox"], batch_tokens=2_000))
    decoding = Decoding(15, 0.5)
    prompts = [*PROMPTS[:8], PROMPTS[0]]
    seeds = [[10 * i + j for j in range(4)] for i in range(8)] + [[0, 99, 0]]
    found = backend.sample(prompts, decoding, seeds)
    for prompt, own, results in zip(prompts, seeds, found, strict=True):
        assert not isinstance(results, Failure)
        for seed, result in zip(own, results, strict=True):
            (alone,) = backend.sample([prompt], decoding, [[seed]])
            assert not isinstance(alone, Failure)
            assert alone[0].text == result.text
    first = found[0]
    assert not isinstance(first, Failure)
    assert [r.shared_tokens for r in first[1:]] == [first[0].prompt_tokens] * 3
    assert {r.batch_size for r in first} == {first[0].batch_size}
    assert all(r.device_seconds == pytest.approx(r.latency_ms / 1000) for r in first)
    assert len({r.text for results in found if not isinstance(results, Failure) for r in results}) > 9
    assert backend.sample(["Q: a A:"], decoding, [[]]) == [[]]


def test_a_tokenizer_without_bos_or_pad(folders: dict[str, Path], tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    bare = Path(shutil.copytree(folders["llama"], tmp_path / "bare"))
    written = json.loads((bare / "tokenizer.json").read_text())
    (bare / "tokenizer.json").write_text(json.dumps({**written, "post_processor": None}))
    settings = json.loads((bare / "tokenizer_config.json").read_text())
    kept = {key: value for key, value in settings.items() if "token" not in key or key == "tokenizer_class"}
    (bare / "tokenizer_config.json").write_text(json.dumps(kept))
    tokenizer = AutoTokenizer.from_pretrained(bare)
    assert tokenizer.pad_token is None
    assert tokenizer.bos_token is None
    found = load_backend(tiny(bare)).generate(["", *PROMPTS[:20]], DECODING)
    assert isinstance(found[0], Failure)
    assert "no tokens" in found[0].reason
    alone = [load_backend(tiny(bare)).generate([prompt], DECODING)[0] for prompt in PROMPTS[:3]]
    assert texts(found[1:4]) == texts(alone)
    assert len(texts(found)) == 20
