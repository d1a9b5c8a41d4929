"""What of a model's folder is read: hashed files of its own, safetensors, of a sensible size; else one line."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from longtail.errors import BackendError
from longtail.generation.backends.base import identify
from longtail.generation.backends.local.loading import load_model
from longtail.models.model_files import PATTERNS, find_files
from longtail.storage.checksums import RECORD, record
from longtail.storage.files import STAGING
from longtail.storage.home import longtail_home
from tests.flipped_bits import flip_bit
from tests.longtail.generation.tiny_models import save_tiny_model, tiny

COMMIT = "0123456789abcdef0123456789abcdef01234567"
INDEX = "model.safetensors.index.json"
DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("llama"), "llama")


@pytest.fixture
def copy(llama: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(llama, tmp_path / "copy"))


def edit(path: Path, **keys: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


def moved_to(name: str, kept: str | None = None) -> Callable[[Path], None]:
    """Weights that lie at `name`, as the index says (or as `kept` says)."""

    def damage(folder: Path) -> None:
        target = folder / (kept or name)
        target.parent.mkdir(exist_ok=True)
        (folder / "model.safetensors").rename(target)
        (folder / INDEX).write_text(json.dumps({"weight_map": {"a": name}}))

    return damage


def linked(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.parent / "elsewhere")
    (folder / "model.safetensors").symlink_to("../elsewhere")


def written(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text) and None


BESIDE = "weights are safetensors files that lie beside their index"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (moved_to("../outside.safetensors"), f"names '../outside.safetensors'; {BESIDE}"),
        (moved_to("sub/part.safetensors"), f"names 'sub/part.safetensors'; {BESIDE}"),
        (moved_to("/dev/zero.safetensors", "z.safetensors"), f"names '/dev/zero.safetensors'; {BESIDE}"),
        (moved_to("weights.bin"), f"names 'weights.bin'; {BESIDE}"),
        (moved_to("a\x1b[2J\n.bin", "weights.bin"), r"names 'a\x1b[2J\n.bin'"),
        (written(INDEX, '{"weight_map": {"a": ["x"]}}'), "has no weight_map"),
        (written(INDEX, "[]"), f"{INDEX} holds no JSON object"),
        (linked, "model.safetensors is a link that leaves the folder; copy the file into it"),
        (lambda folder: (folder / "x.json").symlink_to("x.json"), "x.json"),
        (lambda folder: (folder / "x.json").symlink_to("gone.json"), "x.json is no regular file"),
        (lambda folder: os.mkfifo(folder / "x.json"), "x.json is no regular file"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"1234"), "Error while deserializing header"),
        (written("config.json", DEEP), "config.json is not a valid JSON file"),
        (written("generation_config.json", "{"), "generation_config.json is not a valid JSON file"),
        (written("generation_config.json", f'{{"min_length": {"9" * 5000}}}'), "is not a valid JSON file"),
        (lambda f: edit(f / "tokenizer_config.json", vocab="/etc/passwd"), "names a file of its own (vocab)"),
        (written("adapter_config.json", '{"base_model_name_or_path": "x/y"}'), "belongs to an adapter"),
    ],
)  # fmt: skip
def test_an_unsafe_file_is_an_error_of_one_line(
    copy: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(copy)
    with pytest.raises(BackendError) as caught:
        load_model(tiny(copy))
    text = str(caught.value)
    assert message in text
    assert text.startswith("model tiny: ")
    assert text.isprintable()


def test_all_that_is_read_is_hashed(copy: Path) -> None:
    before = identify(tiny(copy)).revision
    for name in ("part.safetensors", "x.json", "vocab.txt", "source.spm", "bpe.codes", "spiece.model"):
        (copy / name).write_bytes(b"\x02" + bytes(7) + b"{}")
        after = identify(tiny(copy)).revision
        assert after != before
        before = after
    (copy / "README.md").write_text("not read")
    (copy / "sub").mkdir()
    (copy / "sub" / "x.json").write_text("{}")
    assert identify(tiny(copy)).revision == before


def test_an_engine_sees_the_hashed_files_alone(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    (copy / "pytorch_model.bin").write_bytes(b"pickle")
    (copy / "code.py").write_text("raise SystemExit")
    (copy / "sub.json").mkdir()
    files = find_files("tiny", copy)
    killed = longtail_home() / "cache" / STAGING / f"{0:032x}.part"
    killed.mkdir(parents=True)
    with files.as_folder() as folder:
        assert not killed.exists()
        assert folder.parent.parent == killed.parent  # in the home
        assert sorted(path.name for path in folder.iterdir()) == [name for name, _ in files.paths]
        assert {"config.json", "model.safetensors", "tokenizer.json"} <= {name for name, _ in files.paths}
        assert not {"pytorch_model.bin", "code.py", "sub.json"} & {name for name, _ in files.paths}
    assert not folder.exists()


def test_weights_that_a_configuration_names_elsewhere_are_not_found(copy: Path) -> None:
    (copy / "sub").mkdir()
    shutil.copy(copy / "model.safetensors", copy / "sub" / "x.safetensors")
    edit(copy / "config.json", transformers_weights="sub/x.safetensors")
    with pytest.raises(BackendError, match=r"sub/x\.safetensors"):
        load_model(tiny(copy))


def test_a_damaged_file_is_named_before_an_engine_reads_it(copy: Path) -> None:
    """By the record in the folder, by that around it (the shipped models, checkpoints), and by its name in a cache."""
    files = find_files("tiny", copy)
    record(copy)
    with files.as_folder():
        pass
    flip_bit(copy / "model.safetensors")
    with (
        pytest.raises(BackendError, match=r"model\.safetensors does not match its checksum; delete it"),
        files.as_folder(),
    ):
        pass
    flip_bit(copy / "model.safetensors")
    (copy / RECORD).unlink()
    record(copy.parent)
    flip_bit(copy / "config.json")
    with pytest.raises(BackendError, match=r"config\.json does not match its checksum"), files.as_folder():
        pass


def snapshot_of(source: Path, hub: Path, *, is_git: bool, shared: bool = False) -> Path:
    """A model's folder in a cache of the hub: links to blobs that have their hashes' names, `shared` between models."""
    repository = hub / "models--some--model"
    snapshot, blobs = repository / "snapshots" / COMMIT, repository / "blobs"
    for folder in (snapshot, blobs, hub / "blobs"):
        folder.mkdir(parents=True)
    for path in source.iterdir():
        data = path.read_bytes()
        name = hashlib.sha1(b"blob %d\0" % len(data) + data) if is_git else hashlib.sha256(data)
        blob = blobs / name.hexdigest()
        if shared:
            (hub / "blobs" / blob.name).write_bytes(data)
            blob.symlink_to(f"../../blobs/{blob.name}")
        else:
            blob.write_bytes(data)
        (snapshot / path.name).symlink_to(f"../../blobs/{blob.name}")
    return snapshot


@pytest.mark.parametrize("is_git", [True, False])
def test_a_damaged_file_of_the_hubs_cache_is_named(llama: Path, tmp_path: Path, is_git: bool) -> None:
    snapshot = snapshot_of(llama, tmp_path, is_git=is_git)
    files = find_files("tiny", snapshot)
    with files.as_folder():
        pass
    flip_bit((snapshot / "tokenizer.json").resolve())
    with (
        pytest.raises(BackendError, match=r"blobs/\w+ does not match its checksum; delete it"),
        files.as_folder(),
    ):
        pass


@pytest.mark.parametrize("shared", [False, True])
def test_snapshots_of_the_hubs_cache_link_to_blobs(llama: Path, tmp_path: Path, shared: bool) -> None:
    snapshot = snapshot_of(llama, tmp_path / "hub", is_git=False, shared=shared)
    assert identify(tiny(snapshot)).revision == identify(tiny(llama)).revision
    load_model(tiny(snapshot)).close()
    (tmp_path / "secret.json").write_text("{}")
    (snapshot / "x.json").symlink_to("../../../../secret.json")
    with pytest.raises(BackendError, match=r"x\.json is a link that leaves the folder"):
        identify(tiny(snapshot))


@pytest.mark.parametrize("key", ["_attn_implementation", "attn_implementation"])
def test_a_configuration_does_not_choose_the_attention(copy: Path, key: str) -> None:
    expected = load_model(tiny(copy)).model.config
    for named in ("eager", "kernels-community/flash-attn"):
        edit(copy / "config.json", **{key: named, key.replace("attn", "experts"): "grouped_mm"})
        config = load_model(tiny(copy)).model.config
        assert config._attn_implementation == expected._attn_implementation == "sdpa"
        assert config._experts_implementation == expected._experts_implementation != "grouped_mm"


def test_the_patterns_cover_what_tokenizers_of_this_transformers_read() -> None:
    import re

    import transformers

    names: set[str] = set()
    for file in Path(transformers.__file__).parent.rglob("token*.py"):
        for found in re.findall(r"VOCAB_FILES_NAMES[^=\n]*=\s*\{([^}]*)\}", file.read_text(encoding="utf-8")):
            names |= set(re.findall(r':\s*"([^"]+)"', found))
    assert len(names) > 10
    assert [name for name in names if not any(Path(name).match(pattern) for pattern in PATTERNS)] == []
