"""A format, a retriever and a backend of an installed package: that of docs/extending.md, in a small study."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from longtail import listed
from longtail.errors import LongtailError
from longtail.listed import Listed, ListedModules
from longtail.storage.home import PROJECT_ROOT

FILES = dict(
    re.findall(
        r"^`(cards/\S+)`:\n\n```\w+\n(.*?)^```$",
        (PROJECT_ROOT / "docs/extending.md").read_text(encoding="utf-8"),
        flags=re.MULTILINE | re.DOTALL,
    )
)
NAMES = {"format": "flashcards", "kind": "title", "methods": "title", "backend": "last_word"}


def test_an_installed_package_brings_one_of_each(tmp_path: Path) -> None:
    assert len(FILES) == 5
    study, installed = tmp_path / "study", tmp_path / "installed"
    study.mkdir()
    for name, text in {**FILES, "cards/__init__.py": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(installed)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(tmp_path / "cards")], check=True)

    def run() -> dict[str, Any]:
        path = os.pathsep.join([str(PROJECT_ROOT), str(installed)])
        env = {**os.environ, "PYTHONPATH": path, "LONGTAIL_HOME": str(tmp_path / "home")}
        command = [sys.executable, "-m", "tests.plugin_study", str(study)]
        ended = subprocess.run(command, cwd=PROJECT_ROOT, env=env, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        outcome: dict[str, Any] = json.loads(ended.stdout)
        return outcome

    first = run()
    assert first["answers"] == {"2": ["London", "last_word 1"]}
    assert first["aside"] == ["a subject, a question, an answer and a text were expected"]
    assert first["is_current"] == [False, False, False]
    assert first["errors"].keys() == NAMES.keys()
    for key, name in NAMES.items():
        assert re.search(rf"is not one of: .*\b{name}\b", first["errors"][key])
    page = "\n".join(first["page"])
    assert re.search(r"\| questions \| `flashcards` \| Flashcards: .* \| `titles` \(1\) \|", page)
    assert "| `title` | the first passage whose title stands in the question stands before it |" in page
    assert "| `least_letters` | 4 | shorter titles do not count |" in page
    assert "| `last_word` | No model: the last word before the question is the answer. | `path` |" in page

    (installed / "cards/unused.py").write_text("VALUE = 1\n")
    change(installed / "cards/words.py", "title in text", "title in text.strip()")
    assert run()["is_current"] == [True, False, True]
    change(installed / "cards/flashcards.py", "clean(cell, 2_000)", "clean(cell, 1_999)")
    assert run()["is_current"] == [False, True, True]  # the same rows: nothing below is stale


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def point(name: str, module: str) -> EntryPoint:
    return EntryPoint(name, module, "longtail.retrievers")


def retrievers(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint, kind: str = "") -> ListedModules:
    monkeypatch.setattr(listed, "_entry_points", lambda _: EntryPoints(points))
    return ListedModules("longtail.retrieval.retrievers", "longtail.retrievers", kind)


@pytest.mark.parametrize("names", [("bm25",), ("mine", "mine")])
def test_two_of_one_name_are_refused_by_name(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    points = [point(name, f"package_{number}.module") for number, name in enumerate(names)]
    with pytest.raises(
        LongtailError, match=rf"two modules are named '{names[0]}': .* package_\d\.module of the"
    ):
        dict(retrievers(monkeypatch, *points))


def test_the_same_module_twice_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a package lies in two folders of the path."""
    modules = retrievers(monkeypatch, *[point("mine", "package.module")] * 2)
    assert modules["mine"] == "package.module"


def test_an_entry_point_of_another_kind_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = retrievers(
        monkeypatch, point("answers.mine", "a.b"), point("questions.mine", "c.d"), kind="questions"
    )
    assert modules["mine"] == "c.d"
    assert "answers.mine" not in modules


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("no_such_package.module", "no_such_package.module: its RETRIEVER cannot be loaded"),
        ("longtail.errors", "longtail.errors: its RETRIEVER cannot be loaded"),
        ("longtail.retrieval.retrievers.bm25", "its RETRIEVER is named 'bm25', not 'mine'"),
    ],
)
def test_a_module_without_the_record_is_named(
    module: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = Listed[Any](retrievers(monkeypatch, point("mine", module)), "RETRIEVER")
    with pytest.raises(LongtailError, match=message):
        dict(records)


def test_a_built_in_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    records = Listed[Any](retrievers(monkeypatch), "RETRIEVER", {"oracle": object()})
    with pytest.raises(LongtailError, match="'oracle' is the name of a built-in one"):
        dict(records)
