"""What a study chooses by name: each module of one folder declares a record, and the folder is the list of them."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from collections import UserDict
from collections.abc import Mapping
from typing import TypeVar

from longtail.errors import LongtailError

Record = TypeVar("Record")


def modules_of(package: str) -> dict[str, str]:
    """The modules directly in a package: name in the package → dotted name. None of them is imported."""
    found = importlib.util.find_spec(package)
    folders = found.submodule_search_locations if found else None
    return {module.name: f"{package}.{module.name}" for module in pkgutil.iter_modules(folders or [])}


def about(module: str) -> str:
    """The first paragraph of a module's docstring, in one line."""
    text = importlib.import_module(module).__doc__ or ""
    return " ".join(text.split("\n\n")[0].split())


class Listed(UserDict[str, Record]):
    """The records that the modules of `package` declare as `attribute`, by the modules' names, behind `built_in` ones.

    The modules are imported when the first record is looked up. Errors: `LongtailError` if a record has another name.
    """

    def __init__(self, package: str, attribute: str, built_in: Mapping[str, Record] | None = None) -> None:
        self.package, self._attribute, self._built_in = package, attribute, built_in or {}

    @functools.cached_property
    def data(self) -> dict[str, Record]:  # type: ignore[override]
        found = dict(self._built_in)
        for name, module in modules_of(self.package).items():
            record = getattr(importlib.import_module(module), self._attribute)
            if getattr(record, "name", name) != name:
                raise LongtailError(f"{module}: its {self._attribute} is named {record.name!r}, not {name!r}")
            found[name] = record
        return found
