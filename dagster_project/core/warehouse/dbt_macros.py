"""The macros of dbt's contexts, collected with less work.

What belongs here: how dbt collects the names that a node's SQL can use. What does not: dbt's process (`dbt_process`).

dbt makes a context about three times per node, and each has all macros, some six hundred. It searches each of them in
five namespaces, one after the other. Here, all names are in one dictionary. What a name means is the same.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, KeysView, Mapping
from typing import Any

import parsedatetime
from dbt.clients.jinja import MacroGenerator
from dbt.context.macros import FlatNamespace, MacroNamespace, MacroNamespaceBuilder
from dbt.contracts.graph.nodes import Macro
from dbt.include.global_project import PROJECT_NAME


class FlatMacros(MacroNamespace):
    """dbt's namespace, whose order of search is settled once."""

    def __init__(self, **namespaces: Any) -> None:
        super().__init__(**namespaces)
        self._all: dict[str, Any] = {
            **self.global_project_namespace,
            PROJECT_NAME: self.global_project_namespace,
            **self.packages,
            **self.global_namespace,
            **self.local_namespace,
        }

    def keys(self) -> KeysView[str]:
        return self._all.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, key: str) -> Any:
        return self._all[key]


def build_namespace(
    self: MacroNamespaceBuilder, macros_by_package: Mapping[str, Mapping[str, Macro]], ctx: dict[str, Any]
) -> MacroNamespace:
    """The same as dbt's function of this name."""
    made = {name: _bound(self, macros, ctx) for name, macros in macros_by_package.items()}
    inner: FlatNamespace = {}
    for name in reversed(self.internal_package_names_order):  # the first of them win
        inner.update(made.get(name, {}))
    packages = {name: own for name, own in made.items() if name not in self.internal_package_names}
    is_of_root = self.search_package == self.root_package
    return FlatMacros(
        global_namespace={} if is_of_root else packages.get(self.root_package, {}),
        local_namespace=packages.get(self.search_package, {}),
        global_project_namespace=inner,
        packages=packages,
    )


def _bound(builder: MacroNamespaceBuilder, macros: Mapping[str, Macro], ctx: dict[str, Any]) -> FlatNamespace:
    """The macros of a package for one context.

    Their attributes are set here: a build makes nearly a million of them, each by three constructors of dbt.
    """
    new, node, stack = MacroGenerator.__new__, builder.node, builder.thread_ctx
    found: FlatNamespace = {}
    for macro in macros.values():
        found[macro.name] = one = new(MacroGenerator)
        one.context, one.macro, one.node, one.stack = ctx, macro, node, stack
    return found


def use_flat_macros() -> None:
    """Let dbt collect macros in this way, and make the constants of its dates once rather than for every result."""
    MacroNamespaceBuilder.build_namespace = build_namespace  # type: ignore[method-assign]
    parsedatetime.Constants = functools.cache(parsedatetime.Constants)
