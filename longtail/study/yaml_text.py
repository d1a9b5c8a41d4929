"""From the bytes of study.yaml to plain Python values, at a bounded cost.

YAML can say much in few bytes, and some of its values are surprising: aliases of aliases (700 bytes give a billion
values), a repeated key (the last one wins), 1:30 (90, in base 60), 010 (8), 2026-10-01 (not a text), numbers of a
million digits. Here, an alias counts as everything that it repeats, a key may appear once, and a number has decimal
digits. Every other value is a text, and the code that reads the key says what it needs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from longtail.errors import StudyError, printable

_MOST_BYTES = 100_000
_MOST_NODES = 10_000
_DEEPEST = 20
_LONGEST_NUMBER = 40
_SHOWN = 200
_TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"[-+]?(0|[1-9](_?[0-9])*)\Z")
_FLOAT = re.compile(r"[-+]?([0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?\Z")


class _RefusedError(yaml.MarkedYAMLError):
    """Valid YAML that a study may not use."""

    def __init__(self, mark: Any, problem: str) -> None:
        super().__init__(problem=problem, problem_mark=mark)


def read_yaml(path: Path) -> object:
    """The content of a study file. Errors: `StudyError` with file and line."""
    text = _text(path)
    try:
        return yaml.load(text, _Loader)  # noqa: S506 (a SafeLoader that takes less)
    except _RefusedError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise StudyError(f"{path}: line {line}: {printable(error.problem or '')}") from None
    except yaml.YAMLError as error:
        raise StudyError(f"{path}: is not valid YAML: {_reason(error)}") from None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise StudyError(
                f"{path}: has more than {_MOST_BYTES:,} bytes, which no study needs; is it another file?"
            )
        return content.decode("utf-8")
    except FileNotFoundError:
        raise StudyError(f"{path}: no such study file; give the path of one") from None
    except OSError as error:
        raise StudyError(f"{path}: cannot be read ({error.strerror or error})") from None
    except UnicodeDecodeError as error:
        raise StudyError(f"{path}: cannot be read ({error})") from None


def _reason(error: yaml.YAMLError) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or problem is None:
        return printable(" ".join(str(error).split())[:_SHOWN])
    return f"line {mark.line + 1}, column {mark.column + 1}: {printable(problem[:_SHOWN])}"


class _Loader(yaml.SafeLoader):
    """Composes the nodes of a study; each node is checked before its value is built."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (PyYAML's)
        first: [
            (tag, pattern) for tag, pattern in known if tag.removeprefix(_TAG) in ("null", "bool", "merge")
        ]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._n_nodes = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """One node with an allowed depth and size. Errors: `_RefusedError`, `yaml.YAMLError`."""
        event = self.peek_event()
        if getattr(event, "tag", None) is not None:
            problem = f"tags ({event.tag[:_SHOWN]}) are not allowed in a study; leave it out"
            raise _RefusedError(event.start_mark, problem)
        self._depth += 1
        if self._depth > _DEEPEST:
            problem = f"nested more than {_DEEPEST} levels deep, which no study needs"
            raise _RefusedError(event.start_mark, problem)
        before = self._n_nodes
        node = super().compose_node(parent, index)
        self._depth -= 1
        self._count(node, event, before)
        return node

    def _count(self, node: yaml.Node | None, event: Any, before: int) -> None:
        """Count the node and its contents; an alias counts as everything that it repeats."""
        if not isinstance(event, yaml.AliasEvent):
            self._n_nodes += 1
            self._sizes[id(node)] = self._n_nodes - before
        elif id(node) in self._sizes:
            self._n_nodes += self._sizes[id(node)]
        else:
            problem = f"*{str(event.anchor)[:_SHOWN]} refers to a value that contains it"
            raise _RefusedError(event.start_mark, problem)
        if self._n_nodes > _MOST_NODES:
            problem = f"more than {_MOST_NODES:,} values up to here, aliases resolved; no study needs them"
            raise _RefusedError(event.start_mark, problem)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """A mapping without repeated keys; keys merged by `<<` give way to its own, as in YAML."""
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                name, line = (key.tag, key.value), key.start_mark.line + 1
                if name in lines:
                    shown = key.value[:_SHOWN]
                    problem = f"key {shown} appears twice, first in line {lines[name]}; keep one"
                    raise _RefusedError(key.start_mark, problem)
                lines[name] = line
        return node


def _number(loader: _Loader, node: yaml.ScalarNode) -> int | float:
    if len(node.value) > _LONGEST_NUMBER:
        problem = f"a number of {len(node.value):,} characters, which no study needs"
        raise _RefusedError(node.start_mark, problem)
    digits = node.value.replace("_", "")
    return int(digits) if node.tag == f"{_TAG}int" else float(digits)


for _kind, _pattern in (("int", _INT), ("float", _FLOAT)):
    _Loader.add_implicit_resolver(f"{_TAG}{_kind}", _pattern, list("-+.0123456789"))
    _Loader.add_constructor(f"{_TAG}{_kind}", _number)
