"""The settings of a text encoder and of the search by its vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from longtail.study.parts import Part
from longtail.study.values import Default, Flag, Reading, Text, fail, one_of, whole

POOLINGS = ("mean", "cls")
VECTOR_DTYPES = ("float32", "float16")
PACKAGE = "package:"


@dataclass(frozen=True)
class IvfPq(Part):
    """faiss's IVF-PQ: lists of vectors by the nearest of as many centres, and codes in place of vectors. None: what
    suits the number of passages and of dimensions."""

    nlist: Annotated[Annotated[int, whole(1, 1 << 24)] | None, Default("by size")] = None
    """lists"""
    nprobe: Annotated[Annotated[int, whole(1, 1 << 24)] | None, Default("by size")] = None
    """lists that a question looks at"""
    sub_vectors: Annotated[Annotated[int, whole(1, 4_096)] | None, Default("by size")] = None
    """codes of a vector"""
    bits: Annotated[int, whole(4, 12)] = 8
    """of a code"""
    refine_factor: Annotated[int, whole(1, 1_000)] = 4
    """candidates for each wanted passage, which the stored vectors rank"""


SEARCH_KEYS = ("nprobe", "refine_factor")
"""Settings of `IvfPq` that only a search reads: no stored index depends on them."""
SEARCHES: dict[str, type[IvfPq] | None] = {"exact": None, "ivf_pq": IvfPq}


@dataclass(frozen=True)
class EncoderSettings(Part):
    """A text encoder of transformers or sentence-transformers.

    A relative `path` is relative to the study file, in `study_folder`. With `query_path` all other settings hold for both
    encoders. A text's vector is the mean over its tokens or that of its first token (`pooling`). With `normalise` it has
    unit length, so that scores are cosines. With `dtype` float16 a GPU also computes in it, and a CPU in float32.
    """

    path: Text
    """the encoder: a folder, a hub id (told apart as for [models](#models)), or `package:<package>/<folder>`"""
    revision: Annotated[Text | None, Default("newest")] = None
    """of a hub id"""
    query_path: Annotated[Text | None, Default("`path`")] = None
    """another encoder for questions, as in DPR"""
    query_revision: Annotated[Text | None, Default("newest")] = None
    """of a hub id"""
    pooling: Annotated[str, one_of(POOLINGS)] = "mean"
    """or `cls`"""
    normalise: Flag = True
    """cosines; false: dot products"""
    query_prefix: Text = ""
    """stands before every question"""
    passage_prefix: Text = ""
    """stands before every passage"""
    max_tokens: Annotated[Annotated[int, whole(4, 100_000)] | None, Default("the encoder's")] = None
    """texts are cut there"""
    dtype: Annotated[str, one_of(VECTOR_DTYPES)] = "float32"
    """of the stored vectors; or `float16`"""
    device: Annotated[Text | None, Default("the study's")] = None
    """a torch device"""
    batch_tokens: Annotated[Annotated[int, whole(64)] | None, Default("by device")] = None
    """the largest number of tokens in a batch"""
    search: Annotated[IvfPq | None, Default("exact")] = None
    """or `ivf_pq`: approximate"""
    study_folder: Path | None = field(default=None, compare=False)
    left_out = ("study_folder",)
    chosen_by = "search"
    holder = "search"

    @classmethod
    def choices(cls) -> Sequence[str]:
        return tuple(SEARCHES)

    @classmethod
    def further_keys(cls, choice: str) -> type[Part] | None:
        return SEARCHES[choice]

    @classmethod
    def expand(cls, raw: Mapping[str, Any], reading: Reading) -> Mapping[str, Any]:
        if "query_revision" in raw and "query_path" not in raw:
            raise fail("query_revision", "goes with query_path")
        return {key: value for key, value in raw.items() if value is not None or not key.endswith("_prefix")}

    @property
    def of_queries(self) -> EncoderSettings:
        """Those of the encoder of questions alone."""
        if self.query_path is None:
            return self
        return replace(
            self, path=self.query_path, revision=self.query_revision, query_path=None, query_revision=None
        )
