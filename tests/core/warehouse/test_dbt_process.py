"""dbt's own process writes the lines that dbt would write, and makes nothing of events that no log shows."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import pytest
from dbt_common.events import event_manager, logger
from dbt_common.events.base_types import EventLevel, EventMsg, msg_from_base_event
from dbt_common.events.event_manager import EventManager
from dbt_common.events.types import Note, PrintEvent
from dbt_common.exceptions.events import EventCompilationError

from dagster_project.core.warehouse.dbt_process import fire_shown_event


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


def test_a_warning_that_the_user_makes_an_error_is_one() -> None:
    manager, _ = manager_of("error")
    manager.warn_error = True
    with pytest.raises(EventCompilationError, match="a doubt"):
        fire_shown_event(manager, Note(msg="a doubt"), EventLevel.WARN, force_warn_or_error_handling=True)
