"""The arguments of the programs behind `make`: none but `--help`.

What belongs here: what `--help` prints, and the line for anything else. What does not: the variables that choose what a
program works on (`storage.home`, `ports`), and `sql`, whose arguments are a query.
"""

from __future__ import annotations

import argparse
from typing import NoReturn

CHOSEN_BY = (
    "Variables choose what it works on: LONGTAIL_STUDY names a study file (default: the project's study.yaml), "
    "LONGTAIL_QUICK=1 asks at most 150 questions, LONGTAIL_HOME names the folder of all state (default: the project's "
    "data), PORT the port of a server."
)


class _OneLine(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(
            2, f"error: {message}; variables choose the study: LONGTAIL_STUDY=<file> (--help lists them)\n"
        )


def take_none(module: str, doc: str | None) -> None:
    """End with one line if the program was given arguments; `--help` prints the first line of `doc` and the variables."""
    _OneLine(
        prog=f"python -m dagster_project.{module}",
        description=(doc or "").partition("\n")[0],
        epilog=CHOSEN_BY,
        allow_abbrev=False,
    ).parse_args()
