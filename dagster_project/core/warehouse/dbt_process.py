"""The process that dbt runs in: `python -m dagster_project.core.warehouse.dbt_process build` does what `dbt build` does.

What belongs here: what dbt itself does in vain. What does not: its environment and its arguments (`build`).

dbt makes a message and a line of every event, for Dagster in JSON, and only then drops those below the level that it
shows. For a small lake this takes a third of its time.
"""

from __future__ import annotations

import logging
from typing import Any

from dbt.cli.main import cli
from dbt_common.events.base_types import BaseEvent, EventLevel
from dbt_common.events.event_manager import EventManager

_SHOWN = {EventLevel.INFO, EventLevel.WARN, EventLevel.ERROR}
_fire_event = EventManager.fire_event


def fire_shown_event(
    self: EventManager, e: BaseEvent, level: EventLevel | None = None, *args: Any, **options: Any
) -> None:
    """Do what dbt does with an event, unless the event is for debugging and no log shows such events."""
    logs = (one._python_logger for one in self.loggers)
    if (level or e.level_tag()) in _SHOWN or any(log and log.isEnabledFor(logging.DEBUG) for log in logs):
        _fire_event(self, e, level, *args, **options)


if __name__ == "__main__":
    EventManager.fire_event = fire_shown_event  # type: ignore[method-assign]
    cli()
