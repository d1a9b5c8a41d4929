"""The process that dbt runs in: `python -m longtail.warehouse.dbt_process build` does what `dbt build` does.

dbt makes a message and a line of every event, for Dagster in JSON, and only then drops those below the level that it
shows. For a small lake this takes a third of its time. For each node it also binds all macros anew, and compiles
templates that it has compiled before. This takes a tenth of the rest. Python's garbage collector goes through the graph
again and again, although dbt needs it until its end.
"""

from __future__ import annotations

import functools
import gc
import logging
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import parsedatetime
from dbt.adapters.base.impl import BaseAdapter
from dbt.cli.main import cli
from dbt.clients.jinja import MacroGenerator
from dbt.context.macros import MacroNamespace, MacroNamespaceBuilder
from dbt.contracts.graph.nodes import Macro
from dbt_common.behavior_flags import BehaviorFlagRendered
from dbt_common.events.base_types import BaseEvent, EventLevel
from dbt_common.events.event_manager import EventManager
from jinja2 import Environment

from longtail.processes import end_with_parent
from longtail.storage.files import temporary_folder

_SHOWN = {EventLevel.INFO, EventLevel.WARN, EventLevel.ERROR}
_fire_event = EventManager.fire_event
_make_message = BaseEvent.__init__
_build_namespace = MacroNamespaceBuilder.build_namespace
_compile = Environment.compile
_source_of_flags = staticmethod(functools.cache(BehaviorFlagRendered._default_source))
"""Whose flags of dbt's behaviour these are. dbt looks through all modules for the caller, for each flag."""
_compiled: dict[tuple[type[Environment], str], Any] = {}

MacrosByPackage = dict[str, dict[str, Macro]]


class _Namespace(dict[str, Any], MacroNamespace):
    """Macros by name, as dbt's own class finds them, in one table."""


def shared_work() -> Iterator[tuple[object, str, Any]]:
    """Methods of dbt whose work is the same for many nodes (owner, name), and what does it once."""
    yield Environment, "compile", _compile_once
    yield parsedatetime, "Constants", functools.cache(parsedatetime.Constants)
    yield MacroNamespaceBuilder, "build_namespace", _namespaces_by_pattern()
    yield BaseAdapter, "set_macro_context_generator", _set_generator
    yield BehaviorFlagRendered, "_default_source", _source_of_flags


def fire_shown_event(
    self: EventManager, e: BaseEvent, level: EventLevel | None = None, *args: Any, **options: Any
) -> None:
    """Do what dbt does with an event, unless the event is for debugging and no log shows such events."""
    logs = (one._python_logger for one in self.loggers)
    if (level or e.level_tag()) in _SHOWN or any(log and log.isEnabledFor(logging.DEBUG) for log in logs):
        _fire_event(self, e, level, *args, **options)


def keep_values(self: BaseEvent, *args: Any, **values: Any) -> None:
    """The constructor of an event: its message is made when something first reads it."""
    self.__dict__["values"] = args, values


def read_event(self: BaseEvent, name: str) -> Any:
    """An attribute of an event, whose message is made now if nothing has read it before."""
    if "pb_msg" not in self.__dict__:
        args, values = self.__dict__.pop("values")
        _make_message(self, *args, **values)
    return self.pb_msg if name == "pb_msg" else getattr(self.pb_msg, name)


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

    def context(macro: Any, config: Any, manifest: Any, package: str | None) -> dict[str, Any]:
        key = threading.get_ident(), macro.unique_id, package
        if key not in made:
            made[key] = generator(macro, config, manifest, package)
        return made[key]

    self._macro_context_generator = context  # type: ignore[assignment]


def _namespaces_by_pattern() -> Any:
    """`build_namespace`, which sorts the macros into packages for the first context, and binds them for each.

    A pattern holds for as many macros as it was made of: while dbt parses, it finds more.
    """
    patterns: dict[str, tuple[MacrosByPackage, int, MacroNamespace]] = {}

    def build(self: MacroNamespaceBuilder, macros: MacrosByPackage, ctx: dict[str, Any]) -> MacroNamespace:
        n_macros = sum(map(len, macros.values()))
        of, n_sorted, pattern = patterns.get(self.search_package, (None, 0, None))
        if pattern is None or of is not macros or n_sorted != n_macros:
            pattern = _build_namespace(self, macros, ctx)
            patterns[self.search_package] = macros, n_macros, pattern

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


if __name__ == "__main__":
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # at once; dbt would wait for its queries
    gc.disable()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # for statistics: several parts at a time, each on one thread
    EventManager.fire_event = fire_shown_event  # type: ignore[method-assign]
    BaseEvent.__init__, BaseEvent.__getattr__ = keep_values, read_event  # type: ignore[method-assign]
    for owner, name, replacement in shared_work():
        setattr(owner, name, replacement)
    # dbt-duckdb writes each Python model to a temporary file, and Python keeps its compiled code beside it.
    with temporary_folder("dbt") as folder:
        tempfile.tempdir = str(folder)
        cli()
