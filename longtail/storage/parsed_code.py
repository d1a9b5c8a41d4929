"""A Python file's code without comments, docstrings and layout, and the names that it imports.

Parsing all files takes seconds, so the result is kept beside Python's own compiled file, in `__pycache__`. It is used
only if a seal over the source, this module, Python's version and the result itself is right.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

PROJECT = "longtail"
_PLACE = "dagster_project"
"""What stands for the place of any module of the project: what homes made before the package had its name contain."""


@dataclass(frozen=True)
class ParsedCode:
    """`code` does not say which modules of the project the imported names come from: `imports` does.

    `imports` are (module, name) for each `from module import name`, and (module, "") for each `import module`; a
    relative module begins with its dots."""

    code: str
    imports: tuple[tuple[str, str], ...]


def parsed_code(file: Path) -> ParsedCode:
    """What `file` holds now. Errors: `SyntaxError`, `OSError`."""
    return _parsed_code(file.read_bytes(), file)


@functools.cache
def _parsed_code(source: bytes, file: Path) -> ParsedCode:
    kept = _kept(file)
    found = _read(kept, source)
    if found is None:
        found = _parse(source)
        _keep(kept, source, found)
    return found


def _parse(source: bytes) -> ParsedCode:
    tree = ast.parse(source)
    imports: list[tuple[str, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            imports += [(module, alias.name) for alias in node.names]
            if module.startswith(f"{PROJECT}."):
                node.module = _PLACE
        elif isinstance(node, ast.Constant) and str(node.value).startswith(f"{PROJECT}."):
            node.value = f"{_PLACE}.core{str(node.value).removeprefix(PROJECT)}"
        elif isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [one for one in node.body if not _is_text(one)] or [ast.Pass()]
    return ParsedCode(ast.unparse(tree), tuple(dict.fromkeys(imports)))


def _is_text(node: ast.stmt) -> bool:
    """Whether the statement is a docstring, or the text below an attribute that describes it."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _kept(file: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(file))).with_suffix(".parsed")


@functools.cache
def _method() -> bytes:
    """How files are parsed: by this module and this Python."""
    return hashlib.sha256(Path(__file__).read_bytes() + sys.version.encode()).digest()


def _seal(source: bytes, text: bytes) -> bytes:
    return hashlib.sha256(_method() + hashlib.sha256(source).digest() + text).hexdigest().encode()


def _read(kept: Path, source: bytes) -> ParsedCode | None:
    """What was kept of exactly this source; None if there is nothing, or anything else."""
    try:
        seal, _, text = kept.read_bytes().partition(b"\n")
    except OSError:
        return None
    if seal != _seal(source, text):
        return None
    code, imports = json.loads(text)
    return ParsedCode(code, tuple((module, name) for module, name in imports))


def _keep(kept: Path, source: bytes, found: ParsedCode) -> None:
    """Keep it, unless Python keeps no compiled files either, or the folder cannot be written."""
    if sys.dont_write_bytecode:
        return
    text = json.dumps([found.code, found.imports]).encode()
    temporary = kept.with_name(f"{kept.name}.{uuid.uuid4().hex}")
    with contextlib.suppress(OSError):
        kept.parent.mkdir(exist_ok=True)
        try:
            temporary.write_bytes(_seal(source, text) + b"\n" + text)
            os.replace(temporary, kept)
        finally:
            temporary.unlink(missing_ok=True)
