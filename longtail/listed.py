"""What a study chooses by name: a module for each name, of a folder of the project or of an installed package.

A package declares its modules as entry points: `[project.entry-points."longtail.retrievers"]`, then
`title = "my_package.title"`. No module is imported before it is looked up, and no entry point is read before that.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from collections import UserDict
from collections.abc import Mapping
from importlib.metadata import EntryPoints, entry_points
from typing import Any, TypeVar

from longtail.errors import LongtailError

Record = TypeVar("Record")


class ListedModules(UserDict[str, str]):
    """Name → module: those directly in `package`, and those of installed packages in `group` of entry points.

    With `kind`, only the entry points count whose name begins with it and a dot. Errors: `LongtailError` where two
    modules have one name.
    """

    def __init__(self, package: str, group: str, kind: str = "") -> None:
        self._package, self._group, self._prefix = package, group, f"{kind}." if kind else ""

    @functools.cached_property
    def data(self) -> dict[str, str]:  # type: ignore[override]
        spec = importlib.util.find_spec(self._package)
        folders = spec.submodule_search_locations if spec else None
        modules = {info.name: f"{self._package}.{info.name}" for info in pkgutil.iter_modules(folders or [])}
        for point in sorted(_entry_points(self._group)):
            if not point.name.startswith(self._prefix):
                continue
            name, package = point.name.removeprefix(self._prefix), point.dist.name if point.dist else "?"
            if modules.setdefault(name, point.module) != point.module:
                raise LongtailError(
                    f"{self._group}: two modules are named {name!r}: {modules[name]} and {point.module} of the "
                    f"installed package {package}; give one of them another name, or uninstall its package"
                )
        return modules


@functools.cache
def _entry_points(group: str) -> EntryPoints:
    return entry_points(group=group)


def about(module: str) -> str:
    """The first paragraph of a module's docstring, in one line."""
    text = importlib.import_module(module).__doc__ or ""
    return " ".join(text.split("\n\n")[0].split())


def load_record(module: str, attribute: str) -> Any:
    """What a listed module declares as `attribute`. Errors: `LongtailError` where it cannot be had."""
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise LongtailError(f"{module}: its {attribute} cannot be loaded ({error})") from error


class Listed(UserDict[str, Record]):
    """The records that `modules` declare as `attribute`, by the modules' names, behind `built_in` ones.

    The modules are imported when the first record is looked up. Errors: `LongtailError` if a record has another name.
    """

    def __init__(
        self, modules: ListedModules, attribute: str, built_in: Mapping[str, Record] | None = None
    ) -> None:
        self.modules, self._attribute, self._built_in = modules, attribute, built_in or {}

    @functools.cached_property
    def data(self) -> dict[str, Record]:  # type: ignore[override]
        records = dict(self._built_in)
        for name, module in self.modules.items():
            record = load_record(module, self._attribute)
            if getattr(record, "name", name) != name:
                raise LongtailError(f"{module}: its {self._attribute} is named {record.name!r}, not {name!r}")
            if name in self._built_in:
                raise LongtailError(f"{module}: {name!r} is the name of a built-in one; choose another")
            records[name] = record
        return records
