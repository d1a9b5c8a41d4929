"""The command `longtail`, which `make` calls too: run a study, and look at what it found.

Each command is a function `main` of a module in `longtail.commands`. An option is a parameter of it; home, study and what
operators set are variables of the environment, which an option sets too.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from longtail.errors import LongtailError
from longtail.needs import install_command
from longtail.processes import supervise
from longtail.storage.home import PROJECT_ROOT, keep_caches
from longtail.threads import thread_count

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
        "publish even if a model has fewer answers than in the last publication",
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
        "a query (it may also be the only argument, in place of STUDY); without one, queries are read from the terminal"
        " or a pipe",
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
    "schema": (
        "write study.schema.json, by which editors complete and check a study file; in a clone, also the tables of"
        " docs/study_file.md",
        (),
    ),
}


_RESUMED, _SERVERS = ("run", "generate"), ("ui", "router")
_RESUMES = "; finished rows are kept, the same command continues from here"


class _Output(io.TextIOWrapper):
    """Standard output. Where it cannot be written, the program ends: in silence where its reader stopped, as in
    `… | head`, else in one line."""

    def write(self, text: str) -> int:
        """Errors: `SystemExit`."""
        with self._ending():
            return super().write(text)

    def flush(self) -> None:
        """Errors: `SystemExit`."""
        with self._ending():
            super().flush()

    @contextmanager
    def _ending(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())  # Python flushes it once more at the end
            if isinstance(error, BrokenPipeError):
                sys.exit(0)
            sys.exit(f"error: the output could not be written: {error.strerror or error}")


class _OneLine(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}; `{self.prog} --help` lists what it takes\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code. That of the command line, without `arguments`, runs in a child process."""
    if arguments is None and isinstance(sys.stdout, io.TextIOWrapper):
        out = sys.stdout
        sys.stdout = _Output(out.buffer, out.encoding, out.errors, line_buffering=out.line_buffering)
    try:
        return _run(arguments)
    finally:
        if sys.stdout:
            sys.stdout.flush()  # Python's own flush at the end would print a trace


def _run(arguments: Sequence[str] | None) -> int:
    given, unknown = _parser().parse_known_args(arguments)
    chosen = {name: value for name, value in vars(given).items() if value is not None}
    command = chosen.pop("command")
    if unknown:
        _OneLine(f"longtail {command}").error(f"unrecognized arguments: {' '.join(unknown)}")
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
    try:
        thread_count()
    except LongtailError as error:
        sys.exit(f"error: {error}")
    return int(program.main(**parameters))


def _is_query(argument: str) -> bool:
    """Whether the first argument of `longtail sql` is a query, and no study file."""
    try:
        is_there = Path(argument).exists()
    except OSError:  # too long for a path
        is_there = False
    return len(argument.split()) > 1 and not argument.endswith((".yaml", ".yml")) and not is_there


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
