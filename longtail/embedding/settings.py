"""The settings of a text encoder and of the search by its vectors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from longtail.methods import key

POOLINGS = ("mean", "cls")
VECTOR_DTYPES = ("float32", "float16")
PACKAGE = "package:"
CODES = ("float16", "int8")


@dataclass(frozen=True)
class IvfPq:
    """faiss's IVF-PQ: lists of vectors by the nearest of as many centres, and codes in place of vectors. None: what
    suits the number of passages and of dimensions."""

    nlist: int | None = key("lists", None, "by size")
    nprobe: int | None = key("lists that a question looks at", None, "by size")
    sub_vectors: int | None = key("codes of a vector", None, "by size")
    bits: int = key("of a code", 8)
    refine_factor: int = key("candidates for each wanted passage, which the stored vectors rank", 4)


@dataclass(frozen=True)
class Hnsw:
    """faiss's HNSW: graphs of neighbours, one for each 250,000 passages. They hold the vectors as `codes`; the vectors
    themselves rank what is found. The lowest level has twice as many `links`."""

    links: int = key("neighbours of a vector", 32)
    ef_construction: int = key("candidates while the graph is built", 80)
    ef_search: int = key("candidates of a question", 128)
    codes: str = key("or `int8`", "float16")


SEARCH_KEYS = ("nprobe", "refine_factor", "ef_search")
"""Settings of `IvfPq` and `Hnsw` that only a search reads: no stored index depends on them."""
SEARCHES: dict[str, type[IvfPq] | type[Hnsw] | None] = {"exact": None, "ivf_pq": IvfPq, "hnsw": Hnsw}


@dataclass(frozen=True)
class EncoderSettings:
    """A text encoder of transformers or sentence-transformers.

    A relative `path` is relative to the study file, in `study_folder`. With `query_path` all other settings hold for both
    encoders. A text's vector is the mean over its tokens or that of its first token (`pooling`). With `normalise` it has
    unit length, so that scores are cosines. With `dtype` float16 a GPU also computes in it, and a CPU in float32.
    """

    path: str = key(
        "the encoder: a folder, a hub id (told apart as for [models](#models)), or `package:<package>/<folder>`"
    )
    revision: str | None = key("", None, "newest")
    query_path: str | None = key("another encoder for questions, as in DPR", None, "`path`")
    query_revision: str | None = key("", None, "newest")
    pooling: str = key("or `cls`", "mean")
    normalise: bool = key("cosines; false: dot products", True)
    query_prefix: str = key("stands before every question", "")
    passage_prefix: str = key("stands before every passage", "")
    max_tokens: int | None = key("texts are cut there", None, "the encoder's")
    dtype: str = key("of the stored vectors; or `float16`", "float32")
    device: str | None = key("", None, "the study's")
    batch_tokens: int | None = key("the largest number of tokens in a batch", None, "by device")
    search: IvfPq | Hnsw | None = key("or `ivf_pq`, `hnsw`: approximate", None, "exact", kinds=SEARCHES)
    study_folder: Path | None = field(default=None, compare=False)

    @property
    def of_queries(self) -> EncoderSettings:
        """Those of the encoder of questions alone."""
        if self.query_path is None:
            return self
        return replace(
            self, path=self.query_path, revision=self.query_revision, query_path=None, query_revision=None
        )
