"""dbt's own process writes the lines that dbt would write, finds the macros that dbt would find, and does less for it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import pytest
from dbt.clients.jinja import MacroGenerator, MacroStack
from dbt.context.macros import MacroNamespace, MacroNamespaceBuilder
from dbt.contracts.graph.nodes import Macro
from dbt.node_types import NodeType
from dbt_common.events import event_manager, logger
from dbt_common.events.base_types import BaseEvent, EventLevel, EventMsg, msg_from_base_event
from dbt_common.events.event_manager import EventManager
from dbt_common.events.types import Note, PrintEvent
from dbt_common.exceptions.events import EventCompilationError

from longtail.warehouse.dbt_process import (
    MacrosByPackage,
    fire_shown_event,
    keep_values,
    read_event,
    shared_work,
)


def manager_of(shown: str) -> tuple[EventManager, io.StringIO]:
    """A manager whose one log shows events from that level on, and what the log has written."""
    stream = io.StringIO()
    line_format = logger.LineFormat.Json
    manager = EventManager()
    manager.add_logger(
        logger.LoggerConfig(
            name="lines", level=EventLevel(shown), line_format=line_format, output_stream=stream
        )
    )
    return manager, stream


def lines(shown: str, fire: Callable[..., None]) -> list[str]:
    """What a log of that level writes of an event of each level, and of a printed one: levels and texts."""
    manager, stream = manager_of(shown)
    for level in EventLevel:
        fire(manager, Note(msg=level.value), level)
        fire(manager, Note(msg=f"named {level.value}"), level=level)
    fire(manager, Note(msg="of its own level"))
    fire(manager, PrintEvent(msg="printed"))
    said = [json.loads(line)["info"] for line in stream.getvalue().splitlines()]
    return [f"{one['level']}: {one['msg']}" for one in said]


@pytest.mark.parametrize(("shown", "n"), [("debug", 12), ("info", 8), ("warn", 5), ("error", 3)])
def test_the_lines_that_dbt_would_write_are_written(shown: str, n: int) -> None:
    written = lines(shown, fire_shown_event)
    assert written == lines(shown, EventManager.fire_event)
    assert len(written) == n
    assert written[-1] == "info: printed"


def test_no_message_is_made_of_an_event_for_debugging_that_is_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []

    def make(event: Note, level: EventLevel | None = None) -> EventMsg:
        made.append(event.pb_msg.msg)
        return msg_from_base_event(event, level)

    monkeypatch.setattr(event_manager, "msg_from_base_event", make)
    lines("info", fire_shown_event)
    assert made == [
        "info",
        "named info",
        "warn",
        "named warn",
        "error",
        "named error",
        "of its own level",
        "printed",
    ]


def test_the_message_of_an_event_is_made_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Note(msg="said").to_dict()
    made = []
    message_of = Note.PROTO_TYPES_MODULE.Note
    monkeypatch.setattr(Note.PROTO_TYPES_MODULE, "Note", lambda: made.append("note") or message_of())
    monkeypatch.setattr(BaseEvent, "__init__", keep_values)
    monkeypatch.setattr(BaseEvent, "__getattr__", read_event)
    event = Note(msg="said")
    assert made == []
    assert (event.msg, event.to_dict(), event.pb_msg.msg) == ("said", plain, "said")
    assert made == ["note"]
    with pytest.raises(AttributeError):
        _ = event.unknown


def test_a_warning_that_the_user_makes_an_error_is_one() -> None:
    manager, _ = manager_of("error")
    manager.warn_error = True
    with pytest.raises(EventCompilationError, match="a doubt"):
        fire_shown_event(manager, Note(msg="a doubt"), EventLevel.WARN, force_warn_or_error_handling=True)


def macro_of(package: str, name: str) -> Macro:
    where = f"macros/{name}.sql"
    return Macro(
        name=name,
        resource_type=NodeType.Macro,
        package_name=package,
        path=where,
        original_file_path=where,
        unique_id=f"macro.{package}.{name}",
        macro_sql=f"{{% macro {name}() %}}{package}{{% endmacro %}}",
    )


def found_in(namespace: MacroNamespace) -> dict[str, object]:
    """What stands behind each name: a macro, or the macros of a package."""
    return {
        name: found.macro if isinstance(found, MacroGenerator) else {one: found[one].macro for one in found}
        for name, found in ((name, namespace[name]) for name in namespace)
    }


def test_a_namespace_holds_what_dbts_own_holds_bound_to_its_own_node() -> None:
    names = {"project": ("a", "b"), "library": ("b", "c"), "dbt": ("c", "d"), "dbt_duckdb": ("d", "e")}
    macros: MacrosByPackage = {
        package: {name: macro_of(package, name) for name in of} for package, of in names.items()
    }
    made = next(replacement for _, name, replacement in shared_work() if name == "build_namespace")

    def namespaces(search: str) -> tuple[MacroNamespace, MacroNamespace]:
        """dbt's, and ours, of a new node."""
        builders = [
            MacroNamespaceBuilder("project", search, MacroStack(), ["dbt_duckdb", "dbt"], object())
            for _ in "ab"
        ]
        context = {"of": object()}
        ours = made(builders[1], macros, context)
        for bound in (ours["d"], ours["library"]["c"]):
            assert bound.context is context
            assert (bound.node, bound.stack) == (builders[1].node, builders[1].thread_ctx)
        return builders[0].build_namespace(macros, context), ours

    for search in ("project", "library", "project", "library"):
        theirs, ours = namespaces(search)
        assert found_in(ours) == found_in(theirs)
        for package, name in ((None, "b"), ("dbt", "d"), ("library", "b"), ("project", "z")):
            bound, expected = ours.get_from_package(package, name), theirs.get_from_package(package, name)
            assert (bound and bound.macro) is (expected and expected.macro)
    macros["project"]["new"] = macro_of("project", "new")  # as while dbt parses
    theirs, ours = namespaces("project")
    assert found_in(ours) == found_in(theirs)
    assert "new" in ours
