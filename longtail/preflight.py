"""Looks for everything that a study needs before anything is computed, and lists all that is missing at once."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from longtail.embedding.declared import ANSWER_ENCODER
from longtail.entailment.classifier import check as check_classifier
from longtail.errors import LongtailError, single_line
from longtail.generation.tasks.registry import needs_of_models
from longtail.imports.answers import check_decisions
from longtail.imports.datasets import read_questions
from longtail.imports.records import beginning_of_text, check_keys
from longtail.needs import Need, check_package, needs_of_machines
from longtail.questions import counts
from longtail.reference.service import needs_of_links
from longtail.retrieval.bm25 import NO_BOUNDARIES, share_without_spaces
from longtail.retrieval.indexes import needs_of_retrievers
from longtail.retrieval.retrievers.bm25 import WORDS, Bm25Settings
from longtail.study.imports import (
    Collection,
    Counts,
    Decisions,
    Import,
    Place,
    ReferenceQuestions,
    Results,
    load_format,
)
from longtail.study.study import Study
from longtail.tuning.sweep import needs_of_sweep
from longtail.warehouse.build import check_memory
from longtail.wikimedia.services import needs_of_source

_AT_ONCE = 8  # hub ids are looked up side by side
_MOST_UNSPACED = 0.1  # of the letters at a file's beginning
_LOG = logging.getLogger("longtail")
_KEYS = {"imported": "import", "place": ""}
"""Fields whose name in study.yaml is another one."""


def misses(study: Study, *, with_models: bool = True) -> list[str]:
    """One line for each thing that is missing: where study.yaml names it, what it is, and what to do.

    Without `with_models`, another machine has the models that answer.
    """
    needs = [
        *needs_of_machines(),
        *needs_of_places(study),
        *needs_of_source(study),
        *(needs_of_models(study) if with_models else ()),
        *needs_of_retrievers(study),
        *needs_of_links(study),
        *needs_of_sweep(study),
        *_needs_of_similarities(study),
        *_needs_of_formats(study),
        Need("LONGTAIL_WAREHOUSE_MEMORY", check_memory),
    ]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        lines = list(pool.map(_missing, needs))
    for remark in remarks(study):
        _LOG.warning("%s", remark)
    where: dict[str, list[str]] = {}
    for need, line in zip(needs, lines, strict=True):
        if line is not None:
            where.setdefault(line, []).append(need.where)
    return [single_line(f"{', '.join(keys)}: {line}") for line, keys in where.items()]


def remarks(study: Study) -> Iterator[str]:
    """What a person should know before a run, and what does not stop it: files of texts in which BM25 finds no words."""
    bm25 = [
        method
        for method in map(study.method, study.retrieval_methods)
        if isinstance(method.settings, Bm25Settings)
    ]
    names = [method.name for method in bm25 if method.settings.tokens == WORDS]
    if not names or not study.generates:
        return
    for where, place, holder in _places(study, ""):
        with contextlib.suppress(LongtailError):  # a need says what is wrong with a file
            if not isinstance(holder, Import | Collection) or place.is_fetched(study.path):
                continue
            path = place.find(study.path)
            if path.is_file() and share_without_spaces(beginning_of_text(path, holder)) > _MOST_UNSPACED:
                yield f"{where}: {path}: for {', '.join(names)}, many of its words are {NO_BOUNDARIES}"


def needs_of_places(study: Study) -> Iterator[Need]:
    """Every file and folder that any key of the study names."""
    for where, place, holder in _places(study, ""):
        yield Need(where, partial(_check_place, place, study, holder))
    sample = study.source.sample
    if sample and sample.text:
        yield Need("source.sample.text", partial(_check_place, sample.text, study, sample))


def _check_place(place: Place, study: Study, holder: Any) -> None:
    """A file is there and has the columns of its format; one with an address is fetched where it is missing.

    Questions that name their entities are read whole, once a process: a column may turn out unreadable in its last rows.
    """
    if place.is_fetched(study.path):
        return
    path = place.find(study.path)
    if isinstance(holder, ReferenceQuestions):
        check_keys(path, ["question", "answer"])
    elif isinstance(holder, Decisions):
        check_decisions(path, holder)
    elif isinstance(holder, Counts):
        counts.check(path, holder)
    elif isinstance(holder, Import | Results | Collection):
        format_ = load_format(holder.kind, holder.format)
        package = getattr(format_, "package", None)  # without it, nobody can say which the files are
        if package is None or importlib.util.find_spec(package[0]) is not None:
            for file in format_.files(path, holder):
                format_.check(file, holder)
        for dataset in study.datasets_of_files:
            if dataset.imported is holder and getattr(format_, "names_entities", False):
                read_questions(study, dataset)


def _places(declared: Any, where: str, holder: Any = None) -> Iterator[tuple[str, Place, Any]]:
    """Each place with its key, and the declaration that has it."""
    if isinstance(declared, Place):
        yield where, declared, holder
    elif isinstance(declared, tuple):
        for i, part in enumerate(declared):
            yield from _places(part, f"{where}[{i}]")
    elif dataclasses.is_dataclass(declared):
        for field in dataclasses.fields(declared):
            key = _KEYS.get(field.name, field.name)
            yield from _places(getattr(declared, field.name), f"{where}.{key}".strip("."), declared)


def _needs_of_formats(study: Study) -> Iterator[Need]:
    """Some formats of answers are read by a package that not everybody installs."""
    for i, model in enumerate(study.models):
        for j, results in enumerate(model.results):
            package = load_format(results.kind, results.format).package
            if package:
                yield Need(f"models[{i}].results[{j}].format", partial(check_package, *package))


def _needs_of_similarities(study: Study) -> Iterator[Need]:
    """Paraphrases and samples are compared by the sentence encoder, and by the study's classifier."""
    if study.paraphrase_prompts or study.sample_prompts:
        yield Need("prompts", ANSWER_ENCODER.check)
    if study.nli is not None:
        yield Need("nli.path", partial(check_classifier, study.nli))


def _missing(need: Need) -> str | None:
    try:
        need.check()
    except LongtailError as error:
        return str(error)
    return None
