"""The parts of docs/study_file.md that list what a study chooses by name: `python -m longtail.study.page`.

A part stands between two marks, `<!-- <name> -->` and `<!-- end -->`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from longtail.errors import StudyError
from longtail.listed import about
from longtail.methods import METHODS
from longtail.storage.home import PROJECT_ROOT
from longtail.study.backends import BACKENDS
from longtail.study.imports import FORMATS, load_format
from longtail.study.reader import Reader

PAGE = PROJECT_ROOT / "docs/study_file.md"


def page(text: str) -> str:
    """The page with its parts written anew."""
    for name, rows in PARTS.items():
        before, mark, rest = text.partition(f"<!-- {name} -->\n")
        after = rest[rest.index("<!-- end -->") :]
        made = "\n".join(rows()).strip("\n")
        text = f"{before}{mark}\n{made}\n\n{after}"
    return text


def _formats() -> Iterator[str]:
    yield from _table("for", "format", "what it holds", "its own keys")
    for kind, modules in FORMATS.items():
        for name, module in modules.items():
            keys = (_with_default(key, read) for key, read in load_format(kind, name).keys.items())
            yield _row(kind, f"`{name}`", about(module), ", ".join(keys))


def _with_default(key: str, read: Callable[[Reader, str], Any]) -> str:
    """A key of a format, with the default that its reader gives."""
    try:
        default = read(Reader(Path(), "", {}), key)
    except StudyError:  # it must be given
        default = None
    return f"`{key}` ({default})" if default else f"`{key}`"


def _methods() -> Iterator[str]:
    yield from _table("method", "how it asks")
    for name, method in METHODS.items():
        yield _row(f"`{name}`", method.description)


def _retrievers() -> Iterator[str]:
    settings = {f"kind: {name}": type(method.settings) for name, method in METHODS.items() if method.read}
    for title, own in settings.items():
        yield from (f"`{title}`:", "", *_keys(own), "")
        for one in dataclasses.fields(own):
            for name, kind in (one.metadata.get("kinds") or {}).items():
                if kind:
                    yield from (f"`{one.name}: {name}`:", "", *_keys(kind), "")


def _backends() -> Iterator[str]:
    yield from _table("backend", "what answers", "the keys that it understands of those that some do not")
    for name, backend in BACKENDS.items():
        keys = ", ".join(f"`{key}`" for key in sorted(backend.keys))
        yield _row(f"`{name}`", about(BACKENDS.modules[name]), keys)


def _keys(settings: type[Any]) -> Iterator[str]:
    yield from _table("key", "default", "meaning")
    for one in dataclasses.fields(settings):
        if one.metadata:
            told = one.metadata["told"] or _default(one.default)
            yield _row(f"`{one.name}`", told, one.metadata["meaning"])


def _default(value: object) -> str:
    if value is dataclasses.MISSING:
        return ""
    return "none" if value in (None, "") else str(value).lower() if isinstance(value, bool) else str(value)


def _table(*titles: str) -> tuple[str, str]:
    return _row(*titles), "|" + "---|" * len(titles)


def _row(*cells: str) -> str:
    return "".join(f"| {cell.replace('|', chr(92) + '|')} " if cell else "| " for cell in cells) + "|"


PARTS = {"formats": _formats, "methods": _methods, "retrievers": _retrievers, "backends": _backends}
"""Name of a part → its lines."""

if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
