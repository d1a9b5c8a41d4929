"""Paths of models are relative to the study file; what is told from a hub id, and how; two places, one identity."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from longtail.embedding.declared import DeclaredEncoder
from longtail.entailment.classifier import model_of
from longtail.errors import BackendError
from longtail.generation.backends.fake import read_script
from longtail.models.weights import find_weights
from longtail.preflight import misses
from longtail.storage.home import PROJECT_ROOT
from longtail.study.file import load_study
from longtail.study.model_files import find_gguf, folder_of
from longtail.study.study import Study
from longtail.study.tables import local_parameters

LONG = """
name: paths
description: every key that names a model
source: {kind: sandbox, snapshot: "2026-10"}
datasets: [{name: sandbox}]
prompts: [{name: p, generations: [questions, samples]}]
models: [{name: one, path: MODEL}]
methods: [closed_book, near]
retrievers: [{name: near, kind: dense, path: MODEL, query_path: ./questions}]
popularity: {last_month: "2026-10"}
nli: {path: MODEL}
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is started in another folder; no test asks the hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")


def study_in(folder: Path, text: str) -> Study:
    folder.mkdir(exist_ok=True)
    (folder / "q.csv").write_text("question,answer\nWho?,Ada\n")
    (folder / "study.yaml").write_text(text)
    return load_study(folder / "study.yaml")


def model_in(folder: Path) -> Path:
    """A folder that looks like a model's."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return folder


@pytest.mark.parametrize(
    ("named", "lies_in"),
    [
        ("tiny", "studies/tiny"), ("org/tiny", "studies/org/tiny"), ("./tiny", "studies/tiny"),
        ("../models/tiny", "models/tiny"), ("~/tiny", "home/tiny"), ("{root}/far/tiny", "far/tiny"),
        ("a/b/tiny", "studies/a/b/tiny"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["['{}']", "[{{name: tiny, path: '{}'}}]"])
def test_a_folder_is_found_from_the_study_file(tmp_path: Path, named: str, lies_in: str, form: str) -> None:
    named = named.replace("{root}", str(tmp_path))
    study = study_in(tmp_path / "studies", f"questions: q.csv\nmodels: {form.format(named)}\n")
    assert len(misses(study)) == 1
    folder = model_in(tmp_path / lies_in)
    assert misses(study) == []
    assert (study.models[0].path, folder_of(study.models[0])) == (named, folder)
    assert local_parameters(study.models[0]) is None  # it has no weights


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("./tiny", "there is no folder {here}/tiny, and no hub id looks like it"),
        ("a/b/tiny", "there is no folder {here}/a/b/tiny, and no hub id looks like it"),
        ("org/tiny", "org/tiny is no folder, not in the local hub cache"),
        ("org/tiny", "or HF_HUB_OFFLINE; as a folder it would be {here}/org/tiny"),
        ("tiny.gguf", "there is no file {here}/tiny.gguf"),
    ],
)
def test_a_missing_one_is_a_line_that_says_where_it_was_looked_for(
    tmp_path: Path, named: str, words: str
) -> None:
    model_in(tmp_path / "cwd/tiny")  # the folder where the program is started does not count
    model_in(tmp_path / "cwd/org/tiny")
    study = study_in(tmp_path / "studies", f"questions: q.csv\nmodels: ['{named}']\n")
    (line,) = misses(study)
    assert words.format(here=tmp_path / "studies") in line
    assert "\n" not in line


def test_every_key_that_names_a_model_and_an_identity_that_no_place_changes(tmp_path: Path) -> None:
    found = []
    for place in ("one", "two"):
        study = study_in(tmp_path / place, LONG.replace("MODEL", "models/tiny"))
        model_in(tmp_path / place / "models/tiny")
        shutil.copytree(tmp_path / place / "models/tiny", tmp_path / place / "questions")
        encoder = DeclaredEncoder("near", study.method("near").settings)  # type: ignore[arg-type]
        assert study.nli is not None
        for model in (study.models[0], model_of(study.nli), encoder._model):
            assert folder_of(model) == tmp_path / place / "models/tiny"
        assert encoder.of_queries.files.folder == tmp_path / place / "questions"
        versions = encoder.version, encoder.query_version, encoder.stamp
        described = study.method("near").description
        found.append((study.models, study.nli, versions, described, find_weights(study.models[0]).revision))
    assert found[0] == found[1]
    assert str(tmp_path) not in repr(found[0][2:])


def test_files_of_gguf_and_of_a_fake_model(tmp_path: Path) -> None:
    text = "questions: q.csv\nmodels: [in/tiny.gguf, {name: says, path: in/script.json, backend: fake}]\n"
    study = study_in(tmp_path / "studies", text)
    (tmp_path / "studies/in").mkdir()
    (tmp_path / "studies/in/tiny.gguf").touch()
    (tmp_path / "studies/in/script.json").write_text('{"rule": "echo"}')
    assert find_gguf(study.models[0]) == tmp_path / "studies/in/tiny.gguf"
    assert read_script(study.models[1]).rule == "echo"


def test_a_folder_of_the_name_of_a_hub_id_wins_only_where_it_is_a_folder(tmp_path: Path) -> None:
    study = study_in(tmp_path / "studies", "questions: q.csv\nmodels: [gpt2]\n")
    (tmp_path / "studies/gpt2").write_text("notes on GPT-2")
    assert folder_of(study.models[0]) is None
    study = study_in(tmp_path / "studies", "questions: q.csv\nmodels: ['./gpt2']\n")
    with pytest.raises(BackendError, match=r"there is no folder .*/studies/gpt2"):
        folder_of(study.models[0])


def test_what_is_missing_says_how_one_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models and files of a shipped study that are fetched by hand, with and without the variable of their folder."""
    for place in (None, "/nowhere"):
        monkeypatch.delenv("LONGTAIL_ATLAS", raising=False)
        if place:
            monkeypatch.setenv("LONGTAIL_ATLAS", place)
        lines = misses(load_study(PROJECT_ROOT / "studies/atlas_pararel.yaml"))
        for key, address in (
            ("collections[0]", "text-list-100-sec.jsonl"),
            ("collections[1]", "infobox.jsonl"),
            ("models[0]", "base/model.pth.tar"),
            ("models[1]", "large/model.pth.tar"),
        ):
            (line,) = (line for line in lines if line.startswith(f"{key}:"))
            assert "fetch " in line
            assert f"/{address} (some " in line
