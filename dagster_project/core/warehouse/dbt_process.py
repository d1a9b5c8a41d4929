"""The process that dbt runs in: `python -m dagster_project.core.warehouse.dbt_process build` does what `dbt build` does.

What belongs here: what dbt itself does in vain. What does not: its environment and its arguments (`build`).

dbt makes a line of every event, for Dagster in JSON, and only then drops the lines below the level that it shows. For a
small lake this takes a third of its time.
"""

from __future__ import annotations

import logging

from dbt.cli.main import cli
from dbt_common.events import logger
from dbt_common.events.base_types import EventMsg

_LEVELS = {"error": logging.ERROR, "warn": logging.WARNING, "info": logging.INFO}
_write_line = logger._Logger.write_line


def write_shown_line(self: logger._Logger, msg: EventMsg) -> None:
    """Write the line of an event if it is shown."""
    level = _LEVELS.get(msg.info.level, logging.DEBUG)
    is_shown = self._python_logger is None or self._python_logger.isEnabledFor(level)
    if is_shown or logger._is_print_event(msg):
        _write_line(self, msg)


if __name__ == "__main__":
    logger._Logger.write_line = write_shown_line  # type: ignore[method-assign]
    cli()
