"""Reading and checking study.yaml.

Every error names the file, the key and the allowed values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from longtail.methods import METHODS, Method
from longtail.storage.home import RESERVED_NAMES
from longtail.study import import_checks, quick
from longtail.study.checks import check_whole
from longtail.study.counts import read_counts
from longtail.study.datasets import read_dataset
from longtail.study.decisions import read_decisions
from longtail.study.grounding import read_grounding
from longtail.study.imports import read_collection
from longtail.study.models import read_model
from longtail.study.popularity import read_popularity
from longtail.study.prompts import Sampling, read_prompt, read_sampling
from longtail.study.reader import Reader
from longtail.study.reference_questions import read_reference_questions
from longtail.study.relation_files import check_relations
from longtail.study.short_form import QUESTIONS as SHORT_QUESTIONS
from longtail.study.short_form import in_full
from longtail.study.source import NO_SOURCE, Source, read_source
from longtail.study.study import Study
from longtail.study.sweep import read_sweep
from longtail.study.text_models import Embeddings, read_embeddings, read_nli
from longtail.study.yaml_text import read_yaml


def load_study(path: Path) -> Study:
    """Read and check a study file; LONGTAIL_LIMIT makes it a quick run.

    Errors: `StudyError` with file, key and allowed values.
    """
    study = _study(in_full(Reader(path, "", read_yaml(path))))
    most = quick.limit()
    return study if most is None else quick.limited(study, most)


def _study(read: Reader) -> Study:
    read.only(
        SHORT_QUESTIONS, *(f.name for f in dataclasses.fields(Study) if f.name not in ("path", "limit"))
    )
    name = read.slug("name")
    if name in RESERVED_NAMES:
        raise read.fail("name", f"{name!r} is taken; not allowed: {', '.join(sorted(RESERVED_NAMES))}")
    if quick.ENDING.search(name):
        raise read.fail("name", f"{name!r} ends as the names of quick runs do (_limit_50); choose another")
    collections = _each(read, "collections", read_collection, is_required=False)
    datasets = _each(read, "datasets", read_dataset)
    try:
        check_relations(datasets)
    except ValueError as error:
        raise read.fail("datasets", str(error)) from None
    top_k = read.number("top_k", 20, 1, 100)
    counts = _each(read, "counts", read_counts, is_required=False)
    counted = tuple(measure for one in counts for measure in one.measures)
    models = _each(read, "models", lambda one: read_model(one, top_k))
    retrievers = _each(read, "retrievers", read_retriever, is_required=False)
    known = {method.name: method for method in (*METHODS.values(), *retrievers)}
    methods = read.choices(
        "methods", tuple(known), tuple(name for name, method in METHODS.items() if method.is_default)
    )
    of_grounding = {
        "collections": _names(collections),
        "datasets": _names(datasets),
        "models": _names(models),
        "retrievers": tuple(method for method in methods if not known[method].is_parametric),
    }
    study = Study(
        name=name,
        description=read.text("description"),
        source=read_source(read.child("source")) if "source" in read.raw else Source(NO_SOURCE, ""),
        datasets=datasets,
        prompts=_each(read, "prompts", lambda one: read_prompt(one, tuple(known))),
        models=models,
        methods=methods,
        popularity=read_popularity(read.child("popularity"), counted),
        path=read.path,
        top_k=top_k,
        max_new_tokens=read.number("max_new_tokens", 15, 1, 4096),
        background_tokens=read.number("background_tokens", 150, 1, 4096),
        sampling=read_sampling(read.child("sampling")) if "sampling" in read.raw else Sampling(),
        embeddings=read_embeddings(read.child("embeddings")) if "embeddings" in read.raw else Embeddings(),
        nli=read.optional("nli", lambda key: read_nli(read.child(key))),
        seed=read.number("seed", 0, 0),
        reference_questions=_each(read, "reference_questions", read_reference_questions, is_required=False),
        collections=collections,
        counts=counts,
        decisions=_each(read, "decisions", read_decisions, is_required=False),
        grounding=read.optional("grounding", lambda key: read_grounding(read.child(key), **of_grounding)),
        retrievers=retrievers,
        retrieve_paraphrases=read.flag("retrieve_paraphrases"),
    )
    import_checks.check(read, study)
    check_whole(read, study)
    if read.raw.get("sweep") is None:
        return study
    searched = tuple(study.method(name) for name in study.methods)
    sweep = read_sweep(read.child("sweep"), models, searched, tuple(one.name for one in datasets))
    return dataclasses.replace(study, sweep=sweep)


def _names(some: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(one.name for one in some)


def _each(
    read: Reader, key: str, read_one: Callable[[Reader], Any], *, is_required: bool = True
) -> tuple[Any, ...]:
    """What stands in the list `key`, with a different name each."""
    items = tuple(map(read_one, read.children(key))) if is_required or key in read.raw else ()
    seen: set[str] = set()
    for item in items:
        if item.name in seen:
            raise read.fail(key, f"{item.name!r} appears twice")
        seen.add(item.name)
    return items


def read_retriever(read: Reader) -> Method:
    """One entry of `retrievers`: the record of a method that is like the built-in one named by `kind`.

    Errors: `StudyError`.
    """
    name = read.slug("name")
    if name in METHODS:
        raise read.fail("name", f"{name!r} is the name of a built-in method; choose another")
    readers = {method.name: method.read for method in METHODS.values() if method.read}
    like = METHODS[read.choice("kind", tuple(readers))]
    read.only("name", "kind", *_keys(read, type(like.settings)))
    told = ", ".join(f"{key}: {read.raw[key]}" for key in sorted(read.raw) if key not in ("name", "kind"))
    return dataclasses.replace(
        like,
        name=name,
        description=f"{like.description} ({told})" if told else like.description,
        settings=readers[like.name](read),
        is_default=False,
    )


def _keys(read: Reader, settings: type[Any]) -> Iterator[str]:
    """The keys of settings, and those that a chosen value brings."""
    for one in dataclasses.fields(settings):
        if one.metadata:
            yield one.name
        kinds = one.metadata.get("kinds")
        if kinds and (chosen := kinds[read.choice(one.name, tuple(kinds), next(iter(kinds)))]):
            yield from _keys(read, chosen)
