"""Fingerprints: hashes of all inputs of a result. Equal fingerprints mean equal inputs.

The version of a stage's code is derived from its imports. It covers the stage's module and every module of `longtail`
that this module imports, directly or not; for a module of another package (a user's retriever or format), also what it
imports of that package. Comments, docstrings, layout and the places of modules do not count.

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
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from longtail.errors import LongtailError

PROJECT = "longtail"
_PLACE = "dagster_project"
"""What stands for the place of any module of the project: what homes made before the package had its name contain."""

_ROOT = Path(__file__).parents[2]
_PAGE_FILES = frozenset({".js", ".css", ".html", ".md"})
CANNOT_CHANGE_ROWS = (
    # how work is stored, requested, reported and refused
    *("storage", "transfer", "errors", "needs", "progress", "processes", "threads"),
    "wikimedia.services",
    # what a fingerprint contains separately: weights, a table's columns, the study's slice, methods' flags, the world
    *("models", "tables", "study", "methods", "sandbox"),
)
"""Modules and packages of `longtail` that the version of an importing stage leaves out, with all their imports."""


@dataclass(frozen=True)
class ParsedCode:
    """`code` does not say which modules of the project the imported names come from: `imports` does.

    `imports` are (module, name) for each `from module import name`, and (module, "") for each `import module`; a
    relative module begins with its dots."""

    code: str
    imports: tuple[tuple[str, str], ...]


def parse_code(file: Path) -> ParsedCode:
    """What `file` holds now. Errors: `SyntaxError`, `OSError`."""
    return _parse_once(file.read_bytes(), file)


@functools.cache
def _parse_once(source: bytes, file: Path) -> ParsedCode:
    cache = _cache_file(file)
    parsed = _read_cache(cache, source)
    if parsed is None:
        parsed = _parse(source)
        _write_cache(cache, source, parsed)
    return parsed


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
            node.body = [statement for statement in node.body if not _is_text(statement)] or [ast.Pass()]
    return ParsedCode(ast.unparse(tree), tuple(dict.fromkeys(imports)))


def _is_text(node: ast.stmt) -> bool:
    """Whether the statement is a docstring, or the text below an attribute that describes it."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _cache_file(file: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(file))).with_suffix(".parsed")


@functools.cache
def _method() -> bytes:
    """How files are parsed: by this module and this Python."""
    return hashlib.sha256(Path(__file__).read_bytes() + sys.version.encode()).digest()


def _seal(source: bytes, text: bytes) -> bytes:
    return hashlib.sha256(_method() + hashlib.sha256(source).digest() + text).hexdigest().encode()


def _read_cache(cache: Path, source: bytes) -> ParsedCode | None:
    """What was kept of exactly this source; None if there is nothing, or anything else."""
    try:
        seal, _, text = cache.read_bytes().partition(b"\n")
    except OSError:
        return None
    if seal != _seal(source, text):
        return None
    code, imports = json.loads(text)
    return ParsedCode(code, tuple((module, name) for module, name in imports))


def _write_cache(cache: Path, source: bytes, parsed: ParsedCode) -> None:
    """Keep it, unless Python keeps no compiled files either, or the folder cannot be written."""
    if sys.dont_write_bytecode:
        return
    text = json.dumps([parsed.code, parsed.imports]).encode()
    temporary = cache.with_name(f"{cache.name}.{uuid.uuid4().hex}")
    with contextlib.suppress(OSError):
        cache.parent.mkdir(exist_ok=True)
        try:
            temporary.write_bytes(_seal(source, text) + b"\n" + text)
            os.replace(temporary, cache)
        finally:
            temporary.unlink(missing_ok=True)


def fingerprint(*parts: object) -> str:
    """SHA-256 (first 32 hexadecimal digits) of the JSON of `parts`: equal inputs give equal fingerprints."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def prompt_hash(text: str) -> str:
    """SHA-256 of the exact prompt as hexadecimal digits; lone surrogates are included."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def code_version(*modules: str, without: Collection[str] = (), root: Path = _ROOT) -> str:
    """A hash of the code of `modules` (dotted names) and of their imports: changed code makes partitions stale.

    A package means all its modules. A module of `CANNOT_CHANGE_ROWS` counts if it is in `modules`; its package then
    counts too. `without` names modules that this stage imports but does not use for these rows. `root` is the folder
    that contains the package longtail.
    """
    outside = (f"{PROJECT}.{name}" for name in CANNOT_CHANGE_ROWS)
    left_out = {name for name in outside if not any(_is_in(module, [name]) for module in modules)} | set(
        without
    )
    closure = collect_modules(modules, left_out, root)
    texts = sorted(_code(module, closure, root) for module in closure)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def folder_version(package: str, root: Path = _ROOT) -> str:
    """A hash of every file of a package: its code, and the scripts and styles of its pages."""
    folder = root / package.replace(".", "/")
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.suffix == ".py":
            digest.update(f"{file.relative_to(folder)}\n{parse_code(file).code}".encode())
        elif file.suffix in _PAGE_FILES:
            digest.update(str(file.relative_to(folder)).encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def collect_modules(modules: Collection[str], left_out: Collection[str], root: Path = _ROOT) -> set[str]:
    """`modules` and all that they import of `longtail` and of their own packages, directly or not, but for `left_out`."""
    closure: set[str] = set()
    waiting = [module for name in modules for module in _of_package(name, root)]
    while waiting:
        module = waiting.pop()
        if module not in closure:
            closure.add(module)
            imports = parse_code(_file(module, root)).imports
            waiting += [name for name in _imports_of(module, imports, root) if not _is_in(name, left_out)]
    return closure


def _code(module: str, closure: Collection[str], root: Path) -> str:
    """A module's code, and for each of its imports in `closure` a hash of the code that it reaches.

    Neither says where a module lies, so that a module may be moved or renamed without making a partition stale.
    """
    parsed = parse_code(_file(module, root))
    reached = [name for name in _imports_of(module, parsed.imports, root) if name in closure]
    return parsed.code + "".join(f"\n{prompt_hash(parse_code(_file(name, root)).code)}" for name in reached)


def _is_in(module: str, names: Collection[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)


def _of_package(name: str, root: Path) -> Iterator[str]:
    """The module itself, or every module of a package."""
    folder = root / name.replace(".", "/")
    if not (
        folder / "__init__.py"
    ).is_file():  # a folder of compiled files alone may be left of an older version
        yield name
        return
    for file in folder.rglob("*.py"):
        yield ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _file(module: str, root: Path) -> Path:
    """The file of a module: of this project, or of a user's own package (a format, backend or retriever)."""
    path = _inside(module, root)
    if path.is_file():
        return path
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise LongtailError(f"module {module} has no file: its code cannot be told from an earlier version")
    return Path(spec.origin)


def _inside(module: str, root: Path) -> Path:
    path = root / module.replace(".", "/")
    package = path / "__init__.py"
    return package if package.is_file() else path.with_suffix(".py")


@functools.cache
def _imports_of(module: str, imports: tuple[tuple[str, str], ...], root: Path) -> tuple[str, ...]:
    """The module of `longtail`, or of the module's own package, that each import of a file reaches, in its order."""
    package = module.partition(".")[0]
    reached = []
    for imported, name in imports:
        if imported.startswith("."):
            is_package = _file(module, root).name == "__init__.py"
            imported = importlib.util.resolve_name(
                imported, module if is_package else module.rpartition(".")[0]
            )
        if imported.startswith(f"{PROJECT}.") or (
            package != PROJECT and imported.partition(".")[0] == package
        ):
            inner = f"{imported}.{name}"
            reached.append(inner if name and _is_module(inner, root) else imported)
    return tuple(reached)


def _is_module(name: str, root: Path) -> bool:
    if _inside(name, root).is_file() or name.startswith(f"{PROJECT}."):
        return _inside(name, root).is_file()
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(name)
        return spec is not None and spec.origin is not None
    return False
