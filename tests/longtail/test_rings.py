"""No import cycles: neither between files nor between packages, on any level.

import-linter checks the layers (`make check`). This module checks what layers allow: siblings that import each other.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import longtail

ROOT = Path(longtail.__file__).parent
Graph = Mapping[str, set[str]]


def name_of(file: Path, root: Path) -> str:
    return ".".join(file.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")


def imports(root: Path) -> dict[str, set[str]]:
    """Module → the modules of the same package that it imports anywhere, except imports for types only."""
    files = {name_of(file, root): file for file in root.rglob("*.py")}
    return {module: _imported(file, files) - {module} for module, file in files.items()}


def _imported(file: Path, modules: Mapping[str, Path]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in modules else node.module)
    return found & modules.keys()


def between_packages(graph: Graph, package: str) -> dict[str, set[str]]:
    """The graph of the direct children of `package`."""
    inside = f"{package}."

    def child(module: str) -> str | None:
        return module.removeprefix(inside).split(".")[0] if module.startswith(inside) else None

    children: dict[str, set[str]] = {}
    for module, imported in graph.items():
        if own := child(module):
            children.setdefault(own, set()).update({c for one in imported if (c := child(one))} - {own})
    return children


def ring(graph: Graph) -> list[str]:
    """An import cycle in the graph; empty without one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_ring_between_files() -> None:
    assert ring(imports(ROOT)) == []


def test_no_ring_between_packages() -> None:
    graph = imports(ROOT)
    packages = [name_of(file, ROOT) for file in ROOT.rglob("__init__.py")]
    found = {package: ring(between_packages(graph, package)) for package in packages}
    assert {package: names for package, names in found.items() if names} == {}


def test_a_ring_is_found(tmp_path: Path) -> None:
    root = tmp_path / "p"
    for folder in ("a", "b"):
        (root / folder).mkdir(parents=True)
        (root / folder / "__init__.py").touch()
    (root / "a" / "one.py").write_text("def late():\n    from p.b import two\n")
    (root / "b" / "two.py").write_text("import p.a.other\n")
    (root / "a" / "other.py").touch()
    graph = imports(root)
    assert ring(graph) == []
    assert set(ring(between_packages(graph, "p"))) == {"a", "b"}
    (root / "a" / "other.py").write_text("from p.b.two import x\n")
    assert set(ring(imports(root))) == {"p.a.other", "p.b.two"}
