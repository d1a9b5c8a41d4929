"""What makes each result current: every field of a study, every input table and every file, changed one at a time.

No stage computes anything here. It hands its fingerprint to a lake without files, which notes it. `FIELDS` and
`FILES` say which stamps a change reaches. A new field fails the test until someone adds its line.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import json
import logging
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import save_file

from longtail.embedding.declared import DeclaredEncoder
from longtail.embedding.lake_tables import compare_paraphrases, embed_answers
from longtail.embedding.settings import EncoderSettings, IvfPq
from longtail.entailment.answers import compare_answers
from longtail.errors import LongtailError
from longtail.generation.backends.base import Decoding, Identity
from longtail.generation.engine.partition import generate
from longtail.generation.engine.row_cache import row_key
from longtail.generation.engine.session import ModelSession
from longtail.generation.engine.task import Request
from longtail.generation.latency import calibrate_latency
from longtail.generation.tasks.registry import TASKS
from longtail.grounding.cooccurrences import count_cooccurrences
from longtail.grounding.corpus import portrait_fingerprint
from longtail.grounding.quip import score_generations
from longtail.imports.answers import import_answers, import_decisions
from longtail.imports.datasets import import_entities, import_popularity, import_triples
from longtail.methods import METHODS
from longtail.questions.build import build_paraphrases, build_questions, describe_cloze_queries
from longtail.questions.counts import count_questions
from longtail.questions.sampling import measure_frequencies, sample_facts
from longtail.reference.linking import describe_linking, import_reference_questions, link_reference_questions
from longtail.relations.relation import Relation
from longtail.retrieval.base import load_retriever
from longtail.retrieval.collections import write_beside
from longtail.retrieval.indexes import Index
from longtail.retrieval.passages import build_passages
from longtail.retrieval.retrieve import cite_passages, measure_search_recalls, retrieve_passages
from longtail.retrieval.retrievers.bm25 import Bm25Settings
from longtail.storage import fingerprints
from longtail.storage.fingerprints import ParsedCode
from longtail.storage.home import StudyHome
from longtail.storage.lake import WHOLE, Lake, Outcome
from longtail.storage.lake_files import Stamp
from longtail.study.backends import BACKENDS, IMPORTED
from longtail.study.datasets import Dataset
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
from longtail.study.models import Model, Nli, Service
from longtail.study.prompts import Grounding, PortraitOf, Prompt
from longtail.study.source import FactSample, Popularity, Source
from longtail.study.study import Study
from longtail.study.sweep import Sweep
from longtail.study.tables import STUDY_TABLES, describe_study
from longtail.tables import TABLES
from longtail.tuning.sweep import tune
from longtail.warehouse import build
from longtail.warehouse.build import warehouse_inputs
from longtail.wikimedia.ingest import ingest_entities, ingest_triples
from longtail.wikimedia.page_view_dump import file_name
from longtail.wikimedia.page_views import ingest_page_view_months, ingest_reference_page_views
from tests.longtail.imports.test_pararel import CAPITALS
from tests.longtail.imports.test_pararel import write as write_pararel

LOG = logging.getLogger("longtail-tests")
MONTH = "2020-01"
GRAPH = json.loads((Path(__file__).parents[1] / "defs" / "asset_graph.json").read_text())
Stamps = dict[str, str]
"""From a partition, or what else is kept, to its fingerprint."""
Variants = list[tuple[Study, tuple[str, ...]]]
"""Studies, and the stages that are judged by them."""


class StampLake(Lake):
    """A lake that has everything and keeps nothing: it notes which fingerprint each partition is asked for.

    The content of table `changed` is another one than usual.
    """

    def __init__(self, study: Study, changed: str = "", session: ModelSession | None = None) -> None:
        super().__init__(study.home.lake)
        self.session = session or ModelSession(LOG)
        self.stamps: Stamps = {}
        self.modules: dict[str, str] = {}
        self._study, self._changed = study, changed

    def materialise(
        self, table: str, fingerprint: str, compute: Any, partition: str = WHOLE, lock: Any = None
    ) -> Outcome:
        self.stamps[f"{table} {partition}"] = fingerprint
        self.modules[f"{table} {partition}"] = sys._getframe(1).f_globals["__name__"]
        return Outcome(table, partition, Stamp(fingerprint, "", 0, 0), was_current=True)

    def content(self, table: str, partition: str = WHOLE) -> str:
        return f"{table} {partition} {table == self._changed}"

    def stamp(self, table: str, partition: str = WHOLE) -> Stamp:
        return Stamp("", self.content(table, partition), 1, 0)

    def current(self, table: str, fingerprint: str, partition: str = WHOLE) -> Stamp:
        return self.stamp(table, partition)

    def partitions(self, table: str) -> list[str]:
        if table == "retrieved_passages":
            return list(self._study.retrieval_methods)
        return [WHOLE, *([IMPORTED] if table in ("triples", "entities") else [])]

    def read(self, table: str, partition: str = WHOLE, columns: Any = None, only: Any = None) -> pa.Table:
        """One row, in which all texts are those of the table's content."""
        name = "changed" if table == self._changed else "usual"
        row = {
            field.name: [name]
            if pa.types.is_list(field.type)
            else name
            if field.type == pa.string()
            else None
            for field in TABLES[table].schema
        }
        if table == "reference_mentions":
            row["entity_id"] = None
        return pa.Table.from_pylist([row], TABLES[table].schema).select(columns or list(row))

    def read_all(self, table: str, columns: Any = None) -> pa.Table:
        return self.read(table, columns=columns)

    def discard(self, table: str, partition: str = WHOLE) -> None: ...


def _by_model(stage: Callable[..., Any]) -> Callable[[Study, Lake], Any]:
    return lambda study, lake: [stage(study, lake, model.name, LOG) for model in study.models]


def _task(table: str) -> Callable[[Study, Lake], Any]:
    """Models whose backend cannot do what the table needs have no partition."""
    task, by_method = TASKS[table], "method" in TABLES[table].partitioned_by

    def stage(study: Study, lake: StampLake) -> None:
        for model in study.models:
            if not model.generates or task.capability in BACKENDS[model.backend].capabilities:
                for names in [[method] for method in study.methods] if by_method else [[]]:
                    generate(
                        task, study, lake, model.name, *names, session=lake.session, run_id="run", log=LOG
                    )

    return stage


def _calibrate(study: Study, lake: StampLake, model: str, log: logging.Logger) -> Outcome:
    return calibrate_latency(study, lake, model, session=lake.session, run_id="run", log=log)


def _indexes(study: Study, lake: StampLake) -> None:
    for name in study.retrieval_methods:
        method = study.method(name)
        tool = load_retriever(method)
        index = Index.of(method, tool, lake.content("passages"), study.home.indexes)
        lake.stamps[f"index {name}"] = index.folder.name


def _vectors(study: Study, lake: StampLake) -> None:
    """The folders of vectors that studies share."""
    for method in study.retrievers:
        if isinstance(method.settings, EncoderSettings):
            plain = dataclasses.replace(method.settings, search=None)
            lake.stamps[f"vectors {len(lake.stamps)}"] = DeclaredEncoder(method.name, plain).stamp


STAGES: Mapping[str, Callable[[Study, Any], Any]] = {
    "triples": lambda study, lake: (ingest_triples(study, lake, LOG), import_triples(study, lake, LOG)),
    "entities": lambda study, lake: (ingest_entities(study, lake, LOG), import_entities(study, lake, LOG)),
    "imported_popularity": lambda study, lake: import_popularity(study, lake, LOG),
    "subject_frequencies": lambda study, lake: measure_frequencies(study, lake, LOG),
    "candidate_triples": lambda study, lake: sample_facts(study, lake, LOG),
    "page_views": lambda study, lake: ingest_page_view_months(study, lake, [MONTH], LOG),
    "questions": lambda study, lake: build_questions(study, lake, LOG),
    "patterns": lambda study, lake: describe_cloze_queries(study, lake, LOG),
    "candidates": lambda study, lake: describe_cloze_queries(study, lake, LOG),
    "paraphrases": lambda study, lake: build_paraphrases(study, lake, LOG),
    "question_counts": lambda study, lake: count_questions(study, lake, LOG),
    "imported_decisions": lambda study, lake: import_decisions(study, lake, LOG),
    "paraphrase_similarities": lambda study, lake: compare_paraphrases(study, lake, LOG),
    "passages": lambda study, lake: build_passages(study, lake, LOG),
    "excluded_pages": lambda study, lake: write_beside(lake, build_passages(study, lake, LOG)),
    "retrieved_passages": lambda study, lake: [
        retrieve_passages(study, lake, name, LOG) for name in study.retrieval_methods
    ],
    "cited_passages": lambda study, lake: cite_passages(study, lake, LOG),
    "search_recalls": lambda study, lake: measure_search_recalls(study, lake, LOG),
    "reference_questions": lambda study, lake: import_reference_questions(study, lake, LOG),
    "reference_mentions": lambda study, lake: link_reference_questions(study, lake, LOG),
    "reference_page_views": lambda study, lake: ingest_reference_page_views(study, lake, [MONTH], LOG),
    "entity_linking": lambda study, lake: describe_linking(study, lake, LOG),
    "imported_answers": _by_model(import_answers),
    **{table: _task(table) for table in TASKS},
    "single_latencies": _by_model(_calibrate),
    "answer_embeddings": _by_model(embed_answers),
    "answer_entailments": _by_model(compare_answers),
    "quip_scores": _by_model(score_generations),
    "entity_cooccurrences": lambda study, lake: count_cooccurrences(study, lake, LOG),
    "tuned_models": lambda study, lake: [tune(study, lake, one.name, LOG) for one in study.sweep.drawn],
    "tuned_answers": lambda study, lake: [tune(study, lake, one.name, LOG) for one in study.sweep.drawn],
    **{table: lambda study, lake, of=table: describe_study(study, lake, [of]) for table in STUDY_TABLES},
    "indexes": _indexes,
    "vectors": _vectors,
    "portrait": lambda study, lake: lake.stamps.update(portrait=portrait_fingerprint(study, lake)),
    "warehouse": lambda study, lake: lake.stamps.update(warehouse=warehouse_inputs(study)),
}


INGESTED = ("triples", "entities", "subject_frequencies", "page_views", "reference_page_views", "passages")


def stamps_of(study: Study, changed: str = "", stages: Iterable[str] = STAGES) -> dict[str, Stamps]:
    """The stamps of each stage; a stage that refuses the study has what it says instead."""
    found = {}
    session = ModelSession(LOG)
    for name in stages:
        lake = StampLake(study, changed, session)
        try:
            STAGES[name](study, lake)
        except LongtailError as refusal:
            lake.stamps[f"{name} refused"] = str(refusal)
        own = [key for key in lake.stamps if name not in TABLES or key.startswith(f"{name} ")]
        found[name] = {key: lake.stamps[key] for key in own}
    return found


def reached(before: Mapping[str, Stamps], after: Mapping[str, Stamps]) -> set[str]:
    """The stages of which a partition is not current after a change."""
    return {name for name, stamps in after.items() if not stamps.items() <= before[name].items()}


def edits(study: Study, of: tuple[str, ...] = ("",)) -> Iterator[tuple[str, Study]]:
    """Each field of the study and of the records inside it, as `Class.field`, with a study in which it has another value,
    in all records of the class. Another name stands wherever a record is named."""
    for key in dict.fromkeys(key for key in fields_in(study) if key.startswith(of)):
        if key.endswith(".name") and key != "Study.name":
            names = {record.name for record in records_in(study) if key == f"{type(record).__name__}.name"}
            yield key, renamed(study, names)
        else:
            yield key, edited(study, key)


def records_in(value: Any) -> Iterator[Any]:
    """The value and the values inside it that are records."""
    if dataclasses.is_dataclass(value):
        yield value
        value = tuple(vars(value).values())
    for part in value if isinstance(value, tuple) else ():
        yield from records_in(part)


def fields_in(study: Study) -> Iterator[str]:
    """The fields that hold no records."""
    for record in records_in(study):
        for field in dataclasses.fields(record):
            if not any(records_in(getattr(record, field.name))):
                yield f"{type(record).__name__}.{field.name}"


def _mapped(value: Any, change: Callable[[str, Any], Any], key: str = "") -> Any:
    """A value whose parts that are no records are what `change` makes of them and their field."""
    if dataclasses.is_dataclass(value):
        fields = [field.name for field in dataclasses.fields(value)]
        of = type(value).__name__
        return dataclasses.replace(
            value, **{name: _mapped(getattr(value, name), change, f"{of}.{name}") for name in fields}
        )
    if isinstance(value, tuple) and any(records_in(value)):
        return tuple(_mapped(part, change) for part in value)
    return change(key, value)


def renamed(study: Study, names: set[str]) -> Study:
    def change(_key: str, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(change(_key, part) for part in value)
        return f"{value}2" if isinstance(value, str) and value in names else value

    return _mapped(study, change)


def edited(study: Study, key: str) -> Study:
    return _mapped(study, lambda field, value: other_value(key, value) if field == key else value)


def other_value(key: str, value: Any) -> Any:
    """Another value that the field may have: as `OTHERS` says, or as its type suggests."""
    other = OTHERS.get(key, OTHERS.get(f".{key.partition('.')[2]}", _UNSAID))
    if callable(other):
        return other(value)
    if other is not _UNSAID:
        return other
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, str):
        return f"{value}2"
    if isinstance(value, tuple) and value:
        return value[:-1]
    raise AssertionError(f"{key}: name another value than {value!r} in OTHERS, and in FIELDS what it changes")


def either(*values: Any) -> Callable[[Any], Any]:
    """The first of the values that is another one; the same value where none of them may take its place."""
    return lambda value: next((one for one in values if one != value), value) if value in values else value


def same(value: Any) -> Any:
    """Nothing else may stand there without another key's changing too."""
    return value


def copied(value: Any) -> Any:
    """A path of the same bytes."""
    return f"copies/{value}" if value and "/" not in value else value


_UNSAID = object()
OTHERS: Mapping[str, Any] = {
    ".obtain": "ask Ada",  # of any class, as the next ones
    ".options": lambda value: (*value, ("other", "1")),
    ".declines": ("No idea.",),
    ".revision": "main",
    ".dtype": "float16",
    ".study_folder": same,
    "Request.decoding": Decoding(16),
    "Request.free": Decoding(16),
    "Request.seeded_by": ("other",),
    "Request.candidates": ("other",),
    "Study.owners": ("team:nlp",),
    "Study.path": lambda path: path.with_name("other.yaml"),
    "Study.methods": lambda names: tuple(name for name in names if name != "other"),
    "Study.limit": 7,
    "Source.kind": "wikidata",
    "Source.snapshot": "2020-03",
    "Source.views_from": "dump",
    "Source.facts_from": either("truthy_dump", "query_service"),
    "Source.path_env": "LONGTAIL_OTHER",
    "Source.sample": FactSample("popularity"),
    "FactSample.frequency": same,
    "FactSample.month": lambda month: month and "2020-02",
    "FactSample.match": "anywhere",
    "FactSample.text_path": same,
    "FactSample.text_env": same,
    "Place.path": copied,
    "Place.path_env": "LONGTAIL_FOLDER",
    "Place.url": "http://127.0.0.1:1/file",
    "Place.sha256": "0" * 64,
    "Dataset.relations": lambda value: value[:-1] or ("capital",),
    "Dataset.max_questions_per_relation": 4,
    "Dataset.max_questions": 3,
    "Dataset.imported": Import("table", Place("mine.csv")),
    "Dataset.paraphrases": same,
    "Dataset.ids": Place("ids.txt"),
    "Dataset.first_rows": 2,
    "Dataset.split_by": "subject",
    "Dataset.popularity_name": "site links",
    "Dataset.drawn_as": "other",
    "Dataset.end_task": "f1",
    "Import.format": lambda value: value if value == "pararel" else "hotpotqa",
    "Paraphrases.format": "templates",
    "Paraphrases.licence": same,
    "Dataset.definitions": same,
    "Relation.template": "Whom does [subj] work for?",
    "Relation.statement": "[subj] works for [obj].",
    "Relation.wordings": ("Who pays for [subj]?",),
    "Relation.subject_kinds": ("person",),
    "Relation.object_kind": "company",
    "Import.licence": "none",
    "Popularity.measure": "sitelinks",
    "Popularity.last_month": MONTH,
    "Popularity.redirects": "ignore",
    "Popularity.agent": "all",
    "Prompt.format": either("qa", "question_answer"),
    "Prompt.draw": either("per_question", "per_relation"),
    "Prompt.demonstrations_from": "all_questions",
    "Prompt.methods": ("closed_book",),
    "Model.path": lambda value: copied(value) if value in ("weights", "fusion") else f"{value}2",
    "Model.backend": either("transformers", "fusion_in_decoder"),
    "Model.n_parameters": 7,
    "Model.quantisation": "8bit",
    "Model.device_map": "balanced",
    "Model.batch_tokens": 128,
    "Model.device_hour_usd": 0.25,
    "Model.thinking_tokens": 64,
    "Model.instruction_tuned": True,
    "Model.passages": lambda value: value and value + 1,
    "Model.service": same,
    "Model.results": same,
    "Service.api": "chat",
    "Service.api_key_env": "LONGTAIL_KEY",
    "Service.requests_per_minute": 7,
    "Service.tokens_per_minute": 7,
    "Service.max_cost_usd": 7.0,
    "Service.prompt_usd_per_million": 2.0,
    "Service.completion_usd_per_million": 2.0,
    "Results.format": "lm_eval",
    "Results.dataset": "wise",
    "Results.prompt": "few",
    "Results.licence": "none",
    "Nli.path": "encoder",
    "ReferenceQuestions.format": same,
    "ReferenceQuestions.tagme": TagMe(),
    "TagMe.url": "http://127.0.0.1:2/tag",
    "TagMe.min_rho": 0.3,
    "Collection.format": "dpr",
    "Collection.date": "2018",
    "Counts.dataset": either("asked", "wise"),
    "Counts.columns": lambda value: (("count", "other"),) if value else value,
    "Decisions.dataset": "wise",
    "Decisions.columns": (("retrieve", "other"),),
    "PortraitOf.collections": (),
    "PortraitOf.false_positive_rate": 0.01,
    "Grounding.steps": 1,
    "Grounding.turns": (("local", "[{prompt}]"),),
    "Grounding.assembly": "reference",
    "Method.kind": same,
    "Method.retriever": same,
    "Method.passages": "bound",
    "Bm25Settings.stop_words": "english",
    "Bm25Settings.stemmer": "porter",
    "Bm25Settings.tokens": "cjk_bigrams",
    "EncoderSettings.path": either("encoder", "asking"),
    "EncoderSettings.query_path": either("asking", "encoder"),
    "EncoderSettings.query_revision": "main",
    "EncoderSettings.pooling": "cls",
    "EncoderSettings.max_tokens": 64,
    "EncoderSettings.device": "cpu",
    "EncoderSettings.batch_tokens": 512,
    "IvfPq.nlist": 7,
    "IvfPq.nprobe": 7,
    "IvfPq.sub_vectors": 7,
    "Sweep.model": either("reader", "local"),
    "Sweep.retriever": either("near", "other"),
    "Sweep.dataset": "asked",
    "Sweep.batch_sizes": (5,),
    "Sweep.schedule": "reference",
}


def make_files(folder: Path) -> None:
    """The study's files; only ParaRel's are read before a stage knows whether it is current."""
    for name in (
        "popqa.tsv",
        "tp.csv",
        "mine.csv",
        "ids.txt",
        "counted.txt",
        "counts.csv",
        "theirs.csv",
        "nq.jsonl",
        "articles.jsonl",
        "answers.csv",
        "sample.txt",
        "world.nt",
        f"dumps/{file_name(MONTH)}",
    ):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    (folder / "copies").mkdir()
    write_pararel(folder / "pararel", "P36", CAPITALS, [("u1", "Peru", "Lima")])
    for name in ("weights", "fusion", "nli", "encoder", "asking"):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text("{}")
        (folder / name / "tokenizer.json").write_text("{}")
        save_file({name: np.zeros(1, np.float32)}, folder / name / "model.safetensors")
    for path in [*folder.iterdir()]:
        if path.name != "copies":
            (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / "copies" / path.name)


def make_study(folder: Path) -> Study:
    """A study that has every kind of record."""
    asks = ("questions", "paraphrases", "samples")
    return Study(
        name="everything",
        description="Every key",
        source=Source(
            "sandbox", "2020-02", sample=FactSample("text", text_path="sample.txt")
        ),
        datasets=(
            Dataset(
                "known", ("employer", "capital"), max_questions_per_relation=5, ids=Place("ids.txt"),
                definitions=(Relation("employer", "P108", "Who employs [subj]?", wordings=("Who pays [subj]?",)),),
            ),
            Dataset(
                "asked",
                ("capital", "occupation"),
                imported=Import("popqa", Place("popqa.tsv")),
                paraphrases=Paraphrases("popqa_tp", Place("tp.csv")),
            ),
            Dataset("wise", (), imported=Import("table", Place("mine.csv"))),
            Dataset(
                "gaps",
                ("P36", "P1376"),
                imported=Import("pararel", Place("pararel"), (("ambiguous", "first"),)),
            ),
        ),
        prompts=(
            Prompt("few", shots=3, draw="per_question", reference_demos=True, generations=asks),
            Prompt("words_of_tp", "popqa_tp", generations=("paraphrases",)),
            Prompt("prefix", "cloze_prefix", generations=("candidates",)),
            Prompt("sentinel", "cloze_t5", generations=("candidates",)),
        ),
        models=(
            Model("local", "weights", device_hour_usd=0.5, study_folder=folder),
            Model("reader", "fusion", "fusion_in_decoder", encoder_decoder=True, passages=2, study_folder=folder),
            Model(
                "served", "name", "openai",
                service=Service("http://127.0.0.1:1/v1", prompt_usd_per_million=1, completion_usd_per_million=1),
            ),
            Model(
                "files", IMPORTED, IMPORTED,
                results=tuple(Results("table", Place("answers.csv"), of) for of in ("asked", "wise")),
            ),
        ),
        methods=("closed_book", "genread", "words", "near", "other", "hybrid", "relevant", "oracle", "random"),
        popularity=Popularity(redirects="sum"),
        path=folder / "study.yaml",
        nli=Nli("nli", study_folder=folder),
        reference_questions=tuple(
            ReferenceQuestions(name, "nq_open", Place("nq.jsonl"), tagme)
            for name, tagme in {"nq": TagMe("http://127.0.0.1:1/tag"), "more": TagMe(), "named": None}.items()
        ),
        collections=(Collection("ours", "articles", Place("articles.jsonl"), "us", None, "none"),),
        counts=(
            Counts("texts", Place("counted.txt")),
            Counts("published", Place("counts.csv"), "asked", (("count", "n"),)),
        ),
        decisions=(Decisions("theirs", Place("theirs.csv"), "asked", (("retrieve", "asked"),)),),
        grounding=Grounding(
            PortraitOf(("ours",)), ("null", "expert_editor"), (("local", 2),), datasets=("known", "asked"),
            turns=(("local", "<{prompt}>"),), methods=("closed_book", "near"), long_answers=("asked",),
        ),
        retrievers=(
            dataclasses.replace(METHODS["bm25"], name="words", settings=Bm25Settings(k1=0.9)),
            dataclasses.replace(
                METHODS["dense"], name="near",
                settings=EncoderSettings("encoder", query_path="asking", search=IvfPq(), study_folder=folder),
            ),
            dataclasses.replace(
                METHODS["dense"], name="other",
                settings=EncoderSettings("encoder", search=IvfPq(), study_folder=folder),
            ),
        ),
        retrieve_paraphrases=True,
        sweep=Sweep("reader", "near", "gaps", settings=2, patience=2),
    )  # fmt: skip


def other_sources(study: Study) -> Iterator[Study]:
    """The study with each other kind of source."""
    named = dataclasses.replace(study.source, kind="wikidata", snapshot=MONTH)
    by_views = FactSample("popularity", month=MONTH)
    for source in (
        dataclasses.replace(study.source, sample=by_views),
        dataclasses.replace(named, facts_from="truthy_dump", views_from="dump", sample=by_views),
        dataclasses.replace(named, views_from="api", sample=None),
        Source("rdf_file", MONTH),
        Source("rdf_file", MONTH, facts_from="truthy_dump"),
    ):
        yield dataclasses.replace(study, source=source, collections=())


def patch_code_version(patch: pytest.MonkeyPatch) -> None:
    """Let each module find the version of the same code once."""
    real = fingerprints.code_version
    known = functools.cache(lambda modules, without: real(*modules, without=without))
    for module in [one for one in sys.modules.values() if one.__name__.startswith("longtail.")]:
        if module is not fingerprints and hasattr(module, "code_version"):
            patch.setattr(module, "code_version", lambda *modules, without=(): known(modules, tuple(without)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The study's files. What a process may read once is read once: versions of code and of packages."""
    folder = tmp_path_factory.mktemp("stamps")
    make_files(folder)
    with pytest.MonkeyPatch.context() as patch:
        for variable, path in {
            "LONGTAIL_HOME": "home", "LONGTAIL_FOLDER": "", "LONGTAIL_RDF_FILE": "world.nt", "LONGTAIL_OTHER": "world.nt",
            "LONGTAIL_TRUTHY_DUMP": "world.nt", "LONGTAIL_PAGE_VIEW_DUMPS": "dumps",
        }.items():  # fmt: skip
            patch.setenv(variable, str(folder / path))
        patch_code_version(patch)
        patch.setattr(build, "folder_version", functools.cache(build.folder_version))
        patch.setattr(build, "dbt_sources", functools.cache(build.dbt_sources))
        patch.setattr(StudyHome, "of", functools.cache(StudyHome.of))
        patch.setattr(importlib.metadata, "version", functools.cache(importlib.metadata.version))
        yield folder


@pytest.fixture(scope="module")
def variants(folder: Path) -> Variants:
    """The study with all stages; with other sources, those that read a source; and one that asks about a sample alone."""
    study = make_study(folder)
    sampled = dataclasses.replace(study, datasets=study.datasets[:1], reference_questions=())
    return [(study, tuple(STAGES)), *((one, INGESTED) for one in (*other_sources(study), sampled))]


Changes = Iterator[tuple[str, Study, str]]
"""The name of a change, the study after it, and the table whose rows are others after it."""


def reached_in(variants: Variants, changes: Callable[[Study], Changes]) -> dict[str, set[str]]:
    """The stages that each change reaches in some variant of the study."""
    found: dict[str, set[str]] = {}
    for study, stages in variants:
        before = stamps_of(study, stages=stages)
        for name, other, table in changes(study):
            found.setdefault(name, set()).update(reached(before, stamps_of(other, table, stages)))
    return found


def compare(found: Mapping[str, set[str]], lines: str) -> None:
    """Errors: `AssertionError` that lists what is found and not said, and what is said in vain."""
    said: dict[str, str] = {}
    for line in lines.replace("\n    ", " ").strip().split("\n"):
        names, _, stages = line.partition(": ")
        said |= dict.fromkeys(names.split(), stages)
    stages_of = {
        name: set()
        if line.startswith("none, ")
        else {one for word in line.split() for one in SETS.get(word, word).split()}
        for name, line in said.items()
    }
    wrong = [
        f"{name} changes {' '.join(sorted(own)) or 'nothing'}; its line says: {said.get(name, 'there is none')}"
        for name, own in found.items()
        if own != stages_of.get(name)
    ]
    assert not wrong, "\n".join(wrong)
    assert said.keys() == found.keys(), "lines of what is gone"


def test_a_field_makes_these_stamps_stale_and_no_others(variants: Variants) -> None:
    """A new field: its line in FIELDS says which stages' rows its value decides, or why it decides none."""

    def changes(study: Study) -> Changes:
        of = ("",) if study is variants[0][0] else ("Source.", "FactSample.", "Popularity.", "Relation.")
        yield from ((key, other, "") for key, other in edits(study, of))

    compare(reached_in(variants, changes), FIELDS)


def test_each_table_that_a_stage_reads_is_in_its_stamp(variants: Variants) -> None:
    """Dagster makes before a stage what it reads, and nothing else; NOT_READ has what is waited for and not read."""

    def changes(study: Study) -> Changes:
        yield from ((table, study, table) for table in TABLES)

    found = reached_in(variants, changes)
    parents = {
        name.removeprefix("lake/"): {one.removeprefix("lake/") for one in node["parents"]}
        for name, node in GRAPH.items()
    }
    for stage in STAGES.keys() & TABLES.keys():
        read = {table for table in TABLES if stage in found[table]}
        assert (parents[stage] & TABLES.keys()) - read == set(NOT_READ.get(stage, ())), stage
        made, waiting = {"quarantine"}, [stage]
        while waiting:
            made |= {(one := waiting.pop())}
            waiting += parents[one] - made
        assert read <= made, stage


def test_the_bytes_of_a_file_make_these_stamps_stale(folder: Path, variants: Variants) -> None:
    others = {folder / "copies", folder / "home"}
    files = [path for path in folder.rglob("*") if path.is_file() and others.isdisjoint(path.parents)]

    def changes(study: Study) -> Changes:
        for path in files:
            content = path.read_bytes()
            if path.suffix == ".safetensors":
                path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))  # another weight, in a whole file
            else:
                path.write_bytes(content + (b"\n" if path.suffix == ".json" else b"Q2\n"))
            yield str(path.relative_to(folder)), study, ""
            path.write_bytes(content)

    compare(reached_in(variants, changes), FILES)


def test_the_code_that_makes_a_table_is_in_its_stamp(
    variants: Variants, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module that gives the stamp to the lake also computes, or imports what does."""
    study, stages = variants[0][0], set(variants[0][1])
    parse = fingerprints.parse_code
    for stage in (stages & TABLES.keys()) - STUDY_TABLES.keys():
        lake = StampLake(study)
        STAGES[stage](study, lake)
        own = {key: stamp for key, stamp in lake.stamps.items() if key.startswith(f"{stage} ")}
        for module in {lake.modules[key] for key in own} - {"longtail.generation.engine.task"}:
            file = Path(sys.modules[module].__file__ or "")
            with monkeypatch.context() as patch:
                patch.setattr(
                    fingerprints, "parse_code", lambda path, of=file: _otherwise(parse(path), path == of)
                )
                patch_code_version(patch)
                after = StampLake(study)
                STAGES[stage](study, after)
            assert not [
                key for key in own if lake.modules[key] == module and after.stamps[key] == own[key]
            ], stage


@pytest.mark.parametrize(
    "request_",
    [
        Request(Decoding(15)),
        Request(Decoding(15, 0.5), 2, ("seed", "question")),
        Request(candidates=("a", "b"), free=Decoding(15)),
    ],
)
def test_all_that_decides_a_result_is_in_its_key_of_the_row_cache(request_: Request) -> None:
    identity = Identity("revision", "float32", "none", "engine", "1")
    ignored = {"Identity.engine", "Identity.engine_version"}  # other engines give the same
    ignored |= {"Request.n"}  # each text has its seed
    if request_.decoding is not None:
        ignored |= {"Request.free"}  # it stands beside scores alone
    if request_.seeded_by:
        ignored |= {"Identity.greedy_rules"}

    def keys(identity: Identity, asked: Request) -> list[bytes]:
        return [row_key("prompt", identity, asked, seed) for seed in asked.seeds][:2]

    found = set()
    for record in (identity, request_):
        for field in dataclasses.fields(record):
            key, value = f"{type(record).__name__}.{field.name}", getattr(record, field.name)
            other: Any = dataclasses.replace(record, **{field.name: other_value(key, value)})
            changed = keys(other, request_) if record is identity else keys(identity, other)
            found |= {key} if changed == keys(identity, request_) else set()
    assert found == ignored


def _otherwise(code: ParsedCode, is_changed: bool) -> ParsedCode:
    return dataclasses.replace(code, code=f"{code.code}\nchanged") if is_changed else code


def test_every_table_of_the_lake_is_judged() -> None:
    made = {name.removeprefix("lake/") for name in GRAPH if name.startswith("lake/")}
    assert made == STAGES.keys() & TABLES.keys()


SETS: Mapping[str, str] = {
    "ROWS": " ".join(sorted(TASKS)),
    "ASKED": " ".join(sorted(TASKS.keys() - {"candidate_answers"})) + " single_latencies",
    "WORDED": "answers paraphrase_answers prompts sampled_answers single_latencies",
    "OF_FILES": "entities entity_linking excluded_pages imported_answers imported_popularity paraphrases passages "
    "questions triples",
    "COLLECTED": "excluded_pages passages",
    "VIEWS": "page_views reference_page_views",
    "ENCODED": "indexes retrieved_passages search_recalls",
    "TUNED": "tuned_answers tuned_models",
}
"""Names for several stages."""
FIELDS = """
Study.name: paper_cells
Study.description: warehouse
Study.owners: none, Dagster shows them
Study.path: none, it says where files are
Study.methods: cited_passages imported_answers methods prompts quip_scores retrieved_passages search_recalls
    single_latencies
Study.top_k: retrieved_passages search_recalls
Study.max_new_tokens: WORDED candidate_answers grounded_answers
Study.background_tokens: generated_passages methods single_latencies
Study.seed: ROWS candidate_triples paraphrase_similarities portrait questions quip_scores retrieved_passages
    search_recalls single_latencies warehouse
Study.retrieve_paraphrases: retrieved_passages
Study.limit: COLLECTED single_latencies
Source.kind: VIEWS datasets entities passages reference_mentions subject_frequencies triples
Source.snapshot: datasets entities passages triples
Source.seed Source.facts_per_relation: VIEWS entities passages reference_mentions subject_frequencies triples
Source.path_env: none, the bytes of the file count, wherever it is
Source.facts_from: entities triples
Source.views_from: VIEWS subject_frequencies
Source.sample: subject_frequencies
FactSample.frequency: none, it says which of text and month must be given
FactSample.per_relation: candidate_triples
FactSample.month FactSample.match: subject_frequencies
FactSample.text_path FactSample.text_env: none, the bytes of its files count
Place.path: datasets
Place.path_env Place.url Place.sha256: none, the bytes of the file count, wherever it is
Place.obtain: none, an error says it
Dataset.name: OF_FILES ROWS TUNED candidates datasets grounding_prompts imported_decisions paraphrase_similarities
    patterns question_counts retrieved_passages single_latencies warehouse
Dataset.relations: candidates datasets entity_linking patterns questions relations triples
Dataset.max_questions_per_relation Dataset.max_questions Dataset.first_rows Dataset.ids: datasets questions
Dataset.imported: COLLECTED datasets entities entity_linking imported_popularity paraphrases questions triples
    warehouse
Dataset.paraphrases: none, only a file of questions can have one; see Import
Dataset.split_by: datasets
Dataset.popularity_name: datasets
Dataset.drawn_as: answers candidate_answers generated_passages paraphrase_answers paraphrase_similarities questions
    sampled_answers single_latencies
Dataset.end_task: grounded_generations
Dataset.definitions: none, see Relation
Relation.name: datasets paraphrases passages questions relations retrieved_passages triples
Relation.property_id: questions relations triples
Relation.template: paraphrases questions relations
Relation.statement: passages relations retrieved_passages
Relation.wordings: paraphrases
Relation.published_questions Relation.subject_kinds Relation.object_kind: none, the sandbox and benchmarks read PopQA's
Import.format: OF_FILES datasets relations
Import.options: OF_FILES candidates patterns
Import.licence: warehouse
Paraphrases.format Paraphrases.options: entities entity_linking excluded_pages imported_popularity paraphrases passages
    questions triples
Paraphrases.licence: none, wordings have none
Prompt.name Prompt.shots: WORDED candidate_answers imported_answers
Prompt.format Prompt.draw Prompt.demonstrations_from: WORDED
Prompt.declines: WORDED candidate_answers
Prompt.reference_demos: answers prompts single_latencies
Prompt.generations: answer_embeddings answer_entailments candidate_answers paraphrase_answers prompts sampled_answers
    single_latencies
Prompt.methods: answers candidate_answers imported_answers prompts single_latencies
Sampling.n Sampling.temperature: prompts sampled_answers
Model.name: ROWS answer_embeddings answer_entailments imported_answers model_prices models quip_scores
    single_latencies sweep_settings warehouse
Model.path Model.revision: ASKED models
Model.backend Model.rambles Model.thinking_tokens: ROWS models single_latencies
Model.family Model.n_parameters Model.instruction_tuned: models
Model.dtype Model.quantisation: ROWS TUNED models single_latencies
Model.device: single_latencies
Model.device_map: TUNED single_latencies
Model.batch_tokens: none, how fast answers come, or what they may cost, decides none of them
Model.device_hour_usd Model.declines: ROWS models
Model.encoder_decoder: candidate_answers models paraphrase_answers single_latencies
Model.passages: answers candidate_answers models single_latencies
Model.passage_tokens: ROWS TUNED single_latencies
Model.service: none, it goes with one backend; see Service
Model.results: none, they go with one backend; see Results
Model.obtain: none, an error says it
Model.study_folder: none, paths begin there
Service.base_url Service.api: ASKED
Service.api_key_env: none, a key opens the service
Service.max_concurrency Service.requests_per_minute Service.tokens_per_minute Service.max_cost_usd: none, how fast
    answers come, or what they may cost, decides none of them
Service.prompt_usd_per_million Service.completion_usd_per_million: model_prices
Service.log_probabilities: answers generated_passages grounded_answers grounded_generations paraphrase_answers
    sampled_answers
Results.format Results.prompt Results.options: imported_answers
Results.dataset: imported_answers warehouse
Results.licence: warehouse
Popularity.measure Popularity.n_months Popularity.last_month: popularity_windows
Popularity.redirects Popularity.agent: VIEWS popularity_windows subject_frequencies
Embeddings.device: none, vectors are the same to 1e-6, and the first one stays
Embeddings.least_paraphrase_cosine: none, a check reads it in every run
Nli.path: answer_entailments
Nli.revision: none, the files in a folder count; for a hub id, which no test asks for, the commit
Nli.device: none, probabilities are the same to 1e-6, and the first one stays
Nli.study_folder: none, paths begin there
ReferenceQuestions.name: entity_linking reference_mentions reference_questions
ReferenceQuestions.format: none, there is one
ReferenceQuestions.tagme: entity_linking reference_mentions
TagMe.url TagMe.min_rho: reference_mentions
TagMe.token_env: none, a token opens the service
Collection.name: COLLECTED entity_cooccurrences portrait quip_scores
Collection.format Collection.source Collection.date Collection.licence Collection.options: COLLECTED
Counts.name Counts.dataset Counts.columns: question_counts
Decisions.name Decisions.dataset Decisions.columns: imported_decisions
Grounding.prompts Grounding.datasets: grounded_generations grounding_prompts imported_answers
Grounding.steps Grounding.turns Grounding.long_answers: grounded_answers grounded_generations
Grounding.max_new_tokens: grounded_generations
Grounding.methods: grounded_answers grounded_generations grounding_prompts imported_answers
Grounding.assembly: grounded_answers grounded_generations grounding_prompts
PortraitOf.collections: entity_cooccurrences portrait quip_scores
PortraitOf.false_positive_rate: portrait quip_scores
Method.name: ENCODED answers candidate_answers cited_passages grounded_answers grounded_generations grounding_prompts
    imported_answers methods prompts quip_scores single_latencies sweep_settings
Method.description Method.may_find_nothing: methods
Method.kind Method.retriever: none, no study can choose it; the code of the class counts
Method.index: none, the version of the tool has it
Method.is_dense Method.is_seeded: retrieved_passages
Method.cuts_last_sentence: answers candidate_answers grounded_answers grounded_generations methods single_latencies
Method.passages: candidate_answers methods retrieved_passages
Method.is_borrower: cited_passages retrieved_passages
Method.is_default: none, a study without methods has it
Bm25Settings.k1 Bm25Settings.b Bm25Settings.stop_words Bm25Settings.stemmer
    Bm25Settings.tokens: indexes retrieved_passages
EncoderSettings.path EncoderSettings.pooling EncoderSettings.normalise EncoderSettings.passage_prefix
    EncoderSettings.max_tokens EncoderSettings.dtype: ENCODED TUNED vectors
EncoderSettings.revision EncoderSettings.query_revision: none, the files in a folder count; for a hub id, which no
    test asks for, the commit
EncoderSettings.query_path EncoderSettings.query_prefix: TUNED retrieved_passages search_recalls
EncoderSettings.device: none, vectors are the same to 1e-6
EncoderSettings.batch_tokens: none, how fast answers come, or what they may cost, decides none of them
EncoderSettings.study_folder: none, paths begin there
IvfPq.nlist IvfPq.sub_vectors IvfPq.bits: ENCODED TUNED
IvfPq.nprobe IvfPq.refine_factor: retrieved_passages search_recalls TUNED
Sweep.model Sweep.retriever Sweep.seed Sweep.schedule Sweep.settings Sweep.batch_sizes Sweep.temperatures
    Sweep.passages Sweep.training_relations: TUNED sweep_settings
Sweep.dataset Sweep.steps Sweep.every Sweep.judged_relations Sweep.judged_facts Sweep.held_out Sweep.patience: TUNED
Rates.reader Rates.retriever: TUNED sweep_settings
"""
"""A line for each field, or for several of a class: the stages whose stamps it changes, or why it changes none."""
NOT_READ: Mapping[str, tuple[str, ...]] = {
    # these passages are a part of table passages, and retrieved_passages says which
    "answers": ("cited_passages",),
    "candidate_answers": ("cited_passages",),
    # it is written with the passages, which need facts only where there is no collection
    "excluded_pages": ("triples",),
    # which brings imported entities, that are read
    "entity_linking": ("questions",),
}
FILES = """
answers.csv: imported_answers
articles.jsonl: COLLECTED
counted.txt counts.csv: question_counts
world.nt: entities triples
ids.txt: questions
mine.csv: OF_FILES
nq.jsonl: reference_questions
popqa.tsv tp.csv: COLLECTED entities entity_linking imported_popularity paraphrases questions triples
sample.txt: subject_frequencies
theirs.csv: imported_decisions
dumps/pageviews-202001-user.bz2: VIEWS subject_frequencies
pararel/graphs_json/P36.jsonl pararel/trex_lms_vocab/P36.jsonl: candidates entity_linking paraphrases patterns
    questions
weights/config.json weights/tokenizer.json weights/model.safetensors: ROWS single_latencies
fusion/config.json fusion/tokenizer.json fusion/model.safetensors: ROWS TUNED single_latencies
nli/config.json nli/tokenizer.json nli/model.safetensors: answer_entailments
encoder/config.json encoder/tokenizer.json encoder/model.safetensors: ENCODED TUNED vectors
asking/config.json asking/tokenizer.json asking/model.safetensors: TUNED retrieved_passages search_recalls
"""
"""The same for the bytes of files."""
