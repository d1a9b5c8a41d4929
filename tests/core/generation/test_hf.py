"""The transformers backend: batches against `generate`, limits, memory, what cannot be loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import ARCHITECTURES, LENGTH, save_tiny_model

from dagster_project.core.errors import BackendError
from dagster_project.core.generation.base import Decoding, Failure, Generation
from dagster_project.core.generation.hf import TransformersBackend
from dagster_project.core.generation.prompts import cut_answer, is_answer_complete
from dagster_project.core.generation.registry import identify, load_backend
from dagster_project.core.study import Model

DECODING = Decoding(15)
ODD = ["Q: a\x00b A:", "Q: \U0001f9ed\u200f\u05d0\u05d1 A:", "Q: \ud800 lone A:", "é" * 5_000]
PROMPTS = [f"Q: {'abc de ' * (i % 9)}{i} A:" for i in range(60)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {name: save_tiny_model(root / name, name) for name in ARCHITECTURES}


def tiny(folder: Path, **keys: Any) -> Model:
    return Model(**{"name": "tiny", "path": str(folder), "device": "cpu", **keys})


def texts(results: list[Generation | Failure]) -> list[str]:
    return [result.text for result in results if isinstance(result, Generation)]


def one_by_one(folder: Path, prompts: list[str]) -> list[list[int]]:
    """New tokens by transformers' own `generate`, a prompt at a time, the end token left out."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    found = []
    for prompt in prompts:
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        out = model.generate(ids, max_new_tokens=15, do_sample=False, attention_mask=torch.ones_like(ids))
        found.append([i for i in out[0, ids.shape[1] :].tolist() if i != tokenizer.eos_token_id])
    return found


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_batches_give_what_generate_gives_one_by_one(folders: dict[str, Path], architecture: str) -> None:
    from transformers import AutoTokenizer

    folder = folders[architecture]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    backend = load_backend(tiny(folder, batch_tokens=900))
    results = backend.generate(PROMPTS, DECODING)
    n_early = 0
    for result, expected in zip(results, one_by_one(folder, PROMPTS), strict=True):
        assert isinstance(result, Generation)
        whole = tokenizer.decode(expected, clean_up_tokenization_spaces=False)
        assert cut_answer(result.text) == cut_answer(whole)
        assert result.new_tokens <= len(expected)
        kept = expected[: result.new_tokens]
        assert result.text == tokenizer.decode(kept, clean_up_tokenization_spaces=False)
        if result.new_tokens < len(expected):
            n_early += 1
            assert is_answer_complete(result.text)
    assert 0 < n_early < len(PROMPTS)
    sizes = [r.batch_size for r in results if isinstance(r, Generation)]
    assert 1 < max(sizes) < len(PROMPTS)
    assert all(r.batch_size * (r.prompt_tokens + 15) <= 900 for r in results if isinstance(r, Generation))


def test_a_reference_model_answers_alike_in_batches_and_alone() -> None:
    relations = ("father", "author", "director")
    asked = [
        f"Q: Who is the {relation} of {name}? A:" for relation in relations for name in ("Nalo", "Ke Mi")
    ]
    model = Model(name="s", path="sandbox:s", device="cpu")
    batch = load_backend(model).generate(asked, DECODING)
    alone = [load_backend(model).generate([prompt], DECODING)[0] for prompt in asked]
    answers = [cut_answer(text) for text in texts(batch)]
    assert answers == [cut_answer(text) for text in texts(alone)]
    assert all(answers)


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


def test_out_of_memory_halves_the_batch(folders: dict[str, Path]) -> None:
    expected = texts(load_backend(tiny(folders["llama"])).generate(PROMPTS, DECODING))
    backend = TransformersBackend(tiny(folders["llama"]))

    def refuse(module: Any, args: Any, kwargs: Any) -> None:
        if len(kwargs["input_ids"]) > 7:
            raise torch.OutOfMemoryError("no memory for so many rows")

    backend._model.register_forward_pre_hook(refuse, with_kwargs=True)
    results = backend.generate(PROMPTS, DECODING)
    assert texts(results) == expected
    assert all(r.batch_size <= 7 for r in results if isinstance(r, Generation))


def test_one_prompt_too_many_for_the_memory_fails_alone(folders: dict[str, Path]) -> None:
    backend = TransformersBackend(tiny(folders["llama"]))

    def refuse(module: Any, args: Any, kwargs: Any) -> None:
        if kwargs["input_ids"].shape[1] > 60:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    backend._model.register_forward_pre_hook(refuse, with_kwargs=True)
    results = backend.generate([*PROMPTS[:5], "z" * 70], DECODING)
    assert [type(r) for r in results] == [Generation] * 5 + [Failure]


def test_scores_that_are_not_finite_are_failures(folders: dict[str, Path]) -> None:
    backend = TransformersBackend(tiny(folders["llama"]))
    with torch.no_grad():
        backend._model.model.norm.weight.fill_(float("nan"))
    assert all(isinstance(r, Failure) for r in backend.generate(PROMPTS[:3], DECODING))


def test_identity_follows_the_files(folders: dict[str, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folders["opt"], tmp_path / "copy"))
    first = identify(tiny(copy))
    assert first.revision == identify(tiny(folders["opt"])).revision
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "dropout": 0.25}))
    assert identify(tiny(copy)).revision != first.revision
    assert identify(tiny(copy, dtype="float16")).weights != identify(tiny(copy)).weights


def test_what_cannot_be_loaded_is_one_clear_line(folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="no folder /no/such"):
        identify(tiny(Path("/no/such")))
    with pytest.raises(BackendError, match=r"lacks config\.json"):
        load_backend(tiny(tmp_path))
    pickled = Path(shutil.copytree(folders["opt"], tmp_path / "pickled"))
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(BackendError, match="only safetensors"):
        load_backend(tiny(pickled))
    broken = Path(shutil.copytree(folders["opt"], tmp_path / "broken"))
    (broken / "model.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(BackendError, match="cannot be loaded"):
        load_backend(tiny(broken))
    with pytest.raises(BackendError, match="no torch device"):
        load_backend(tiny(folders["opt"], device="abacus"))


def test_a_model_that_is_only_partly_there_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    part = Path(shutil.copytree(folders["llama"], tmp_path / "part"))
    weights = load_file(part / "model.safetensors")
    weights.pop("model.norm.weight")
    save_file(weights, part / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BackendError, match=r"lack weights .* model\.norm\.weight"):
        load_backend(tiny(part))


def test_an_unknown_hub_model_offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(BackendError, match="cannot be downloaded") as caught:
        identify(Model(name="far", path="nobody/nothing", revision="main"))
    assert "\n" not in str(caught.value)


def test_a_hub_model_of_the_local_cache(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from huggingface_hub import constants

    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--somebody--tiny"
    shutil.copytree(folders["gpt2"], repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    model = Model(name="near", path="somebody/tiny", device="cpu")
    assert identify(model).revision == commit
    same = load_backend(tiny(folders["gpt2"])).generate(PROMPTS[:4], DECODING)
    assert texts(load_backend(model).generate(PROMPTS[:4], DECODING)) == texts(same)
