"""The transformers backend: batches against `generate`, limits, memory, what cannot be loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import ARCHITECTURES, LENGTH, save_tiny_model

from longtail.errors import BackendError
from longtail.generation.backends.base import Decoding, Failure, Generation, identify, load_backend
from longtail.generation.backends.hf import TransformersBackend
from longtail.generation.prompts.endings import FIRST_LINE, cut_answer, is_complete
from longtail.study.models import Model

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
            assert is_complete(result.text, FIRST_LINE)
    assert 0 < n_early < len(PROMPTS)
    sizes = [r.batch_size for r in results if isinstance(r, Generation)]
    assert 1 < max(sizes) < len(PROMPTS)
    assert sum(r.shared_tokens for r in results if isinstance(r, Generation)) > 0


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


def test_scores_that_are_not_finite_are_failures(folders: dict[str, Path]) -> None:
    backend = TransformersBackend(tiny(folders["llama"]))
    with torch.no_grad():
        backend._loaded.model.model.norm.weight.fill_(float("nan"))
    assert all(isinstance(r, Failure) for r in backend.generate(PROMPTS[:3], DECODING))


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


def test_equal_prompts_are_computed_once_and_accounts_add_up(folders: dict[str, Path]) -> None:
    backend = TransformersBackend(tiny(folders["llama"]))
    once = [r for r in backend.generate(["Q: abc A:"], DECODING) if isinstance(r, Generation)]
    thrice = [r for r in backend.generate(["Q: abc A:"] * 3, DECODING) if isinstance(r, Generation)]
    assert texts(thrice) == texts(once) * 3
    n = once[0].prompt_tokens
    assert [r.shared_tokens for r in thrice] == [0, n, n]
    assert {r.batch_size for r in thrice} == {3}
    assert all(r.device_seconds == pytest.approx(r.latency_ms / 1000) for r in thrice)


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
    assert len({r.text for results in found if not isinstance(results, Failure) for r in results}) > 9
    assert backend.sample(["Q: a A:"], decoding, [[]]) == [[]]
    with pytest.raises(BackendError, match="temperature 0"):
        backend.sample(["Q: a A:"], DECODING, [[1]])


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


def test_identity_follows_the_files(folders: dict[str, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folders["opt"], tmp_path / "copy"))
    first = identify(tiny(copy))
    assert first.revision == identify(tiny(folders["opt"])).revision
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "dropout": 0.25}))
    assert identify(tiny(copy)).revision != first.revision
    assert identify(tiny(copy, dtype="float16")).weights != identify(tiny(copy)).weights


def test_a_model_that_cannot_be_loaded_is_an_error_of_one_line(
    folders: dict[str, Path], tmp_path: Path
) -> None:
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
