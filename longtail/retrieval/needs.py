"""What a study's retrievers need: the libraries of their indexes, and what they load themselves."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from longtail.needs import Need, check_package
from longtail.retrieval.base import load_retriever
from longtail.study.study import Study

_INSTALL = {"faiss": "[faiss-cpu]"}


def needs_of_retrievers(study: Study) -> Iterator[Need]:
    """What the methods that retrieve need; a study of imported answers searches nothing."""
    if not any(model.generates for model in study.models):
        return
    for name in study.retrieval_methods:
        method = study.method(name)
        where, index = f"methods: {name}", method.index
        if index is not None:
            yield Need(where, partial(check_package, index, _INSTALL.get(index, index)))
        yield Need(where, load_retriever(method).check)
