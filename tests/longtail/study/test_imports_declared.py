"""What study.yaml says of files of others: every key arrives, and what does not go together is refused by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longtail.errors import BackendError, SourceError, StudyError
from longtail.generation.backends.base import entry
from longtail.study.imports import NO_LICENCE, Collection, Import, Paraphrases, Place, Results, slice_of
from longtail.study.study import Study
from tests.longtail.study.valid_study import edited

FILE = {"format": "popqa"}
VALID: dict[str, Any] = {
    "name": "files",
    "description": "Files of others",
    "datasets": [
        {
            "name": "popqa", "import": {"format": "popqa", "path": "popqa.tsv", "licence": "MIT"},
            "relations": ["father"],
            "max_questions_per_relation": 9, "paraphrases": {"format": "popqa_tp", "path_env": "TP_CSV"},
        },
        {"name": "eq", "import": {"format": "entity_questions", "path": "eq", "split": "dev"}, "relations": ["spouse"]},
    ],
    "prompts": [{"name": "plain"}, {"name": "shots", "shots": 15, "draw": "per_question"}],
    "models": [
        {
            "name": "others", "backend": "imported", "family": "f", "n_parameters": 7, "rambles": True,
            "results": [
                {
                    "format": "adaptive_retrieval", "path": "results", "dataset": "popqa", "model": "org_m",
                    "input": "popQA", "prompt": "shots", "licence": "none",
                },
                {
                    "format": "lm_eval", "path": "log.jsonl", "dataset": "eq", "prompt": "plain", "method": "bm25",
                    "id_field": "key", "filter": "none", "metric": "em",
                },
            ],
        }
    ],
    "methods": ["closed_book", "bm25"],
    "popularity": {"measure": "imported"},
    "collections": [
        {
            "name": "psgs", "format": "dpr", "path": "psgs.tsv.gz", "source": "Wikipedia by DPR", "date": "2018-12-20",
            "licence": "CC BY-SA 3.0",
        },
        {
            "name": "leads", "format": "articles", "path_env": "LEADS", "source": "Wikipedia's leads", "date": "unknown",
            "licence": "CC BY-SA 4.0",
        },
    ],
}  # fmt: skip


def changed(path: str, value: object) -> dict[str, Any]:
    """`VALID` with another value for one key."""
    return edited(VALID, path, value)


def test_every_key_arrives(load: Callable[[object], Study]) -> None:
    study = load(VALID)
    popqa, entity_questions = study.datasets
    assert study.source.kind == "none"
    assert popqa.imported == Import("popqa", Place("popqa.tsv"), licence="MIT")
    assert popqa.paraphrases == Paraphrases("popqa_tp", Place(None, "TP_CSV"))
    assert entity_questions.imported == Import(
        "entity_questions", Place("eq"), (("split", "dev"), ("ambiguous", "left_out"))
    )
    assert (popqa.relations, entity_questions.relations) == (("father",), ("spouse",))
    model = study.models[0]
    assert (model.backend, model.path, model.dtype, model.rambles) == (
        "imported",
        "imported",
        "unknown",
        True,
    )
    assert model.results == (
        Results(
            "adaptive_retrieval",
            Place("results"),
            "popqa",
            "shots",
            (("model", "org_m"), ("input", "popQA")),
            NO_LICENCE,
        ),
        Results(
            "lm_eval",
            Place("log.jsonl"),
            "eq",
            "plain",
            (("method", "bm25"), ("id_field", "key"), ("filter", "none"), ("metric", "em")),
        ),
    )

    assert study.collections == (
        Collection(
            "psgs",
            "dpr",
            Place("psgs.tsv.gz"),
            "Wikipedia by DPR",
            "2018-12-20",
            "CC BY-SA 3.0",
            (("quoting", "auto"),),
        ),
        Collection("leads", "articles", Place(None, "LEADS"), "Wikipedia's leads", None, "CC BY-SA 4.0"),
    )


RESULTS = Results("lm_eval", Place("a.jsonl"), "eq", "plain", (("method", "bm25"),))
COLLECTION = Collection("psgs", "dpr", Place("psgs.tsv"), "Wikipedia", "2018", "CC0")


@pytest.mark.parametrize(
    ("declared", "changes"),
    [
        (RESULTS, [{"dataset": "tp"}, {"prompt": None}, {"options": (("method", "dense"),)}]),
        (
            COLLECTION,
            [{"name": "p"}, {"format": "articles"}, {"source": "W"}, {"date": None}, {"licence": "CC BY"}],
        ),
    ],
)
def test_a_fingerprint_holds_every_key_but_the_place(declared: Any, changes: list[dict[str, Any]]) -> None:
    moved = dataclasses.replace(declared, place=Place(None, "ELSEWHERE"))
    assert slice_of(declared) == slice_of(moved)
    for change in changes:
        assert slice_of(dataclasses.replace(declared, **change)) != slice_of(declared)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("datasets.0.import.path", ..., "datasets[0].import.path: is missing; path, path_env or url must name the file"),
        ("datasets.0.import", FILE | {"path": "../a", "path_env": "X"}, "import.path: must lie inside the folder that X"),
        ("datasets.0.import.sha256", "ab" * 32, "datasets[0].import.sha256: goes with url"),
        ("datasets.0.import.url", "http://x.org/a.tsv", "datasets[0].import.url: must be an https address"),
        ("datasets.0.import.url", "https://x.org/a.tsv?key=1", "import.url: may hold no user name, password or query"),
        ("datasets.0.ids", {}, "datasets[0].ids.path: is missing; path, path_env or url must name the file"),
        ("datasets.1.drawn_as", "eq", "datasets[1].drawn_as: 'eq' is no other dataset of the study"),
        ("datasets.1.relations", ["religion"], "datasets[1].relations: 'religion' is not one of: country"),
        ("datasets.1.paraphrases", {"format": "popqa_tp", "path": "x"}, "datasets[1].paraphrases: goes with an import"),
        ("datasets.0.import", ..., "source: is missing; dataset popqa is no import and needs one"),
        ("source", {"kind": "sandbox", "snapshot": "2026-10"}, "source.kind: the sandbox has its own entities"),
        ("popularity.measure", "page_views", "popularity.measure: without a source nothing else is known"),
        ("models.0.results", ..., "models[0].results: goes with backend imported"),
        ("models.0.results.0.dataset", "nq", "models[0].results[0].dataset: 'nq' is not one of: popqa, eq"),
        ("models.0.results.0.prompt", "none", "models[0].results[0].prompt: 'none' is not a prompt that asks questions"),
        ("models.0.results.1.prompt", ..., "models[0].results[1].prompt: is missing; the log does not say"),
        ("models.0.results.1.method", "dense", "models[0].results[1].method: 'dense' is not one of methods: closed"),
        ("models.0.dtype", "float16", "models[0].dtype: has no meaning for backend imported"),
        ("collections.0.date", ..., "collections[0].date: must be the texts' date (2018, 2018-12 or 2018-12-20)"),
    ],
)  # fmt: skip
def test_messages(refusal: Callable[[object], str], path: str, value: object, message: str) -> None:
    assert message in refusal(changed(path, value))


def test_results_stand_under_a_prompt_that_asks_by_their_method(load: Callable[[object], Study]) -> None:
    raw = changed(
        "prompts", [{"name": "plain", "methods": ["closed_book"]}, {"name": "shots", "methods": ["bm25"]}]
    )
    with pytest.raises(StudyError, match=r"'plain' is not a prompt that asks questions by bm25: shots"):
        load(raw)
    raw["models"][0]["results"][1].pop("prompt")
    assert load(raw).models[0].results[1].prompt is None


def test_relations_of_a_table_have_any_name(load: Callable[[object], Study]) -> None:
    raw = changed(
        "datasets", [{"name": "t", "import": {"format": "table", "path": "t.csv"}, "relations": ["a", "b c"]}]
    )
    raw["models"] = [{"name": "m", "path": "x"}]
    assert load(raw).datasets[0].relations == ("a", "b c")
    for value, words in (
        ("a", "a list of at least one text"),
        ([7], "not int 7"),
        (["a", "a"], "names something twice"),
    ):
        raw["datasets"][0]["relations"] = value
        with pytest.raises(StudyError, match=rf"datasets\[0\].relations: .*{words}"):
            load(raw)


def test_keys_that_choose_questions(load: Callable[[object], Study]) -> None:
    raw = changed("datasets.0.ids", {"path": "ids.txt", "path_env": "FOLDER"})
    raw["datasets"][0] |= {"first_rows": 1_000, "max_questions": 150}
    dataset = load(raw).datasets[0]
    assert (dataset.ids, dataset.first_rows, dataset.max_questions) == (
        Place("ids.txt", "FOLDER"),
        1_000,
        150,
    )


def test_a_file_that_names_no_entities_may_stand_alone(load: Callable[[object], Study]) -> None:
    raw = changed("datasets", VALID["datasets"][1:])
    raw["models"] = [{"name": "m", "path": "x"}]
    assert [dataset.name for dataset in load(raw).datasets] == ["eq"]


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("rdf_file", {"datasets": [{"name": "people", "first_rows": 3}]}, "datasets[0].first_rows: goes with import"),
        ("rdf_file", {}, "popularity.measure: imported goes with a dataset whose import brings entities"),
        ("sandbox", {"popularity": {"measure": "sitelinks"}}, "collections: the sandbox has its own articles"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_a_source(
    refusal: Callable[[object], str], kind: str, changes: dict[str, Any], message: str
) -> None:
    source = {"kind": kind, "snapshot": "2026-10"}
    of_source = {"source": source, "datasets": [{"name": "people"}], "models": [{"name": "m", "path": "x"}]}
    assert message in refusal(VALID | of_source | changes)


def test_files_lie_beside_the_study_or_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, file = tmp_path / "studies/study.yaml", tmp_path / "studies/data.tsv"
    file.parent.mkdir()
    file.write_text("x")
    assert Place("data.tsv").find(study) == file
    monkeypatch.setenv("DATA", str(file))
    assert Place(None, "DATA").find(Path("elsewhere.yaml")) == file
    for name in ("x" * 4_000, "~nobody_has_this_name/data.tsv"):
        monkeypatch.setenv("DATA", name)
        with pytest.raises(SourceError, match=r"names no file or folder to import \(DATA names it\)"):
            Place(None, "DATA").find(study)
    monkeypatch.setenv("DATA", str(tmp_path / "none"))
    with pytest.raises(
        SourceError, match=r"none: there is no such file or folder to import \(DATA names it\)"
    ):
        Place(None, "DATA").find(study)
    monkeypatch.delenv("DATA")
    with pytest.raises(SourceError, match="environment variable DATA is not set"):
        Place(None, "DATA").find(study)


def test_a_path_beside_a_variable_is_inside_the_folder_that_the_variable_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/data.tsv").write_text("x")
    place = Place("inner/data.tsv", "FOLDER")
    with pytest.raises(SourceError, match=r"FOLDER is not set; set it to the folder with inner/data.tsv"):
        place.find(tmp_path / "study.yaml")
    monkeypatch.setenv("FOLDER", str(tmp_path))
    assert place.find(Path("elsewhere.yaml")) == tmp_path / "inner/data.tsv"
    (tmp_path / "inner/data.tsv").unlink()
    with pytest.raises(SourceError, match=r"data.tsv: there is no such file .* \(FOLDER names the folder\)"):
        place.find(Path("elsewhere.yaml"))


def test_only_a_file_that_the_user_does_not_have_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, url = tmp_path / "study.yaml", "https://example.org/data.tsv"
    monkeypatch.delenv("DATA", raising=False)
    beside, named = Place("data.tsv", url=url), Place(path_env="DATA", url=url)
    assert [place.is_fetched(study) for place in (beside, named, Place(url=url))] == [True, True, True]
    (tmp_path / "data.tsv").write_text("x")
    monkeypatch.setenv("DATA", "nothing is there")
    assert [place.is_fetched(study) for place in (beside, named)] == [False, False]
    assert not Place("none.tsv").is_fetched(study)


def test_nothing_can_be_generated_with_imported_answers(load: Callable[[object], Study]) -> None:
    with pytest.raises(
        BackendError, match=r"model others: its answers are imported \(results\); it cannot generate any"
    ):
        entry(load(VALID).models[0])
