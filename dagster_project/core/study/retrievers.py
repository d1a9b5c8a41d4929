"""Reading key `retrievers` of study.yaml: BM25 and dense retrievers with settings of the study's own.

What belongs here: the keys of a retriever, and which exclude each other. What does not: what they mean
(`core.retriever_settings`), and whether an encoder is there and can be loaded (`embedding.declared`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from dagster_project.core.methods import METHODS, Method
from dagster_project.core.retriever_settings import (
    CODES,
    POOLINGS,
    SEARCHES,
    STEMMERS,
    STOP_WORDS,
    VARIANTS,
    VECTOR_DTYPES,
    WITH_DELTA,
    Bm25Settings,
    EncoderSettings,
    Hnsw,
    IvfPq,
)
from dagster_project.core.study.reader import Reader

_KINDS = tuple(name for name, method in METHODS.items() if method.settings is not None)


def read_retriever(read: Reader) -> Method:
    """One entry of `retrievers`: the record of a method that is like the built-in one named by `kind`.

    Errors: `StudyError`.
    """
    name = read.slug("name")
    if name in METHODS:
        raise read.fail("name", f"{name!r} is the name of a built-in method; choose another")
    like = METHODS[read.choice("kind", _KINDS)]
    settings = _bm25(read) if isinstance(like.settings, Bm25Settings) else _encoder(read)
    told = ", ".join(f"{key}: {read.raw[key]}" for key in sorted(read.raw) if key not in ("name", "kind"))
    return dataclasses.replace(
        like,
        name=name,
        description=f"{like.description} ({told})" if told else like.description,
        settings=settings,
        is_default=False,
    )


def _bm25(read: Reader) -> Bm25Settings:
    _only(read, Bm25Settings)
    variant = read.choice("variant", VARIANTS, Bm25Settings.variant)
    if "delta" in read.raw and variant not in WITH_DELTA:
        raise read.fail("delta", f"goes with variant: {' or '.join(WITH_DELTA)}")
    return Bm25Settings(
        k1=read.real("k1", Bm25Settings.k1, 0, 100),
        b=read.share("b", Bm25Settings.b),
        variant=variant,
        delta=read.real("delta", Bm25Settings.delta, 0, 100),
        stop_words=read.optional("stop_words", lambda key: read.choice(key, STOP_WORDS)),
        stemmer=read.optional("stemmer", lambda key: read.choice(key, STEMMERS)),
    )


def _encoder(read: Reader) -> EncoderSettings:
    search = SEARCHES[read.choice("search", tuple(SEARCHES), "exact")]
    _only(read, EncoderSettings, *([search] if search else []))
    if "query_revision" in read.raw and "query_path" not in read.raw:
        raise read.fail("query_revision", "goes with query_path")
    return EncoderSettings(
        path=read.text("path"),
        revision=read.optional("revision", read.text),
        query_path=read.optional("query_path", read.text),
        query_revision=read.optional("query_revision", read.text),
        pooling=read.choice("pooling", POOLINGS, EncoderSettings.pooling),
        normalise=read.flag("normalise") if "normalise" in read.raw else EncoderSettings.normalise,
        query_prefix=read.optional("query_prefix", read.text) or "",
        passage_prefix=read.optional("passage_prefix", read.text) or "",
        max_tokens=read.optional("max_tokens", lambda key: read.number(key, 0, 4, 100_000)),
        dtype=read.choice("dtype", VECTOR_DTYPES, EncoderSettings.dtype),
        device=read.optional("device", read.text),
        batch_tokens=read.optional("batch_tokens", lambda key: read.number(key, 0, 64)),
        search=_ivf_pq(read) if search is IvfPq else _hnsw(read) if search is Hnsw else None,
        study_folder=read.path.parent,
    )


def _ivf_pq(read: Reader) -> IvfPq:
    return IvfPq(
        nlist=read.optional("nlist", lambda key: read.number(key, 0, 1, 1 << 24)),
        nprobe=read.optional("nprobe", lambda key: read.number(key, 0, 1, 1 << 24)),
        sub_vectors=read.optional("sub_vectors", lambda key: read.number(key, 0, 1, 4_096)),
        bits=read.number("bits", IvfPq.bits, 4, 12),
        refine_factor=read.number("refine_factor", IvfPq.refine_factor, 1, 1_000),
    )


def _hnsw(read: Reader) -> Hnsw:
    return Hnsw(
        links=read.number("links", Hnsw.links, 4, 256),
        ef_construction=read.number("ef_construction", Hnsw.ef_construction, 8, 4_096),
        ef_search=read.number("ef_search", Hnsw.ef_search, 1, 16_384),
        codes=read.choice("codes", CODES, Hnsw.codes),
    )


def _only(read: Reader, *settings: type[Any]) -> None:
    names = {field.name for one in settings for field in dataclasses.fields(one)} - {"study_folder"}
    read.only("name", "kind", *names)
