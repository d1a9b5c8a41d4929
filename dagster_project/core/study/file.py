"""Reading and checking study.yaml.

What belongs here: the keys, their defaults, and which keys exclude each other. What does not: the objects
(`study.study`), the file's bytes (`study.yaml_text`), and reading single values (`study.reader`). Every error names
the file, the key and the allowed values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dagster_project.core.home import RESERVED_NAMES
from dagster_project.core.methods import METHODS
from dagster_project.core.months import FIRST_MONTH, newest_complete_month
from dagster_project.core.prompt_formats import CLOZE_FORMATS
from dagster_project.core.relations.sets import relation_names
from dagster_project.core.study import import_checks, quick
from dagster_project.core.study.backends import IMPORTED
from dagster_project.core.study.grounding import read_grounding
from dagster_project.core.study.imports import (
    PARAPHRASES,
    QUESTIONS,
    Import,
    read_collection,
    read_import,
    read_only_place,
)
from dagster_project.core.study.models import read_model
from dagster_project.core.study.reader import Reader
from dagster_project.core.study.reference_questions import read_reference_questions
from dagster_project.core.study.retrievers import read_retriever
from dagster_project.core.study.short_form import QUESTIONS as SHORT_QUESTIONS
from dagster_project.core.study.short_form import in_full
from dagster_project.core.study.source import read_source
from dagster_project.core.study.study import (
    ASKS,
    CANDIDATES,
    DEMONSTRATION_POOLS,
    DRAWS,
    MEASURES,
    NO_SOURCE,
    PROMPT_FORMATS,
    REDIRECTS,
    Dataset,
    Embeddings,
    FactSample,
    Nli,
    Popularity,
    Prompt,
    Sampling,
    Source,
    Study,
    relation_set_of,
)
from dagster_project.core.study.sweep import read_sweep
from dagster_project.core.study.yaml_text import read_yaml


def load_study(path: Path) -> Study:
    """Read and check a study file; LONGTAIL_QUICK makes it a quick run.

    Errors: `StudyError` with file, key and allowed values.
    """
    study = _study(in_full(Reader(path, "", read_yaml(path))))
    return quick.quickened(study) if quick.is_asked_for() else study


def _study(read: Reader) -> Study:
    read.only(
        SHORT_QUESTIONS, *(f.name for f in dataclasses.fields(Study) if f.name not in ("path", "is_quick"))
    )
    name = read.slug("name")
    if name in RESERVED_NAMES:
        raise read.fail("name", f"{name!r} is taken; not allowed: {', '.join(sorted(RESERVED_NAMES))}")
    if name.endswith(quick.ENDING):
        raise read.fail(
            "name", f"{name!r} ends in {quick.ENDING}, as the homes of quick runs do; choose another"
        )
    collections = _each(read, "collections", read_collection, is_required=False)
    datasets = _each(read, "datasets", _dataset)
    top_k = read.number("top_k", 20, 1, 100)
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
        prompts=_each(read, "prompts", lambda one: _prompt(one, tuple(known))),
        models=models,
        methods=methods,
        popularity=_popularity(read.child("popularity")),
        path=read.path,
        top_k=top_k,
        max_new_tokens=read.number("max_new_tokens", 15, 1, 4096),
        background_tokens=read.number("background_tokens", 150, 1, 4096),
        sampling=_sampling(read.child("sampling")) if "sampling" in read.raw else Sampling(),
        embeddings=_embeddings(read.child("embeddings")) if "embeddings" in read.raw else Embeddings(),
        nli=read.optional("nli", lambda key: _nli(read.child(key))),
        seed=read.number("seed", 0, 0),
        reference_questions=_each(read, "reference_questions", read_reference_questions, is_required=False),
        collections=collections,
        grounding=read.optional("grounding", lambda key: read_grounding(read.child(key), **of_grounding)),
        retrievers=retrievers,
        retrieve_paraphrases=read.flag("retrieve_paraphrases"),
    )
    import_checks.check(read, study)
    _check_whole(read, study)
    if read.raw.get("sweep") is None:
        return study
    searched = tuple(study.method(name) for name in study.methods)
    sweep = read_sweep(read.child("sweep"), models, searched, tuple(one.name for one in datasets))
    return dataclasses.replace(study, sweep=sweep)


def _names(some: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(one.name for one in some)


def _check_whole(read: Reader, study: Study) -> None:
    shared = {d.name for d in study.datasets} & {r.name for r in study.reference_questions}
    if shared:
        raise read.fail("reference_questions", f"{min(shared)!r} is the name of a dataset; choose another")
    for method in study.methods:
        if study.method(method).reads_results and not study.results_read_by(method):
            fusible = ", ".join(one.name for one in study.known_methods if one.can_be_fused)
            raise read.fail(
                "methods",
                f"{method!r} takes the passages of other methods; name at least one of {fusible} beside it",
            )
    unused = [one.name for one in study.retrievers if one.name not in study.methods]
    if unused:
        raise read.fail("retrievers", f"{unused[0]!r} is not used; name it under methods, or leave it out")
    if not study.answer_prompts and not study.candidate_prompts:
        raise read.fail("prompts", "at least one must ask questions or candidates")
    _check_methods_of_prompts(read, study)
    _check_cloze_formats(read, study)
    if study.source.kind == "rdf_file" and study.popularity.measure == "page_views":
        raise read.fail("popularity.measure", "an rdf_file holds no page views; allowed here: sitelinks")
    if study.source.kind == NO_SOURCE and study.popularity.measure != IMPORTED:
        raise read.fail(
            "popularity.measure", f"without a source nothing else is known; allowed here: {IMPORTED}"
        )
    if study.source.sample is not None:
        _check_sample(read, study, study.source.sample)
    if study.popularity.measure == "page_views":
        _check_window(read, study)


def _check_methods_of_prompts(read: Reader, study: Study) -> None:
    """Prompts name methods of the study, and every method has a prompt."""
    for i, prompt in enumerate(study.prompts):
        unknown = [method for method in prompt.methods if method not in study.methods]
        if unknown:
            raise read.fail(
                f"prompts[{i}].methods",
                f"{unknown[0]!r} is not one of the study's: {', '.join(study.methods)}",
            )
        if prompt.methods and not {"questions", CANDIDATES} & {*prompt.asks}:
            raise read.fail(f"prompts[{i}].methods", f"goes with asks: [questions] or [{CANDIDATES}]")
    for method in study.methods:
        scores = any(study.scores_by(prompt, method) for prompt in study.candidate_prompts)
        if not scores and not study.prompts_of(method):
            raise read.fail(
                "prompts", f"none asks questions by method {method!r}; add it under methods of a prompt"
            )
        own = study.method(method)
        if scores and not (own.is_parametric or own.is_fixed or study.retrieve_paraphrases):
            raise read.fail(
                "retrieve_paraphrases",
                f"candidates are scored by method {method!r}, whose passages follow the wording; set it to true",
            )


def _check_cloze_formats(read: Reader, study: Study) -> None:
    """Every model that is asked for candidates has a prompt of its kind."""
    for i, model in enumerate(study.models):
        if study.candidate_prompts and model.generates and not study.cloze_prompts(model):
            format_ = next(name for name, of in CLOZE_FORMATS.items() if of == model.encoder_decoder)
            kind = "an encoder-decoder" if model.encoder_decoder else "not an encoder-decoder"
            raise read.fail(
                "prompts",
                f"none asks models[{i}] for candidates: {model.name} is {kind}, and needs a prompt of format {format_}",
            )


def _check_sample(read: Reader, study: Study, sample: FactSample) -> None:
    """Check that the weights of a sample of facts are available."""
    if not study.datasets_of_source:
        raise read.fail("source.sample", "no dataset is built from the source: there is nothing to sample")
    measure = study.popularity.measure
    if sample.frequency == "popularity" and measure == IMPORTED:
        raise read.fail(
            "source.sample.frequency",
            "the source's own facts have no imported popularity; allowed here: text, or another popularity.measure",
        )
    is_dated = sample.frequency == "popularity" and measure == "page_views"
    if is_dated and sample.month is None:
        raise read.fail("source.sample.month", "is missing: the month whose page views weight the sample")
    if sample.month is not None and not is_dated:
        raise read.fail("source.sample.month", "goes with frequency: popularity, measured in page_views")
    newest = _newest_month(study)
    if sample.month is not None and not FIRST_MONTH <= sample.month <= newest:
        raise read.fail(
            "source.sample.month",
            f"{sample.month!r} has no page views; allowed: '{FIRST_MONTH}' to '{newest}'",
        )


def _check_window(read: Reader, study: Study) -> None:
    """The window must be within the months that have page views."""
    newest = _newest_month(study)
    last = study.popularity.last_month or newest
    if not FIRST_MONTH <= last <= newest:
        raise read.fail(
            "popularity.last_month", f"{last!r} has no page views; allowed: '{FIRST_MONTH}' to '{newest}'"
        )
    most = _month_number(last) - _month_number(FIRST_MONTH) + 1
    if study.popularity.n_months > most:
        raise read.fail(
            "popularity.n_months",
            f"{study.popularity.n_months} months up to {last} begin before {FIRST_MONTH}, the first month with"
            f" page views; allowed: 1 to {most}",
        )


def _newest_month(study: Study) -> str:
    """The newest month with page views: the newest complete month; in the sandbox its snapshot, if that is later."""
    newest = newest_complete_month(datetime.now(UTC).date())
    # The sandbox's time is the study's: a machine with a slow clock can run it too.
    return max(newest, study.source.snapshot) if study.source.kind == "sandbox" else newest


def _month_number(month: str) -> int:
    return int(month[:4]) * 12 + int(month[5:])


def _dataset(read: Reader) -> Dataset:
    keys = (
        "import",
        "paraphrases",
        "relations",
        "first_rows",
        "ids",
        "max_questions_per_relation",
        "max_questions",
    )
    read.only("name", *keys)
    if "first_rows" in read.raw and "import" not in read.raw:
        raise read.fail("first_rows", "goes with import: a dataset of the source has no rows in a file")
    imported = read.optional("import", lambda key: read_import(read.child(key), QUESTIONS))
    return Dataset(
        name=read.slug("name"),
        relations=_relations(read, imported),
        max_questions_per_relation=read.optional("max_questions_per_relation", read.count),
        imported=imported,
        paraphrases=read.optional("paraphrases", lambda key: read_import(read.child(key), PARAPHRASES)),
        max_questions=read.optional("max_questions", read.count),
        first_rows=read.optional("first_rows", read.count),
        ids=read.optional("ids", lambda key: read_only_place(read.child(key))),
    )


def _relations(read: Reader, imported: Import | None) -> tuple[str, ...]:
    """The relations asked about. A format without a set of relations has names of its own; none means all."""
    names = relation_names(relation_set_of(imported))
    if names:
        return read.choices("relations", names, names)
    return read.names("relations") if "relations" in read.raw else ()


def _prompt(read: Reader, methods: tuple[str, ...]) -> Prompt:
    """One entry of `prompts`; `methods` are all that the study can name."""
    read.only(*(f.name for f in dataclasses.fields(Prompt)))
    shots = read.number("shots", 0, 0, 64)
    draw = read.optional("draw", lambda key: read.choice(key, DRAWS))
    if (shots > 0) != (draw is not None):
        raise read.fail("draw", f"goes with shots above 0, and is one of: {', '.join(DRAWS)}")
    for key in ("demonstrations_from", "reference_demos"):
        if not shots and read.raw.get(key):
            raise read.fail(key, "goes with shots above 0")
    format_, asks = read.choice("format", PROMPT_FORMATS, "qa"), read.choices("asks", ASKS, ("questions",))
    if format_ in CLOZE_FORMATS and asks != (CANDIDATES,):
        raise read.fail("asks", f"a prompt of format {format_} asks for one thing: [{CANDIDATES}]")
    if CANDIDATES in asks and (format_ not in CLOZE_FORMATS or shots):
        named = " or ".join(CLOZE_FORMATS)
        raise read.fail("format", f"asks: [{CANDIDATES}] goes with {named}, without shots")
    return Prompt(
        name=read.slug("name"),
        format=format_,
        shots=shots,
        draw=draw,
        demonstrations_from=read.choice("demonstrations_from", DEMONSTRATION_POOLS, "other_relations"),
        reference_demos=read.flag("reference_demos"),
        asks=asks,
        methods=read.choices("methods", methods, ()) if "methods" in read.raw else (),
    )


def _sampling(read: Reader) -> Sampling:
    read.only(*(f.name for f in dataclasses.fields(Sampling)))
    return Sampling(
        n=read.number("n", Sampling.n, 2, 1000),
        temperature=read.real("temperature", Sampling.temperature, 0, 2),
    )


def _embeddings(read: Reader) -> Embeddings:
    read.only(*(f.name for f in dataclasses.fields(Embeddings)))
    return Embeddings(
        device=read.text("device", Embeddings.device),
        least_paraphrase_cosine=read.real(
            "least_paraphrase_cosine", Embeddings.least_paraphrase_cosine, -1 - 1e-9, 1
        ),
    )


def _nli(read: Reader) -> Nli:
    read.only(*(f.name for f in dataclasses.fields(Nli)))
    revision = read.optional("revision", read.text)
    return Nli(path=read.text("path"), revision=revision, device=read.text("device", Nli.device))


def _popularity(read: Reader) -> Popularity:
    read.only(*(f.name for f in dataclasses.fields(Popularity)))
    popularity = Popularity(
        measure=read.choice("measure", MEASURES, "page_views"),
        n_months=read.number("n_months", 12, 1, 240),
        last_month=read.optional("last_month", read.month),
        redirects=read.choice("redirects", REDIRECTS, Popularity.redirects),
    )
    if "redirects" in read.raw and popularity.measure != "page_views":
        raise read.fail("redirects", "goes with measure: page_views")
    return popularity


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
