"""What a retriever is made with: the settings that a study may declare, and their defaults.

What belongs here: the settings of both kinds of retrievers with an index. What does not: reading them out of study.yaml
(`study.retrievers`), and their effects (`retrieval.bm25`, `embedding.declared`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

VARIANTS = ("lucene", "robertson", "atire", "bm25l", "bm25+")
WITH_DELTA = ("bm25l", "bm25+")
STOP_WORDS = (
    *("english", "english_plus", "chinese", "danish", "dutch", "french", "german", "italian", "korean"),
    *("norwegian", "portuguese", "russian", "spanish", "swedish", "turkish"),
)  # fmt: skip
"""The lists of bm25s."""
STEMMERS = (
    *("arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian", "italian"),
    *("norwegian", "porter", "portuguese", "romanian", "russian", "spanish", "swedish", "turkish"),
)  # fmt: skip
"""Algorithms of Snowball (package PyStemmer)."""
POOLINGS = ("mean", "cls")
VECTOR_DTYPES = ("float32", "float16")
PACKAGE = "package:"
CODES = ("float16", "int8")


@dataclass(frozen=True)
class Bm25Settings:
    """BM25: a `variant` of bm25s with its `k1` and `b`, and with `delta` if it is one of `WITH_DELTA`.

    Tokens that are `stop_words` of a language do not count; then the others are stemmed by the `stemmer` of a language.
    """

    k1: float = 1.5
    b: float = 0.75
    variant: str = "lucene"
    delta: float = 0.5
    stop_words: str | None = None
    stemmer: str | None = None


@dataclass(frozen=True)
class IvfPq:
    """Vectors in `nlist` lists by the nearest of as many centres, of which a question looks at `nprobe`; a vector is
    stored as `sub_vectors` codes of `bits` bits (faiss's IVF-PQ). None: what suits the number of passages and of
    dimensions. The codes choose `refine_factor` times as many candidates as passages are wanted; the vectors
    themselves rank these."""

    nlist: int | None = None
    nprobe: int | None = None
    sub_vectors: int | None = None
    bits: int = 8
    refine_factor: int = 4


@dataclass(frozen=True)
class Hnsw:
    """Graphs of neighbours, one for each 250,000 passages (faiss's HNSW): each vector has `links` neighbours (twice as
    many in the lowest level), which are chosen from `ef_construction` candidates; a question keeps `ef_search`. The
    graphs hold the vectors, as `codes`; the vectors themselves rank what is found."""

    links: int = 32
    ef_construction: int = 80
    ef_search: int = 128
    codes: str = "float16"


SEARCH_KEYS = ("nprobe", "refine_factor", "ef_search")
"""Settings of `IvfPq` and `Hnsw` that only a search reads: no stored index depends on them."""
SEARCHES: dict[str, type[IvfPq] | type[Hnsw] | None] = {"exact": None, "ivf_pq": IvfPq, "hnsw": Hnsw}


@dataclass(frozen=True)
class EncoderSettings:
    """A text encoder of transformers or sentence-transformers.

    `path` is a folder (relative to the study file, in `study_folder`), a hub id (at `revision`), or
    `package:<package>/<folder>` for one that an installed Python package carries. With `query_path` (at
    `query_revision`) questions have an encoder of their own, as in DPR; `path` then encodes passages alone, and all
    other settings hold for both. A text's vector is the mean over its tokens or that of its first token (`pooling`).
    With `normalise` it has unit length, so that scores are cosines; otherwise they are dot products. The prefixes stand
    before each question and each passage. Texts are cut at `max_tokens`; None: at what the encoder reads. Vectors are
    stored in `dtype`; with float16 a GPU also computes in it, and a CPU in float32. `device` is a torch device or
    `auto`; None: the study's. A batch has at most `batch_tokens`; None: what suits the device. Search is exact unless
    `search` says otherwise.
    """

    path: str
    revision: str | None = None
    pooling: str = "mean"
    normalise: bool = True
    query_prefix: str = ""
    passage_prefix: str = ""
    max_tokens: int | None = None
    dtype: str = "float32"
    device: str | None = None
    batch_tokens: int | None = None
    search: IvfPq | Hnsw | None = None
    query_path: str | None = None
    query_revision: str | None = None
    study_folder: Path | None = field(default=None, compare=False)

    @property
    def of_queries(self) -> EncoderSettings:
        """Those of the encoder of questions alone."""
        if self.query_path is None:
            return self
        return replace(
            self, path=self.query_path, revision=self.query_revision, query_path=None, query_revision=None
        )
