"""Reading and checking study.yaml.

What belongs here: which keys there are, their defaults, and what does not go together. What does not: the objects
(`study`), and reading single values (`reader`). Every error names the file, the key and what is allowed there.
"""

from __future__ import annotations

import dataclasses
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from dagster_project.core.errors import StudyError
from dagster_project.core.home import RESERVED_NAMES
from dagster_project.core.imports import checks as imports
from dagster_project.core.imports.declared import read_dataset_import, read_paraphrase_import, read_results
from dagster_project.core.reader import Reader
from dagster_project.core.study import (
    APIS,
    ASKS,
    BACKENDS,
    DEMONSTRATION_POOLS,
    DEVICE_MAPS,
    DRAWS,
    DTYPES,
    FACT_ORIGINS,
    IMPORTED,
    MEASURES,
    METHODS,
    NO_SOURCE,
    PROMPT_FORMATS,
    QUANTISATIONS,
    RELATION_NAMES,
    RETRIEVERS,
    SOURCE_KINDS,
    UNKNOWN,
    VIEW_ORIGINS,
    Dataset,
    Model,
    Popularity,
    Prompt,
    Sampling,
    Service,
    Source,
    Study,
)
from dagster_project.core.wikimedia.pageviews import FIRST_MONTH, newest_complete_month


def load_study(path: Path) -> Study:
    """Read and check a study file. Errors: `StudyError` with file, key and what is allowed."""
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StudyError(f"{path}: no such study file; name one with STUDY=<file>") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path}: cannot be read ({error})") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: of a date such as 2026-99-99
        raise StudyError(f"{path}: is not valid YAML: {' '.join(str(error).split())}") from None
    return _study(Reader(path, "", raw))


def _study(read: Reader) -> Study:
    read.only(*(f.name for f in dataclasses.fields(Study) if f.name != "path"))
    name = read.slug("name")
    if name in RESERVED_NAMES:
        raise read.fail("name", f"{name!r} is taken; not allowed: {', '.join(sorted(RESERVED_NAMES))}")
    study = Study(
        name=name,
        description=read.text("description"),
        source=_source(read.child("source")) if "source" in read.raw else Source(NO_SOURCE, ""),
        datasets=_unique(read, "datasets", tuple(_dataset(r) for r in read.children("datasets"))),
        prompts=_unique(read, "prompts", tuple(_prompt(r) for r in read.children("prompts"))),
        models=_unique(read, "models", tuple(_model(r) for r in read.children("models"))),
        methods=read.choices("methods", METHODS, ("closed_book", *RETRIEVERS)),
        popularity=_popularity(read.child("popularity")),
        path=read.path,
        top_k=read.number("top_k", 5, 1, 100),
        max_new_tokens=read.number("max_new_tokens", 15, 1, 4096),
        background_tokens=read.number("background_tokens", 150, 1, 4096),
        sampling=_sampling(read.child("sampling")) if "sampling" in read.raw else Sampling(),
        seed=read.number("seed", 0, 0),
    )
    imports.check(read, study)
    _check_whole(read, study)
    return study


def _check_whole(read: Reader, study: Study) -> None:
    for i, prompt in enumerate(study.prompts):
        if prompt.shots and set(prompt.asks) - {"questions"}:
            raise read.fail(
                f"prompts[{i}].asks",
                "paraphrases and samples are asked without demonstrations (SPEC §3): set shots to 0",
            )
    if not study.answer_prompts:
        raise read.fail("prompts", "at least one must ask questions")
    if study.source.kind == "rdf_file" and study.popularity.measure == "page_views":
        raise read.fail("popularity.measure", "an rdf_file holds no page views; allowed here: sitelinks")
    if study.source.kind == NO_SOURCE and study.popularity.measure != IMPORTED:
        raise read.fail(
            "popularity.measure", f"without a source nothing else is known; allowed here: {IMPORTED}"
        )
    if study.popularity.measure == "page_views":
        _check_window(read, study)


def _check_window(read: Reader, study: Study) -> None:
    """Page views exist from `FIRST_MONTH` to the newest complete month, in the sandbox to its snapshot at least."""
    newest = newest_complete_month(date.today())
    if (
        study.source.kind == "sandbox"
    ):  # its time is the study's: a machine whose clock is behind can still run it
        newest = max(newest, study.source.snapshot)
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


def _month_number(month: str) -> int:
    return int(month[:4]) * 12 + int(month[5:])


def _source(read: Reader) -> Source:
    kind = read.choice("kind", SOURCE_KINDS)
    dumps = ("facts_from", "ids_env", "accept_cut_dumps")
    keys = {
        "sandbox": ("seed", "facts_per_relation", "views_from", *dumps),
        "wikidata": ("contact_env", "views_from", "dump_env", "page_view_dumps_env", *dumps),
        "rdf_file": ("path_env", *dumps),
    }[kind]
    read.only("kind", "snapshot", *keys)
    source = Source(
        kind=kind,
        snapshot=read.month("snapshot"),
        seed=read.number("seed", 0, 0),
        facts_per_relation=read.number("facts_per_relation", 140, 8, 1_000_000),
        path_env=read.text("path_env", Source.path_env),
        contact_env=read.text("contact_env", Source.contact_env),
        facts_from=read.choice("facts_from", FACT_ORIGINS, Source.facts_from),
        views_from=read.choice("views_from", VIEW_ORIGINS, Source.views_from),
        ids_env=read.text("ids_env", Source.ids_env),
        dump_env=read.text("dump_env", Source.dump_env),
        page_view_dumps_env=read.text("page_view_dumps_env", Source.page_view_dumps_env),
        accept_cut_dumps=read.flag("accept_cut_dumps"),
    )
    _check_source(read, source)
    return source


def _check_source(read: Reader, source: Source) -> None:
    """No key without effect."""
    has_views = source.kind != "rdf_file" and source.views_from != "api"
    for key, has_effect, needed in (
        ("ids_env", source.facts_from == "entity_api", "facts_from: entity_api"),
        ("dump_env", source.facts_from == "truthy_dump", "facts_from: truthy_dump"),
        ("page_view_dumps_env", has_views, "views_from: dump or auto"),
        ("accept_cut_dumps", has_views or source.facts_from == "truthy_dump", "a dump to read"),
    ):
        if key in read.raw and not has_effect:
            raise read.fail(key, f"goes with {needed}")


def _dataset(read: Reader) -> Dataset:
    read.only("name", "relations", "max_questions_per_relation", "import", "paraphrases")
    imported = read.optional("import", lambda key: read_dataset_import(read.child(key)))
    relations = imports.relations_of(imported) if imported else RELATION_NAMES
    return Dataset(
        name=read.slug("name"),
        relations=read.choices("relations", relations, relations),
        max_questions_per_relation=read.optional(
            "max_questions_per_relation", lambda key: read.number(key, 1, 1)
        ),
        imported=imported,
        paraphrases=read.optional("paraphrases", lambda key: read_paraphrase_import(read.child(key))),
    )


def _prompt(read: Reader) -> Prompt:
    read.only(*(f.name for f in dataclasses.fields(Prompt)))
    shots = read.number("shots", 0, 0, 64)
    draw = read.optional("draw", lambda key: read.choice(key, DRAWS))
    if (shots > 0) != (draw is not None):
        raise read.fail("draw", f"goes with shots above 0, and is one of: {', '.join(DRAWS)}")
    for key in ("demonstrations_from", "reference_demos"):
        if not shots and read.raw.get(key):
            raise read.fail(key, "goes with shots above 0")
    return Prompt(
        name=read.slug("name"),
        format=read.choice("format", PROMPT_FORMATS, "qa"),
        shots=shots,
        draw=draw,
        demonstrations_from=read.choice("demonstrations_from", DEMONSTRATION_POOLS, "other_relations"),
        reference_demos=read.flag("reference_demos"),
        asks=read.choices("asks", ASKS, ("questions",)),
    )


def _model(read: Reader) -> Model:
    read.only(*(f.name for f in dataclasses.fields(Model)))
    name = read.slug("name")
    backend = read.choice("backend", BACKENDS, "transformers")
    dtype, quantisation = _precision(read, backend)
    model = Model(
        name=name,
        path=read.text("path", IMPORTED if backend == IMPORTED else None),
        backend=backend,
        family=read.text("family", name),
        n_parameters=read.optional("n_parameters", lambda key: read.number(key, 1, 1)),
        revision=read.optional("revision", read.text),
        dtype=dtype,
        quantisation=quantisation,
        device=read.text("device", "auto"),
        device_map=read.optional("device_map", lambda key: read.choice(key, DEVICE_MAPS)),
        batch_tokens=read.number("batch_tokens", Model.batch_tokens, 64),
        device_hour_usd=read.optional("device_hour_usd", read.price),
        rambles=read.flag("rambles"),
        service=_service(read.child("service")) if read.raw.get("service") is not None else None,
        results=tuple(read_results(r, METHODS) for r in read.children("results"))
        if "results" in read.raw
        else (),
    )
    _check_model(read, model)
    return model


def _precision(read: Reader, backend: str) -> tuple[str, str]:
    """Number format and quantisation: of a service unknown, unless the study says what it serves."""
    is_served = backend == "openai"
    dtypes, schemes = (*DTYPES, UNKNOWN), (*QUANTISATIONS, UNKNOWN)
    if backend == IMPORTED:
        return UNKNOWN, read.choice("quantisation", QUANTISATIONS, "none")
    return (
        read.choice("dtype", dtypes if is_served else DTYPES, UNKNOWN if is_served else "float32"),
        read.choice(
            "quantisation", schemes if is_served else QUANTISATIONS, UNKNOWN if is_served else "none"
        ),
    )


def _check_model(read: Reader, model: Model) -> None:
    """Keys that contradict each other: none may be silently without effect."""
    if (model.backend == "openai") != (model.service is not None):
        raise read.fail("service", "goes with backend openai, and says where its server is (base_url)")
    if (model.backend == IMPORTED) != bool(model.results):
        raise read.fail("results", f"goes with backend {IMPORTED}, and names the files of its answers")
    if model.backend == "transformers":
        return
    idle = {
        "openai": ("batch_tokens",),
        "fake": ("quantisation",),
        IMPORTED: ("quantisation", "path", "dtype", "revision", "batch_tokens", "device_hour_usd"),
    }
    for key in ("device", "device_map", *idle[model.backend]):
        if read.raw.get(key) is not None:
            raise read.fail(key, f"has no meaning for backend {model.backend}; leave it out")
    if model.service is not None and model.device_hour_usd is not None:
        raise read.fail("device_hour_usd", "prices local devices; a service's prices are keys of service")


def _service(read: Reader) -> Service:
    read.only(*(f.name for f in dataclasses.fields(Service)))
    url = _base_url(read)
    prices = {
        key: read.optional(key, read.price)
        for key in ("max_cost_usd", "prompt_usd_per_million", "completion_usd_per_million")
    }
    if (prices["prompt_usd_per_million"] is None) != (prices["completion_usd_per_million"] is None):
        raise read.fail("prompt_usd_per_million", "goes together with completion_usd_per_million")
    return Service(
        base_url=url,
        api=read.choice("api", APIS, "completions"),
        api_key_env=read.optional("api_key_env", read.environment_name),
        max_concurrency=read.number("max_concurrency", Service.max_concurrency, 1, 1024),
        requests_per_minute=read.optional("requests_per_minute", lambda key: read.number(key, 1, 1)),
        tokens_per_minute=read.optional("tokens_per_minute", lambda key: read.number(key, 1, 1)),
        **prices,
    )


def _base_url(read: Reader) -> str:
    """An address without secrets; a faulty one is not shown, as it may hold some."""
    url = read.text("base_url").rstrip("/")
    if "@" in url or "?" in url or "#" in url:
        raise read.fail("base_url", "may hold no user name, password or query: name the key by api_key_env")
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or any(char.isspace() for char in url):
        raise read.fail("base_url", "must be an address, as in http://127.0.0.1:8000/v1")
    return url


def _sampling(read: Reader) -> Sampling:
    read.only(*(f.name for f in dataclasses.fields(Sampling)))
    return Sampling(
        n=read.number("n", Sampling.n, 2, 1000),
        temperature=read.real("temperature", Sampling.temperature, 0, 2),
    )


def _popularity(read: Reader) -> Popularity:
    read.only(*(f.name for f in dataclasses.fields(Popularity)))
    return Popularity(
        measure=read.choice("measure", MEASURES, "page_views"),
        n_months=read.number("n_months", 12, 1, 240),
        last_month=read.optional("last_month", read.month),
    )


def _unique(read: Reader, key: str, items: tuple[Any, ...]) -> tuple[Any, ...]:
    seen: set[str] = set()
    for item in items:
        if item.name in seen:
            raise read.fail(key, f"{item.name!r} is there twice")
        seen.add(item.name)
    return items
