"""The command `longtail`, which `make` calls too: run a study, and look at what it found.

Each command is a function `main` of a module in `longtail.commands`. An option is a parameter of it; home, study and what
operators set are variables of the environment, which an option sets too.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from longtail.errors import LongtailError
from longtail.needs import install_command
from longtail.processes import supervise
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
    "LONGTAIL_PUBLISH_FEWER": (
        ("--publish-fewer",),
        "publish also what has fewer answers than before, though the study file does not ask for fewer",
    ),
    "prepare": (("--prepare",), "stop before the models: `longtail generate` asks them elsewhere"),
    "shard": (("--shard",), "such as 2/4: compute the second of four parts, the others elsewhere"),
    "merge": (
        ("--merge",),
        "first add the results in other machines' folders row_cache, with : between them",
    ),
    "remove": (("--remove",), "what to remove, such as indexes,build; without it, nothing is removed"),
    "port": (("--port",), "the port of the server"),
    "query": (
        ("-c", "--query"),
        "a query, which may also stand alone; without one, they come from the terminal or a pipe",
    ),
    "form": (("--format",), "box, csv, json, markdown, or another of DuckDB's formats"),
    "a": ((), "a home, a published warehouse, or a kept version of one"),
    "b": ((), "another, whose differences from A are shown"),
    "output": (("--output",), "the folder of page and table (default: the present one)"),
}
"""Each option: the parameter of the command's function, or in capitals a variable, which child processes read too."""
_STUDY = ("LONGTAIL_STUDY", "LONGTAIL_HOME", "LONGTAIL_LIMIT")
_SWITCHES: dict[str, object] = {"prepare": True, "LONGTAIL_PUBLISH_FEWER": "1"}
"""Options that take no value, with the one that they mean."""
_COMMANDS = {
    "run": ("materialise a study, build and test its warehouse, publish it", (*_STUDY, *_SWITCHES)),
    "generate": (
        "ask the models of a prepared study; needs neither Dagster nor dbt",
        (*_STUDY, "shard", "merge"),
    ),
    "plan": ("say what a run of a study would still do, and compute nothing", _STUDY),
    "doctor": ("say what this machine has, and what a study still needs", _STUDY),
    "clean-up": (
        "say what takes room in a study's home, and remove what can be made again",
        (*_STUDY, "remove"),
    ),
    "ui": ("serve Dagster's webserver and daemon on 127.0.0.1", (*_STUDY, "port")),
    "sql": ("query the published warehouse in DuckDB's shell, read-only", (*_STUDY, "query", "form")),
    "router": ("serve the published routers over HTTP on 127.0.0.1", (*_STUDY, "port")),
    "compare": (
        "set two studies, or two versions of one, side by side: a page and a table",
        ("a", "b", "output"),
    ),
    "schema": ("write study.schema.json, by which editors complete and check a study file", ()),
}


_RESUMED, _SERVERS = ("run", "generate"), ("ui", "router")
_RESUMES = "; finished rows are kept, the same command continues from here"


class _OneLine(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}; `{self.prog} --help` lists what it takes\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code. That of the command line, without `arguments`, runs in a child process."""
    chosen = {
        name: value for name, value in vars(_parser().parse_args(arguments)).items() if value is not None
    }
    command = chosen.pop("command")
    if command == "sql" and "query" not in chosen and _is_query(chosen.get("LONGTAIL_STUDY", "")):
        chosen["query"] = chosen.pop("LONGTAIL_STUDY")
    variables = {name: value for name, value in chosen.items() if name.isupper()}
    parameters = {name: value for name, value in chosen.items() if name not in variables}
    os.environ.update(variables)
    for name, value in _NO_TELEMETRY:
        os.environ.setdefault(name, value)
    if arguments is not None:
        return _start(command, parameters)
    with suppress(LongtailError):  # which the program reports
        keep_caches()
    return supervise(
        lambda: _start(command, parameters),
        f"stopped{_RESUMES if command in _RESUMED else ''}",
        serves=command in _SERVERS,
        takes_interrupts=command == "sql" and sys.stdin.isatty() and "query" not in chosen,
    )


def _start(command: str, parameters: dict[str, Any]) -> int:
    try:
        program = import_module(f"longtail.commands.{command.replace('-', '_')}")
    except ModuleNotFoundError as error:
        sys.exit(f"error: package {error.name} is not installed; run: {install_command('[platform]')}")
    return int(program.main(**parameters))


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
    for command, (what, names) in _COMMANDS.items():
        options = commands.add_parser(command, help=what, description=what, allow_abbrev=False)
        for name in names:
            flags, meaning = _OPTIONS[name]
            text = f"{meaning} [${name}]" if name.isupper() else meaning
            shown = name.removeprefix("LONGTAIL_").upper()
            if name in _SWITCHES:
                options.add_argument(
                    *flags, dest=name, action="store_const", const=_SWITCHES[name], help=text
                )
            elif flags:
                options.add_argument(*flags, dest=name, metavar=flags[-1].strip("-").upper(), help=text)
            else:
                options.add_argument(name, nargs="?", metavar=shown, help=text)
    return parser


if __name__ == "__main__":
    sys.exit(main())
