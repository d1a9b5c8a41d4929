"""What `make run` says in the terminal."""

from __future__ import annotations

import logging

import pytest
import yaml

from dagster_project import run
from dagster_project.core.home import PROJECT_ROOT


@pytest.mark.parametrize(
    "name",
    [
        "longtail",
        "dagster_project.core.generation.local.devices",
        "dagster_project.core.generation.local.device_batches",
        "dagster_project.core.generation.service.asking",
        "dagster_project.core.wikimedia.http",
    ],
)
def test_the_terminal_shows_what_stages_and_their_modules_say(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    loggers = [logging.getLogger(one) for one in run._LOGGERS]
    before = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    run._listen()
    try:
        logging.getLogger(name).info("%s: waiting for a GPU", "tiny")
    finally:
        for logger, level, handlers in before:
            logger.setLevel(level)
            logger.handlers = handlers
    assert capsys.readouterr().out == "      tiny: waiting for a GPU\n"


def test_the_ui_shows_the_same_loggers() -> None:
    settings = yaml.safe_load((PROJECT_ROOT / "dagster.yaml").read_text(encoding="utf-8"))["python_logs"]
    assert settings["managed_python_loggers"] == list(run._LOGGERS)
