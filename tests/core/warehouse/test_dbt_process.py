"""dbt's own process writes the lines that dbt would write, and makes no others."""

from __future__ import annotations

import io
import json

import pytest
from dbt_common.events import logger
from dbt_common.events.base_types import EventLevel, EventMsg, msg_from_base_event
from dbt_common.events.types import Note, PrintEvent

from dagster_project.core.warehouse import dbt_process

EVENTS = [
    *(msg_from_base_event(Note(msg=level.value), level=level) for level in EventLevel),
    msg_from_base_event(PrintEvent(msg="printed")),
]


def lines(shown: EventLevel, write: object) -> list[str]:
    """What a logger of that level writes of all events."""
    stream = io.StringIO()
    line_format = logger.LineFormat.Json
    config = logger.LoggerConfig(name="lines", level=shown, line_format=line_format, output_stream=stream)
    own = logger._JsonLogger(config)
    for event in EVENTS:
        write(own, event)  # type: ignore[operator]
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(("shown", "n"), [("debug", 6), ("info", 4), ("warn", 3), ("error", 2)])
def test_the_lines_that_dbt_would_write_are_written(shown: str, n: int) -> None:
    written = lines(EventLevel(shown), dbt_process.write_shown_line)
    assert written == lines(EventLevel(shown), logger._Logger.write_line)
    assert len(written) == n
    assert json.loads(written[-1])["info"]["msg"] == "printed"


def test_no_line_is_made_of_an_event_that_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def make(self: logger._Logger, msg: EventMsg) -> str:
        made.append(msg.info.msg)
        return ""

    monkeypatch.setattr(logger._JsonLogger, "create_line", make)
    lines(EventLevel("warn"), dbt_process.write_shown_line)
    assert sorted(made) == ["error", "printed", "warn"]
