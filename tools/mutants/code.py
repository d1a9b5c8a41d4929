"""`make mutants`: plants faults in the code, one at a time, and names those that the nearest tests do not notice.

Most faults are those of mutmut. Its runner is not used: it changes no constant of a module, and starts by running the
whole suite. A fault is planted in a temporary copy of the tree, never in the tree. Its tests run in a fork of this
process, which has imported the large libraries, with a limit of processor seconds.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import difflib
import importlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import libcst as cst
import pytest
from libcst import matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

PROJECT = Path(__file__).resolve().parents[2]
LIBRARIES = (
    "scipy.stats",
    "pandas",
    "pyarrow.parquet",
    "duckdb",
    "hypothesis",
    "statsmodels.api",
    "requests",
)
_LOG = m.Call(func=m.Attribute(value=m.Name("log") | m.Attribute(attr=m.Name("log"))))
SKIPPED = m.OneOf(m.Annotation(), m.Import(), m.ImportFrom(), m.Decorator(), m.Raise(), _LOG, m.Expr(_LOG))
"""Types, and what a reader is told."""
Lines = dict[str, set[int] | None]
"""Lines by file; None: all."""


def call_removed(node: cst.Expr) -> Iterator[cst.CSTNode]:
    if isinstance(node.value, cst.Call):
        yield cst.Pass()


def never_taken(node: cst.If) -> Iterator[cst.CSTNode]:
    yield node.with_changes(test=cst.Name("False"))


def doubled_or_halved(node: cst.Integer | cst.Float) -> Iterator[cst.CSTNode]:
    value = node.evaluated_value
    for other in (2 * value, value / 2 if isinstance(value, float) else value // 2):
        if other != value:
            yield node.with_changes(value=repr(other))


OWN = ((cst.Expr, call_removed), (cst.If, never_taken), ((cst.Integer, cst.Float), doubled_or_halved))


@dataclass(frozen=True)
class Mutant:
    """One fault: what `path` contains with it, and where."""

    path: str
    line: int
    kind: str
    text: str

    def diff(self) -> str:
        old = (PROJECT / self.path).read_text("utf-8").splitlines()
        lines = [*difflib.unified_diff(old, self.text.splitlines(), lineterm="", n=0)][2:]
        return "".join(f"\n    {line}" for line in lines if not line.startswith("@@"))

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line} {self.kind}{self.diff()}"


class _Places(cst.CSTVisitor):
    """Where a kind of fault can be planted: line, node, operator."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        self.found: list[tuple[int, cst.CSTNode, Any]] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        operators: tuple[Any, ...] = (*mutation_operators, *OWN) if not m.matches(node, SKIPPED) else ()
        for kind, operator in operators:
            if isinstance(node, kind) and any(True for _ in operator(node)):
                line = self.get_metadata(PositionProvider, node).start.line
                self.found.append((line, node, operator))
        return not m.matches(node, SKIPPED)


def planned(lines: Lines, most: int, seed: int) -> list[Mutant]:
    """At most `most` faults, drawn from all places in `lines`."""
    places = []
    for path, wanted in lines.items():
        wrapper, visitor = MetadataWrapper(cst.parse_module((PROJECT / path).read_text("utf-8"))), _Places()
        wrapper.visit(visitor)
        places += [(path, wrapper.module, *at) for at in visitor.found if wanted is None or at[0] in wanted]
    draw, mutants = random.Random(seed), []
    for path, module, line, node, operator in draw.sample(places, min(most, len(places))):
        text = module.deep_replace(node, draw.choice(list(operator(node)))).code
        mutants.append(Mutant(path, line, operator.__name__.removeprefix("operator_"), text))
    return mutants


def changed_lines(base: str) -> Lines:
    """The lines of the package that differ from commit `base`."""
    diff = _git(
        "diff",
        "-U0",
        "--no-renames",
        "--diff-filter=d",
        base,
        "--",
        "longtail/**.py",
        "dagster_project/**.py",
    )
    lines, path = defaultdict[str, set[int] | None](set), ""
    for line in diff.splitlines():
        path = line[6:] if line.startswith("+++ b/") else path
        if hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, n = int(hunk[1]), int(hunk[2] or 1)
            lines[path] = (lines[path] or set()) | set(range(first, first + n))
    return lines


def lines_of(module: str) -> Lines:
    """All lines of a module, or of a folder of modules."""
    path = PROJECT / module
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    return {str(file.relative_to(PROJECT)): None for file in files}


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=PROJECT, check=True, capture_output=True, text=True).stdout


def nearest(path: str, wide: bool) -> set[str]:
    """The test modules named like the module, and those of its folder that import it; where there are none, or with
    `wide`, all of its folder; with `wide`, also those elsewhere that import it."""
    parts = Path(path).with_suffix("").parts
    imports = re.compile(rf"\b{'.'.join(parts)}\b|from {'.'.join(parts[:-1])} import [^\n]*\b{parts[-1]}\b")
    folder = PROJECT.joinpath("tests", *parts[1:-1])
    while not folder.exists():
        folder = folder.parent
    tests = {test for test in (PROJECT / "tests").rglob("test_*.py") if "journeys" not in test.parts}
    inside = {test for test in tests if folder in test.parents}
    importing = {test for test in tests if imports.search(test.read_text("utf-8"))}
    found = {t for t in inside if t in importing or re.fullmatch(rf"test_(\w+_)?{parts[-1]}s?", t.stem)}
    found |= importing if wide else set()
    found |= {test for test in inside if test.parent == folder} if wide or not found else set()
    return {str(test.relative_to(PROJECT)) for test in found}


class Tree:
    """A copy of the project's files, in which one fault at a time is planted and its tests run. They read the
    warehouses in `builds`, made without a fault; where it is None, they make their own."""

    def __init__(self, folder: Path, builds: Path | None) -> None:
        self.folder, self.builds, self.n_changes = folder, builds, 0
        for name in _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
            if name and (PROJECT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(PROJECT / name, folder / name, follow_symlinks=False)

    def put(self, path: str, text: str) -> None:
        """Python uses a compiled file of the same time and size: each change has a time of its own."""
        self.n_changes += 1
        (self.folder / path).write_text(text, "utf-8")
        os.utime(self.folder / path, (1_000_000_000 + self.n_changes,) * 2)

    def run(self, tests: list[str], seconds: float) -> tuple[bool, float]:
        """Whether all tests pass within so many seconds of the processor, and the seconds that they took."""
        shutil.rmtree(self.folder / "tmp", ignore_errors=True)
        (self.folder / "tmp").mkdir()
        if (pid := os.fork()) == 0:
            self._test(tests, int(seconds) + 1)
        ends = time.monotonic() + 20 * seconds  # a test that waits takes no seconds of the processor
        while not (ended := os.wait4(pid, os.WNOHANG))[0]:
            time.sleep(0.02)
            if time.monotonic() > ends:
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # what a test left running
        return ended[1] == 0, ended[2].ru_utime + ended[2].ru_stime

    def _test(self, tests: list[str], seconds: int) -> None:
        """In the fork: run pytest in `folder`, whose modules take the place of the tree's; it does not return."""
        atexit._clear()  # what the process that forked has to do at its end
        os.setsid()
        os.chdir(self.folder)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        out = os.open("tmp/out", os.O_CREAT | os.O_WRONLY)
        os.dup2(out, 1), os.dup2(out, 2)
        tempfile.tempdir, sys.path[0] = None, str(self.folder)
        os.environ |= {"LONGTAIL_THREADS": "1", "PYTHONPATH": sys.path[0], "TMPDIR": f"{self.folder}/tmp"}
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # half of pytest's start
        arguments = ["-x", "-q", "-p", "xdist.plugin", "-p", "no:cacheprovider", f"--rootdir={self.folder}"]
        if self.builds:  # as xdist's workers share them: tests.conftest
            os.environ["PYTEST_XDIST_WORKER"] = self.folder.name
            arguments.append(f"--basetemp={self.builds / self.folder.name}")
        for name in [
            one for one in sys.modules if one.split(".")[0] in {"tests", "longtail", "dagster_project"}
        ]:
            del sys.modules[name]
        code = 3
        with contextlib.suppress(BaseException):
            code = int(pytest.main([*arguments, *tests]))
            atexit._run_exitfuncs()
        os._exit(code)


def judge(mutants: list[Mutant], jobs: int, wide: bool, verdicts: Path) -> dict[str, str]:
    """Plant each fault that `verdicts` does not know, and run its tests, cheap ones first; the verdict of each."""
    known = _known(verdicts)
    asked = {mutant: nearest(mutant.path, wide) for mutant in mutants if mutant.name not in known}
    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
        folders = [Path(temporary, name) for name in ("builds", *map(str, range(jobs)))]
        for folder in folders:
            folder.mkdir()
        builds = None if wide else folders[0]
        seconds: dict[str, float] = {}
        tree = Tree(folders[1], builds)
        for test in sorted(set().union(*asked.values())):
            passes, taken = tree.run([test], 1_000)
            print(
                f"{taken:6.1f} s  {test}{'' if passes else ': FAILS WITHOUT A FAULT, left out'}", flush=True
            )
            seconds |= {test: taken} if passes else {}
        workers = []
        for place, folder in enumerate(folders[1:]):
            if (pid := os.fork()) == 0:
                try:
                    own = Tree(folder, builds)
                    for mutant in list(asked)[place::jobs]:
                        tests = sorted(asked[mutant] & seconds.keys(), key=seconds.__getitem__)
                        _judge(mutant, own, tests, 10 + 3 * sum(seconds[test] for test in tests), verdicts)
                finally:
                    os._exit(0)
            workers.append(pid)
        for pid in workers:
            os.waitpid(pid, 0)
    return {mutant.name: verdict for mutant in mutants if (verdict := _known(verdicts).get(mutant.name))}


def _known(verdicts: Path) -> dict[str, str]:
    return dict(map(json.loads, verdicts.read_text().splitlines())) if verdicts.exists() else {}


def _judge(mutant: Mutant, tree: Tree, tests: list[str], seconds: float, verdicts: Path) -> None:
    """Plant the fault, run its tests, take it away, and write the verdict down: caught, survived or untested."""
    tree.put(mutant.path, mutant.text)
    verdict = ("survived" if tree.run(tests, seconds)[0] else "caught") if tests else "untested"
    tree.put(mutant.path, (PROJECT / mutant.path).read_text("utf-8"))
    change = mutant.name if verdict == "survived" else mutant.name.partition("\n")[0]
    print(f"{verdict:8} {change}", flush=True)
    with verdicts.open("a") as file:
        file.write(json.dumps([mutant.name, verdict]) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants")
    parser.add_argument("--module", help="a module or folder; otherwise the lines that differ from --base")
    parser.add_argument("--base", default="HEAD~1")
    parser.add_argument("--most", type=int, default=100, help="draw at most so many faults")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--wide", action="store_true", help="also ask the rest of the folder, and all importers"
    )
    parser.add_argument("--keep", type=Path, help="a file of verdicts: a fault in it is not planted again")
    given = parser.parse_args()
    lines = lines_of(given.module) if given.module else changed_lines(given.base)
    mutants = planned(lines, given.most, given.seed)
    for library in LIBRARIES:
        importlib.import_module(library)
    with tempfile.TemporaryDirectory() as folder:
        found = judge(mutants, given.jobs, given.wide, given.keep or Path(folder, "verdicts"))
    counts = Counter((str(Path(name.partition(":")[0]).parent), found[name]) for name in found)
    for (package, verdict), n in sorted(counts.items()):
        print(f"{n:5} {verdict:8} {package}")
    return int("survived" in found.values())


if __name__ == "__main__":
    sys.exit(main())
