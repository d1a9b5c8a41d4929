"""Reading key `models` of study.yaml.

What belongs here: the keys of a model and of its service, their defaults, and what does not go together. What does
not: what backends can do (`generation.capabilities`).
"""

from __future__ import annotations

import dataclasses
from urllib.parse import urlsplit

from dagster_project.core.study.imports import read_results
from dagster_project.core.study.reader import Reader
from dagster_project.core.study.study import (
    APIS,
    BACKENDS,
    DEVICE_MAPS,
    DTYPES,
    IMPORTED,
    QUANTISATIONS,
    UNKNOWN,
    Model,
    Service,
)


def read_model(read: Reader) -> Model:
    """One entry of `models`. Errors: `StudyError`."""
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
        results=tuple(map(read_results, read.children("results"))) if "results" in read.raw else (),
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
