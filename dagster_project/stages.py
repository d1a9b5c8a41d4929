"""The stages of a study, in order: which assets one run of `make run` materialises, and which of their partitions.

What belongs here: the plan. What does not: running it (`run`), and the assets themselves (`defs`).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

import dagster as dg

from dagster_project.core.months import newest_complete_month, newest_ended_month
from dagster_project.core.study.study import Model, Study

WAREHOUSE = ("warehouse",)  # stands for all assets of the groups warehouse and report
_REFERENCES = ("lake/reference_questions", "lake/reference_mentions")
_QUESTIONS = ("lake/questions", "lake/paraphrases", "lake/paraphrase_similarities", "lake/entity_linking")


@dataclass(frozen=True)
class Stage:
    """One run: assets, and the first and last partition key where they have partitions."""

    title: str
    keys: tuple[str, ...]
    first: str | None = None
    last: str | None = None


def plan(study: Study) -> list[Stage]:
    """The stages of a study, in order. Partition ranges are products by dimension: a model with all its methods."""
    lake = [
        f"lake/{name}"
        for name in ("models", "model_prices", "methods", "prompts", "datasets", "popularity_windows")
    ]
    facts = ("lake/triples", "lake/entities", "lake/imported_popularity", *_REFERENCES)
    sample = ("lake/subject_frequencies", "lake/candidate_triples")  # no rows where all facts are asked about
    stages = [Stage("study, facts, entities", (*lake, *facts, *sample))]
    if study.popularity.measure == "page_views":
        first, last = window(study)
        more = ("lake/reference_page_views",) if any(one.tagme for one in study.reference_questions) else ()
        stages.append(Stage(f"page views of {first} to {last}", ("lake/page_views", *more), first, last))
    generates = any(model.generates for model in study.models)
    stages += _texts(study) if generates else [Stage("questions, paraphrases", _QUESTIONS)]
    for model in study.models:
        stages += _generation(study, model)
    if generates and (study.paraphrase_prompts or study.sample_prompts):
        stages.append(Stage("answer embeddings", ("lake/answer_embeddings",)))
    return [*stages, Stage("warehouse: dbt, tests, publication, report", WAREHOUSE)]


def _texts(study: Study) -> Iterator[Stage]:
    """Questions, and what is read to answer them; imported answers were given without our passages."""
    indexes = [f"indexes/{name}" for name in study.retrievers if name != "oracle"]
    yield Stage("questions, paraphrases, passages, indexes", (*_QUESTIONS, "lake/passages", *indexes))
    if study.retrievers:
        first, last = study.retrievers[0], study.retrievers[-1]
        yield Stage("retrieval", ("lake/retrieved_passages",), first, last)


def _generation(study: Study, model: Model) -> Iterator[Stage]:
    """All that one model writes; answers before the latency that a service's rows tell."""
    name = model.name
    methods = _multi_key(name, study.methods[0]), _multi_key(name, study.methods[-1])
    is_imported = not model.generates
    if is_imported:
        yield Stage(f"imported answers of {name}", ("lake/imported_answers",), name, name)
    if "genread" in study.methods:
        yield Stage(f"generated passages of {name}", ("lake/generated_passages",), name, name)
    yield Stage(f"answers of {name}", ("lake/answers",), *methods)
    if is_imported:
        return
    if study.paraphrase_prompts:
        yield Stage(f"paraphrase answers of {name}", ("lake/paraphrase_answers",), name, name)
    if study.sample_prompts:
        yield Stage(f"sampled answers of {name}", ("lake/sampled_answers",), name, name)
    yield Stage(f"latency of {name}", ("lake/single_latencies",), name, name)


def window(study: Study) -> tuple[str, str]:
    """First and last month of the popularity window; the last is the newest complete one if the study names none."""
    today = datetime.datetime.now(datetime.UTC).date()
    newest = newest_ended_month if study.source.kind == "sandbox" else newest_complete_month
    last = study.popularity.last_month or newest(today)
    months = int(last[:4]) * 12 + int(last[5:]) - 1 - (study.popularity.n_months - 1)
    return f"{months // 12:04d}-{months % 12 + 1:02d}", last


def _multi_key(model: str, method: str) -> str:
    return str(dg.MultiPartitionKey({"model": model, "method": method}))
