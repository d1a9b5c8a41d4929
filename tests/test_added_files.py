"""A format, a retriever and a backend are one file each: those of docs/extending.md, in a copy of the project."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from longtail.storage.home import PROJECT_ROOT
from tests import fork_server

FILES = dict(
    re.findall(
        r"^`(longtail/\S+\.py)`:\n\n```python\n(.*?)^```$",
        (PROJECT_ROOT / "docs/extending.md").read_text(encoding="utf-8"),
        flags=re.MULTILINE | re.DOTALL,
    )
)
RETRIEVER = "longtail/retrieval/retrievers/title.py"
LISTED = {"format": "flashcards", "kind": "title", "methods": "title", "backend": "last_word"}


def in_copy(copy: Path, *arguments: str) -> str:
    """What Python prints with the copy's code."""
    env = {**os.environ, "PYTHONPATH": str(copy), "LONGTAIL_HOME": str(copy / "home")}
    done = fork_server.run(arguments, copy, env, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_is_one_file(tmp_path: Path) -> None:
    copy, study = tmp_path / "copy", tmp_path / "study"
    study.mkdir()
    left_out = shutil.ignore_patterns("__pycache__", "weights")
    shutil.copytree(PROJECT_ROOT / "longtail", copy / "longtail", ignore=left_out)
    page = copy / "docs/study_file.md"
    page.parent.mkdir()
    shutil.copy(PROJECT_ROOT / "docs/study_file.md", page)
    assert len(FILES) == 3
    for name, text in FILES.items():
        (copy / name).write_text(text, encoding="utf-8")

    in_copy(copy, "-m", "longtail.study.page")
    told = page.read_text(encoding="utf-8")
    assert re.search(r"\| questions \| `flashcards` \| Flashcards: .* \| `titles` \(1\) \|", told)
    assert "| `title` | the first passage whose title stands in the question stands before it |" in told
    assert "| `least_letters` | 4 | shorter titles do not count |" in told
    assert "| `last_word` | No model: the last word before the question is the answer. | `path` |" in told

    def run() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            in_copy(copy, str(PROJECT_ROOT / "tests/added_files.py"), str(study))
        )
        return found

    first = run()
    assert first["answers"] == {"2": ["London", "last_word 1"]}
    assert first["aside"] == ["a subject, a question, an answer and a text were expected"]
    assert first["is_current"] == [False, False]
    assert first["errors"].keys() == LISTED.keys()
    assert all(
        re.search(rf"is not one of: .*\b{name}\b", first["errors"][key]) for key, name in LISTED.items()
    )

    own = copy / RETRIEVER
    beside = FILES[RETRIEVER].replace('"title",', '"other",')
    own.with_name("other.py").write_text(beside, encoding="utf-8")
    assert run()["is_current"] == [True, True]
    own.write_text(FILES[RETRIEVER].replace("in query.text", "in query.text.strip()"), encoding="utf-8")
    assert run()["is_current"] == [False, True]
