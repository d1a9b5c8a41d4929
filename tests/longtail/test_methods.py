"""The records of methods."""

from __future__ import annotations

from longtail.methods import METHODS, RETRIEVAL


def test_records_agree_with_themselves() -> None:
    for name, method in METHODS.items():
        assert name == method.name
        assert (method.kind == RETRIEVAL) == (method.retriever is not None) == (not method.is_parametric)
