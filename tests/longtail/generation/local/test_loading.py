"""What is loaded, and every way in which it cannot be, in one line; weights by hub id from a server of our own."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import types
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import LENGTH, save_tiny_model, tiny

from longtail.errors import BackendError
from longtail.generation.backends.base import identify
from longtail.generation.backends.local.loading import load_model
from longtail.models import placement
from longtail.needs import install_command
from longtail.study.models import Model

without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def llama(folders: dict[str, Path]) -> Path:
    return folders["llama"]


@pytest.fixture
def copy(llama: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(llama, tmp_path / "copy"))


def edit(path: Path, **keys: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


def refusal(model: Model) -> str:
    with pytest.raises(BackendError) as caught:
        load_model(model)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"model {model.name}: ")
    return text


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_weights_have_the_dtype_asked_for(llama: Path, dtype: str) -> None:
    loaded = load_model(tiny(llama, dtype=dtype))
    assert {str(p.dtype) for p in loaded.model.parameters()} == {f"torch.{dtype}"}
    assert not loaded.model.training
    assert (loaded.length, loaded.end_ids, loaded.is_encoder_decoder) == (LENGTH, {0}, False)
    assert loaded.devices == (torch.device("cpu"),)
    loaded.close()
    assert loaded.model is None


def test_a_length_that_only_the_tokenizer_declares(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path, "bloom")
    assert load_model(tiny(folder)).room(15) is None
    edit(folder / "tokenizer_config.json", model_max_length=50)
    assert load_model(tiny(folder)).room(15) == 35


def test_end_tokens_are_those_that_generate_follows(copy: Path) -> None:
    edit(copy / "generation_config.json", eos_token_id=[5, 7])
    assert load_model(tiny(copy)).end_ids == {5, 7}
    edit(copy / "generation_config.json", eos_token_id=None)
    assert load_model(tiny(copy)).end_ids == {0}


def test_added_tokens_without_an_embedding_are_left_out(copy: Path) -> None:
    loaded = load_model(tiny(copy))
    loaded.tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    assert len(loaded.tokenizer) > loaded.n_embeddings
    both, a, b = loaded.encode(["a[PAD]b", "a", "b"])
    assert both == a + b[1:]


def test_a_tokenizer_of_another_model_is_refused(copy: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(copy / "model.safetensors")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        weights[name] = weights[name][:300].clone()
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    edit(copy / "config.json", vocab_size=300)
    assert "its weights 300 embeddings; they do not belong together" in refusal(tiny(copy))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"device": "abacus"}, "'abacus' is no torch device"),
        ({"device": "cuda"}, "device cuda asked for, but torch sees no CUDA; use auto or cpu"),
        ({"device": "cuda:3"}, "device cuda:3 asked for, but torch sees no CUDA; use auto or cpu"),
        ({"quantisation": "8bit"}, "quantisation 8bit needs a CUDA GPU, and the device is cpu"),
        (
            {"quantisation": "4bit", "device": "auto"},
            "quantisation 4bit needs a CUDA GPU, and the device is cpu",
        ),
        ({"device_map": "auto"}, "device_map auto spreads a model over all GPUs"),
    ],
)
@without_cuda
def test_what_needs_cuda_is_refused_without_it(llama: Path, keys: dict[str, str], message: str) -> None:
    assert message in refusal(tiny(llama, **keys))


@pytest.mark.parametrize("package", ["accelerate", "bitsandbytes"])
def test_a_package_that_is_not_installed(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(BackendError) as caught:
        placement.check_package(Model("big", "x"), "quantisation 4bit", package)
    assert str(caught.value) == (
        f"model big: quantisation 4bit needs the package {package}, which is not installed; "
        f"run: {install_command('[quantised]')}"
    )


def test_transformers_gets_quantisation_and_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", types.ModuleType("bitsandbytes"))
    gpu = torch.device("cuda", 1)
    eight = placement.placement(Model("m", "x", quantisation="8bit", dtype="float16"), gpu)
    assert eight["device_map"] == {"": gpu}
    assert eight["quantization_config"].load_in_8bit
    four = placement.placement(
        Model("m", "x", quantisation="4bit", dtype="bfloat16", device_map="balanced"), gpu
    )
    assert four["device_map"] == "balanced"
    settings = four["quantization_config"]
    assert settings.load_in_4bit
    assert (settings.bnb_4bit_quant_type, settings.bnb_4bit_compute_dtype) == ("nf4", torch.bfloat16)
    assert placement.placement(Model("m", "x"), gpu) == {}


def test_parts_that_find_no_gpu_are_refused() -> None:
    spread = {"model.embed": 0, "model.layers.0": 1, "model.layers.1": "cpu", "lm_head": "disk"}
    with pytest.raises(
        BackendError, match=r"no room for 2 of its 4 parts, as lm_head; use quantisation 8bit"
    ):
        placement.check_spread(Model("big", "x", device_map="auto"), spread)
    placement.check_spread(Model("big", "x", device_map="auto"), {"": 0})


def test_quantisation_is_part_of_the_identity(llama: Path) -> None:
    kinds = [identify(tiny(llama, quantisation=kind)) for kind in ("none", "8bit", "4bit")]
    assert [identity.quantisation for identity in kinds] == ["none", "8bit", "4bit"]
    assert len({identity.weights for identity in kinds}) == 3


def _without_tokenizer(folder: Path) -> None:
    for path in folder.glob("*token*"):
        path.unlink()


def _without_a_weight(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    weights.pop("model.norm.weight")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _own_code(folder: Path) -> None:
    code = {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"}
    edit(folder / "config.json", model_type="marvel", auto_map=code)
    (folder / "code.py").write_text("raise SystemExit('code of a repository was run')")


def _shard(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))


def _with(**keys: Any) -> Callable[[Path], None]:
    return lambda folder: edit(folder / "config.json", **keys)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_without_tokenizer, "there are no tokenizer files; tokenizer.json is wanted"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "its tokenizer does not load"),
        (_with(model_type="marvel"), "model type `marvel` but Transformers does not recognize"),
        (_own_code, "it needs code of its own repository, which is never run"),
        (_with(model_type="bert", architectures=["BertForMaskedLM"]), "architecture bert generates no text"),
        (_with(model_type="clip", architectures=None), "architecture clip generates no text"),
        (_with(hidden_size=64), "config.json gives the weights other sizes than the files do"),
        (_shard, "lacks model-00002-of-00002.safetensors"),
        (lambda folder: (folder / "model.safetensors").rename(folder / "adapter_model.safetensors"),
         "lacks model.safetensors"),
        (_without_a_weight, "lack weights of the model, as model.norm.weight"),
    ],
)  # fmt: skip
def test_damaged_folders(copy: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(copy)
    assert message in refusal(tiny(copy))


HUB = {
    "wrong": (404, "RevisionNotFound"),
    "gated": (403, "GatedRepo"),
    "nothing": (404, "RepoNotFound"),
    "broken": (500, ""),
}


class _Hub(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, code = next(answer for name, answer in HUB.items() if name in self.path)
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A hub that refuses, and the local cache beside it."""
    from huggingface_hub import constants

    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield tmp_path / "hub"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("some/wrong", "hub model some/wrong has no revision v9; name a branch, a tag or a full commit"),
        ("some/gated", "hub model some/gated wants its terms accepted on its page, and a login"),
        ("some/nothing", f"there is no folder {Path.cwd()}/some/nothing, and no hub model of this name"),
        ("some/broken", "and cannot be downloaded"),
    ],
)
def test_what_the_hub_refuses(hub: Path, path: str, message: str) -> None:
    assert message in refusal(Model("far", path, revision="v9", device="cpu"))


def test_a_revision_that_the_cache_lacks_offline(
    hub: Path, llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    kept = hub / "models--some--model"
    shutil.copytree(llama, kept / "snapshots" / COMMIT)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(COMMIT)
    assert identify(Model("near", "some/model")).revision == COMMIT
    assert identify(Model("near", "some/model", revision=COMMIT)).revision == COMMIT
    message = refusal(Model("near", "some/model", revision="v9", device="cpu"))
    assert (
        f"some/model at revision v9 is no folder, not in the local hub cache, which holds {COMMIT}, main"
        in message
    )
