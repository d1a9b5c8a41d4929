"""What is made of the parts of a study: study.schema.json for editors, and the tables of docs/study_file.md.

A table stands between two marks, `<!-- <name> -->` and `<!-- end -->`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator

from longtail.listed import about
from longtail.methods import METHODS
from longtail.study.backends import BACKENDS
from longtail.study.datasets import Dataset
from longtail.study.imports import (
    FORMATS,
    Collection,
    Counts,
    Decisions,
    Place,
    ReferenceQuestions,
    Results,
    TagMe,
    load_format,
)
from longtail.study.models import Embeddings, Model, Nli, Service
from longtail.study.parts import Part, json_schema, keys_of, meanings_of
from longtail.study.prompts import Grounding, PortraitOf, Prompt, Sampling
from longtail.study.source import FactSample, Popularity, Source
from longtail.study.study import QUESTIONS, SHORT_FORM, Study
from longtail.study.sweep import Sweep

FILE = "study.schema.json"


def schema_text() -> str:
    """The JSON schema of a study file, as study.schema.json holds it."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **json_schema(Study),
        "title": "A study of Longtail",
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def fill_tables(page: str) -> str:
    """The page with its tables written anew."""
    for name, rows in TABLES.items():
        before, mark, rest = page.partition(f"<!-- {name} -->\n")
        after = rest[rest.index("<!-- end -->") :]
        made = "\n".join(rows()).strip("\n")
        page = f"{before}{mark}\n{made}\n\n{after}"
    return page


def _keys(part: type[Part]) -> Iterator[str]:
    """A table of keys; those of a file, which many parts have, stand in a table of their own."""
    yield from _table("key", "default", "meaning")
    if part is Study:
        yield _row(f"`{QUESTIONS}`", "", SHORT_FORM)
    for holder in (part, *(inner for inner in part.inlined.values() if inner is not Place)):
        meanings = meanings_of(holder)
        for name, key in keys_of(holder).items():
            yield _row(f"`{name}`", key.default, meanings[name])


def _formats() -> Iterator[str]:
    yield from _table("for", "format", "what it holds", "its own keys")
    described: dict[tuple[str, str], list[str]] = {}
    for kind, modules in FORMATS.items():
        for name, module in modules.items():
            own_keys: type[Part] | None = load_format(kind, name).keys
            keys = keys_of(own_keys) if own_keys else {}
            cells = [f"`{key_name}` ({key.default})" for key_name, key in keys.items()]
            yield _row(
                kind,
                f"`{name}`",
                about(module),
                ", ".join(cells).replace(" (none)", "").replace(" (false)", ""),
            )
            for key_name, meaning in meanings_of(own_keys).items() if own_keys else ():
                described.setdefault((key_name, meaning), []).append(f"{name} ({kind})")
    yield ""
    yield from _table("key", "of", "meaning")
    for (key_name, meaning), formats in described.items():
        yield _row(f"`{key_name}`", ", ".join(formats), meaning)


def _methods() -> Iterator[str]:
    yield from _table("method", "how it asks")
    for name, method in METHODS.items():
        yield _row(f"`{name}`", method.description)


def _retrievers() -> Iterator[str]:
    settings = {name: type(method.settings) for name, method in METHODS.items() if method.settings}
    for name, part in settings.items():
        yield from (f"`kind: {name}`:", "", *_keys(part), "")
        for choice in part.choices():
            if further := part.further_keys(choice):
                yield from (f"`{part.chosen_by}: {choice}`:", "", *_keys(further), "")


def _backends() -> Iterator[str]:
    yield from _table("backend", "what answers", "the keys that it understands of those that some do not")
    for name, backend in BACKENDS.items():
        keys = ", ".join(f"`{key}`" for key in sorted(backend.keys))
        yield _row(f"`{name}`", about(BACKENDS.modules[name]), keys)


def _table(*titles: str) -> tuple[str, str]:
    return _row(*titles), "|" + "---|" * len(titles)


def _row(*cells: str) -> str:
    return "".join(f"| {cell.replace('|', chr(92) + '|')} " if cell else "| " for cell in cells) + "|"


PARTS: dict[str, type[Part]] = {
    "study": Study,
    "source": Source,
    "source.sample": FactSample,
    "datasets": Dataset,
    "file": Place,
    "prompts": Prompt,
    "sampling": Sampling,
    "models": Model,
    "service": Service,
    "results": Results,
    "popularity": Popularity,
    "embeddings": Embeddings,
    "nli": Nli,
    "collections": Collection,
    "counts": Counts,
    "decisions": Decisions,
    "grounding": Grounding,
    "portrait": PortraitOf,
    "sweep": Sweep,
    "reference_questions": ReferenceQuestions,
    "tagme": TagMe,
}
"""Name of a table of keys → the part that has them."""
TABLES: dict[str, Callable[[], Iterator[str]]] = {
    **{name: functools.partial(_keys, part) for name, part in PARTS.items()},
    "formats": _formats,
    "methods": _methods,
    "retrievers": _retrievers,
    "backends": _backends,
}
"""Name of a table → its lines."""
