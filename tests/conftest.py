"""Tests never touch a user's state: every process of the suite has a home of its own.

The home of `make run` is read, if it is as new as the code; nothing is written there. What the suite costs stands at its
end: the processor seconds of all its processes, by folder and by module.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import fork_server

PROJECT = Path(__file__).resolve().parents[1]
MADE_FROM = ("longtail", "dagster_project", "dbt", "study.yaml", "constraints.txt")
"""What decides the default study's results, below the project."""
LONGEST = (
    "default_study", "small_study", "tests/longtail/warehouse/test_publish.py", "imports", "tests/journeys/test_wheel.py",
    "tests/test_benchmarks.py", "ui", "tests/longtail/warehouse/test_reuse.py", "tests/dbt/test_unit_tests.py",
    "tests/longtail/warehouse/test_dbt_build.py", "tests/longtail/storage/test_object_store.py",
    "tests/longtail/generation/test_ray_workers.py", "kill", "real_records", "tests/test_own_dagster_yaml.py",
    "report_browser", "edges",
)  # fmt: skip
"""The groups of tests that take longest (20 seconds and more), the longest first."""


def is_finished(home: Path, project: Path) -> bool:
    """Whether the default study in `home` was published after the last change of what it is made from."""
    published = home / "published/inputs"  # `make run` writes it last, and removes it first
    if not published.exists():
        return False
    roots = [project / name for name in MADE_FROM]
    files = [path for root in roots for path in (root.rglob("*") if root.is_dir() else [root])]
    changes = [path.stat().st_mtime for path in files if path.is_file() and "__pycache__" not in path.parts]
    return max(changes) < published.stat().st_mtime


if "PYTEST_XDIST_WORKER" not in os.environ and "LONGTAIL_FINISHED_HOME" not in os.environ:
    _of_make_run = Path(os.environ.get("LONGTAIL_HOME") or PROJECT / "data")
    if is_finished(_of_make_run, PROJECT):
        os.environ["LONGTAIL_FINISHED_HOME"] = str(_of_make_run.resolve())
_HOME = tempfile.mkdtemp(prefix="longtail-tests-")
os.environ["LONGTAIL_HOME"] = _HOME
os.environ.pop("LONGTAIL_STUDY", None)
os.environ.pop("LONGTAIL_QUICK", None)
os.environ.pop("LONGTAIL_LIMIT", None)
os.environ.setdefault("LONGTAIL_THREADS", "1")
# Python keeps compiled files, so that the commands which tests start need not compile the project again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as what a script starts in the background inherits it
    signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
gc.disable()  # until all modules are imported: they stay


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A parameter of bytes or of much text is named after its argument and numbered: an archive holds the time, and a
    test whose name differs from worker to worker ends the whole run.
    """
    return argname if isinstance(val, bytes) or (isinstance(val, str) and len(val) > 200) else None


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # xdist would put the groups with the most tests first


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long groups first: all workers then end at about the same time. One worker runs all of a module: its fixtures,
    and the builds that it caches, are made once."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.location[0]))
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    marker = item.get_closest_marker("xdist_group")
    assert marker is not None
    group = marker.args[0]
    return LONGEST.index(group) if group in LONGEST else len(LONGEST)


def pytest_collection_finish() -> None:
    if Path(_HOME, "build").exists():
        raise pytest.UsageError("a test module parses the dbt project when it is imported: 12 s a worker")
    gc.freeze()  # no collection looks through libraries and test items
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _build_warehouses_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where several processes run the tests, they share what `tests.warehouses` builds."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        from tests import in_process_dbt, warehouses

        warehouses.shared_folder = in_process_dbt.shared_folder = tmp_path_factory.getbasetemp().parent
    yield
    fork_server.close()  # its processor seconds then count


GOAL = 1_100  # processor seconds of the whole suite
_seconds: Counter[str] = Counter()  # by test module, of this process
_of_workers: Counter[str] = Counter()


def _spent() -> float:
    """Processor seconds of this process and of the children that it has waited for."""
    return sum(os.times()[:4]) + fork_server.seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = _spent()
    try:
        return (yield)
    finally:
        _seconds[item.location[0]] += _spent() - before


def pytest_sessionfinish(session: pytest.Session) -> None:
    controls = session.config.pluginmanager.hasplugin(
        "dsession"
    )  # whose children are workers: they count themselves
    _seconds["imports and collection"] += sum(os.times()[: 2 if controls else 4]) - _seconds.total()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["processor_seconds"] = dict(_seconds)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _of_workers.update(getattr(node, "workeroutput", {}).get("processor_seconds", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    spent, folders = _seconds + _of_workers, Counter[str]()
    for module, seconds in spent.items():
        folders[str(Path(module).parent.relative_to("tests")) if module.endswith(".py") else module] += (
            seconds
        )
    terminalreporter.section("processor seconds")
    dearest = ", ".join(f"{folder} {seconds:,.0f}" for folder, seconds in folders.most_common(8))
    terminalreporter.write_line(f"processor seconds: {spent.total():,.0f} (goal {GOAL:,}); {dearest}")
    for module, seconds in spent.most_common(10):
        terminalreporter.write_line(f"{seconds:8,.1f}  {module}")
