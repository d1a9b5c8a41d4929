"""Reading key `retrievers` of study.yaml: built-in retrievers with settings of the study's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from dagster_project.core.methods import METHODS, Method
from dagster_project.core.study.reader import Reader


def read_retriever(read: Reader) -> Method:
    """One entry of `retrievers`: the record of a method that is like the built-in one named by `kind`.

    Errors: `StudyError`.
    """
    name = read.slug("name")
    if name in METHODS:
        raise read.fail("name", f"{name!r} is the name of a built-in method; choose another")
    readers = {method.name: method.read for method in METHODS.values() if method.read}
    like = METHODS[read.choice("kind", tuple(readers))]
    read.only("name", "kind", *_keys(read, type(like.settings)))
    told = ", ".join(f"{key}: {read.raw[key]}" for key in sorted(read.raw) if key not in ("name", "kind"))
    return dataclasses.replace(
        like,
        name=name,
        description=f"{like.description} ({told})" if told else like.description,
        settings=readers[like.name](read),
        is_default=False,
    )


def _keys(read: Reader, settings: type[Any]) -> Iterator[str]:
    """The keys of settings, and those that a chosen value brings."""
    for one in dataclasses.fields(settings):
        if one.metadata:
            yield one.name
        kinds = one.metadata.get("kinds")
        if kinds and (chosen := kinds[read.choice(one.name, tuple(kinds), next(iter(kinds)))]):
            yield from _keys(read, chosen)
