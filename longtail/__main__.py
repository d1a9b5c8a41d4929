"""The command `longtail`, which `make` calls too: run a study, and look at what it found.

An option sets the variable of its name, which the programs (`longtail.commands`) read.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from longtail.errors import LongtailError
from longtail.needs import install_command
from longtail.processes import supervised
from longtail.storage.home import PROJECT_ROOT, keep_caches

_NO_TELEMETRY = (
    ("DAGSTER_DISABLE_TELEMETRY", "1"),
    ("DBT_SEND_ANONYMOUS_USAGE_STATS", "false"),
    ("DO_NOT_TRACK", "1"),
)
_OPTIONS = {
    "LONGTAIL_STUDY": ((), "a study file (default: the sandbox's study)"),
    "LONGTAIL_HOME": (("--home",), "the folder of all state"),
    "LONGTAIL_LIMIT": (("--limit",), "ask at most so many questions, in a home of their own"),
    "LONGTAIL_PREPARE": (("--prepare",), "stop before the models: `longtail generate` asks them elsewhere"),
    "LONGTAIL_PUBLISH_FEWER": (
        ("--publish-fewer",),
        "publish also what has fewer answers than before, though the study file does not ask for fewer",
    ),
    "LONGTAIL_SHARD": (("--shard",), "such as 2/4: compute the second of four parts, the others elsewhere"),
    "LONGTAIL_MERGE": (
        ("--merge",),
        "first add the results in other machines' folders row_cache, with : between them",
    ),
    "REMOVE": (("--remove",), "what to remove, such as indexes,build; without it, nothing is removed"),
    "PORT": (("--port",), "the port of the server"),
    "Q": (
        ("-c", "--query"),
        "a query, which may also stand alone; without one, they come from the terminal or a pipe",
    ),
    "FORMAT": (("--format",), "box, csv, json, markdown, or another of DuckDB's formats"),
    "A": ((), "a home, a published warehouse, or a kept version of one"),
    "B": ((), "another, whose differences from A are shown"),
    "OUTPUT": (("--output",), "the folder of page and table (default: the present one)"),
}
"""What each variable means, with the options that set it; a study needs none."""
_STUDY = ("LONGTAIL_STUDY", "LONGTAIL_HOME", "LONGTAIL_LIMIT")
_SWITCHES = ("LONGTAIL_PREPARE", "LONGTAIL_PUBLISH_FEWER")
"""Variables whose options take no value."""
_COMMANDS = {
    "run": (
        "materialise a study, build and test its warehouse, publish it",
        (*_STUDY, "LONGTAIL_PREPARE", "LONGTAIL_PUBLISH_FEWER"),
    ),
    "generate": (
        "ask the models of a prepared study; needs neither Dagster nor dbt",
        (*_STUDY, "LONGTAIL_SHARD", "LONGTAIL_MERGE"),
    ),
    "plan": ("say what a run of a study would still do, and compute nothing", _STUDY),
    "doctor": ("say what this machine has, and what a study still needs", _STUDY),
    "clean-up": (
        "say what takes room in a study's home, and remove what can be made again",
        (*_STUDY, "REMOVE"),
    ),
    "ui": ("serve Dagster's webserver and daemon on 127.0.0.1", (*_STUDY, "PORT")),
    "sql": ("query the published warehouse in DuckDB's shell, read-only", (*_STUDY, "Q", "FORMAT")),
    "router": ("serve the published routers over HTTP on 127.0.0.1", (*_STUDY, "PORT")),
    "compare": (
        "set two studies, or two versions of one, side by side: a page and a table",
        ("A", "B", "OUTPUT"),
    ),
    "check": ("check dbt, SQL and definitions: in a clone, with the development packages", ()),
}


_RESUMED, _SERVERS = ("run", "generate"), ("ui", "router")
_RESUMES = "; finished rows are kept, the same command continues from here"


class _OneLine(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}; `{self.prog} --help` lists what it takes\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code. That of the command line, without `arguments`, runs in a child process."""
    chosen = vars(_parser().parse_args(arguments))
    command = chosen.pop("command")
    if command == "sql" and not chosen["Q"] and _is_query(chosen["LONGTAIL_STUDY"] or ""):
        chosen["Q"], chosen["LONGTAIL_STUDY"] = chosen["LONGTAIL_STUDY"], None
    os.environ.update({name: value for name, value in chosen.items() if value is not None})
    for name, value in _NO_TELEMETRY:
        os.environ.setdefault(name, value)
    if arguments is not None:
        return _start(command)
    with suppress(LongtailError):  # which the program reports
        keep_caches()
    return supervised(
        lambda: _start(command),
        f"stopped{_RESUMES if command in _RESUMED else ''}",
        serves=command in _SERVERS,
        takes_interrupts=command == "sql" and sys.stdin.isatty() and not os.environ.get("Q"),
    )


def _start(command: str) -> int:
    try:
        program = import_module(f"longtail.commands.{command.replace('-', '_')}")
    except ModuleNotFoundError as error:
        sys.exit(f"error: package {error.name} is not installed; run: {install_command('[platform]')}")
    return int(program.main())


def _is_query(argument: str) -> bool:
    """Whether the first argument of `longtail sql` is a query, and no study file."""
    return (
        len(argument.split()) > 1 and not argument.endswith((".yaml", ".yml")) and not Path(argument).exists()
    )


def _parser() -> argparse.ArgumentParser:
    parser = _OneLine(
        "longtail", epilog=f"Studies, and the project of dbt: {PROJECT_ROOT}", allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for command, (what, variables) in _COMMANDS.items():
        one = commands.add_parser(command, help=what, description=what, allow_abbrev=False)
        for variable in variables:
            flags, meaning = _OPTIONS[variable]
            said = f"{meaning} [${variable}]"
            if variable in _SWITCHES:
                one.add_argument(*flags, dest=variable, action="store_const", const="1", help=said)
            elif flags:
                one.add_argument(*flags, dest=variable, metavar=flags[-1].strip("-").upper(), help=said)
            else:
                one.add_argument(variable, nargs="?", metavar=variable.removeprefix("LONGTAIL_"), help=said)
    return parser


if __name__ == "__main__":
    sys.exit(main())
