"""What dbt does again and again within one run, done once: two fifths of its time on a small lake.

What belongs here: work of dbt whose result is the same each time. What does not: anything that changes what dbt does.
The platform's own process of dbt does all of it (`core.warehouse.dbt_process`), as its tests and the journeys show.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from typing import Any

import parsedatetime
import pytest
from dbt.adapters.base.impl import BaseAdapter
from dbt.clients.jinja import MacroGenerator
from dbt.context.macros import MacroNamespace, MacroNamespaceBuilder
from dbt.contracts.graph.manifest import Manifest
from dbt.contracts.graph.nodes import Macro
from dbt_common.events.base_types import BaseEvent
from dbt_common.events.event_manager import EventManager
from jinja2 import Environment

_build_namespace = MacroNamespaceBuilder.build_namespace
_compile = Environment.compile
_compiled: dict[tuple[type[Environment], str], Any] = {}


class _Namespace(dict[str, Any], MacroNamespace):  # type: ignore[misc]
    """Macros by name, as dbt's own class finds them, in one table."""


def spare(patch: pytest.MonkeyPatch, manifest: Manifest | None) -> None:
    """As long as `patch` lasts: no event is made, and nothing that each node needs is made for each node.

    What fails is in dbt's result: nobody reads the twenty thousand events of a build.
    """
    patch.setattr(BaseEvent, "__init__", _ignore)
    patch.setattr(EventManager, "fire_event", _ignore)
    patch.setattr(Environment, "compile", _compile_once)
    patch.setattr(parsedatetime, "Constants", functools.cache(parsedatetime.Constants))
    if manifest:  # else dbt parses, and finds more and more macros
        patch.setattr(MacroNamespaceBuilder, "build_namespace", _namespaces_by_pattern())
        patch.setattr(BaseAdapter, "set_macro_context_generator", _set_generator)


def _ignore(*_args: object, **_options: object) -> None: ...


def _compile_once(self: Environment, source: Any, *args: Any, **options: Any) -> Any:
    if args or options or not isinstance(source, str):
        return _compile(self, source, *args, **options)
    key = type(self), source
    if key not in _compiled:
        _compiled[key] = _compile(self, source)
    return _compiled[key]


def _set_generator(self: BaseAdapter, generator: Any) -> None:
    """One context for all calls of a macro within a thread; dbt makes one for each call."""
    made: dict[tuple[int, str, str | None], dict[str, Any]] = {}

    def context(macro: Macro, config: Any, manifest: Any, package: str | None) -> dict[str, Any]:
        key = threading.get_ident(), macro.unique_id, package
        if key not in made:
            made[key] = generator(macro, config, manifest, package)
        return made[key]

    self._macro_context_generator = context


def _namespaces_by_pattern() -> Any:
    """`build_namespace`, which sorts the macros for the first context of a package, and binds them for each."""
    patterns: dict[str, MacroNamespace] = {}

    def build(
        self: MacroNamespaceBuilder, macros: Mapping[str, Mapping[str, Macro]], ctx: dict[str, Any]
    ) -> MacroNamespace:
        if self.search_package not in patterns:
            patterns[self.search_package] = _build_namespace(self, macros, ctx)
        pattern = patterns[self.search_package]

        def bound(found: Any) -> Any:
            if isinstance(found, dict):
                return {name: bound(one) for name, one in found.items()}
            made = object.__new__(MacroGenerator)
            made.context, made.macro, made.node, made.stack = ctx, found.macro, self.node, self.thread_ctx
            return made

        of_dbt, packages = bound(pattern.global_project_namespace), bound(pattern.packages)
        namespace = _Namespace({**of_dbt, "dbt": of_dbt, **packages, **bound(pattern.global_namespace)})
        namespace.update(bound(pattern.local_namespace))
        namespace.global_project_namespace, namespace.packages = of_dbt, packages
        return namespace

    return build
