"""Versions of code: what a change makes stale, and what it does not."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import longtail
from longtail.storage import fingerprints as module
from longtail.storage.fingerprints import (
    CANNOT_CHANGE_ROWS,
    ParsedCode,
    code_version,
    fingerprint,
    folder_version,
    parse_code,
)

CORE = "longtail"
STAGES = (
    f"{CORE}.wikimedia.ingest",
    f"{CORE}.wikimedia.page_views",
    f"{CORE}.imports.answers",
    f"{CORE}.questions.build",
    f"{CORE}.questions.sampling",
    f"{CORE}.retrieval.passages",
    f"{CORE}.retrieval.retrieve",
    f"{CORE}.embedding.lake_tables",
    f"{CORE}.reference.linking",
    f"{CORE}.statistics.adaptive_gains",
    f"{CORE}.sandbox.server",
)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the project's code that a test may change."""
    shutil.copytree(
        Path(longtail.__file__).parent,
        tmp_path / "longtail",
        ignore=shutil.ignore_patterns("weights", "__pycache__"),
    )
    return tmp_path


def versions(root: Path) -> dict[str, str]:
    return {stage: code_version(stage, root=root) for stage in STAGES}


def changed(root: Path, file: str, old: str, new: str) -> set[str]:
    """The stages that a change of `file` makes stale."""
    before = versions(root)
    path = root / "longtail" / file
    text = path.read_text()
    assert text.count(old) == 1, file
    path.write_text(text.replace(old, new))
    after = versions(root)
    return {stage.removeprefix(f"{CORE}.") for stage in STAGES if before[stage] != after[stage]}


def test_a_changed_comment_docstring_or_layout_makes_no_stage_stale(copied: Path) -> None:
    file, definition = "wikimedia/wikibase.py", "def read_entity("
    assert not changed(copied, file, definition, f"# a remark\n\n{definition}")
    assert not changed(copied, file, '"""One entity from its JSON;', '"""An entity, out of its JSON;')


def test_a_changed_formula_makes_only_dependent_stages_stale(copied: Path) -> None:
    stale = changed(copied, "questions/sampling.py", "np.exp(8 * draw - 6)", "np.exp(8 * draw - 5)")
    assert stale == {"questions.sampling"}
    stale = changed(copied, "wikimedia/articles.py", "10**12", "10**13")
    assert stale == {"questions.sampling", "wikimedia.page_views"}
    stale = changed(copied, "sandbox/population.py", "def mix(", "def mix_(")
    assert stale == {"sandbox.server"}


def test_modules_that_cannot_change_rows_make_no_stage_stale(copied: Path) -> None:
    assert not changed(copied, "transfer/limits.py", "interval_s: float = 0.3", "interval_s: float = 0.4")
    assert not changed(copied, "progress.py", "EVERY_S = 30.0", "EVERY_S = 31.0")


def test_a_module_that_moves_makes_no_stage_stale(copied: Path) -> None:
    before, core = versions(copied), copied / "longtail"
    shutil.move(core / "parsing" / "terms.py", core / "cleaned_terms.py")
    for file in core.rglob("*.py"):
        text = file.read_text()
        if f"{CORE}.parsing.terms" in text:
            file.write_text(text.replace(f"{CORE}.parsing.terms", f"{CORE}.cleaned_terms"))
    assert versions(copied) == before


def test_a_name_imported_from_another_module_makes_a_stage_stale(tmp_path: Path) -> None:
    """Both modules are imported before and after; only the home of the formula changes."""
    core = tmp_path / "longtail"
    core.mkdir(parents=True)
    for name, factor in (("first", 2), ("second", 3)):
        (core / f"{name}.py").write_text(f"OTHER = 1\n\ndef formula(x):\n    return {factor} * x\n")
    stage = f"import {CORE}.first\nimport {CORE}.second\nfrom {CORE}.{{}} import formula\n"
    found = set()
    for name in ("first", "second"):
        (core / "stage.py").write_text(stage.format(name))
        found.add(code_version(f"{CORE}.stage", root=tmp_path))
    assert len(found) == 2


def test_what_a_module_imports_of_its_own_package_is_covered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a retriever of a user's package; `json` is of another one."""
    package = tmp_path / "package_of_a_user"
    (package / "inner").mkdir(parents=True)
    files = {
        "__init__.py": "", "absolute.py": "X = 1", "relative.py": "X = 1", "unused.py": "X = 1", "inner/__init__.py": "",
        "inner/module.py":
            "import json\nimport package_of_a_user.absolute\nfrom .. import relative\nfrom ..inner import X\n",
    }  # fmt: skip
    for name, text in files.items():
        (package / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    def version() -> str:
        return code_version("package_of_a_user.inner.module")

    versions = [version()]
    for name in ("absolute.py", "relative.py", "inner/__init__.py"):
        (package / name).write_text("X = 2")
        versions.append(version())
    assert len(set(versions)) == 4
    (package / "unused.py").write_text("X = 2")
    assert version() == versions[-1]


def test_the_modules_left_out_exist() -> None:
    core = Path(longtail.__file__).parent
    for name in CANNOT_CHANGE_ROWS:
        path = core / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), name


def test_a_stage_may_leave_out_modules_that_it_does_not_use_for_its_rows(copied: Path) -> None:
    truthy = f"{CORE}.wikimedia.truthy_dump"
    ingest = f"{CORE}.wikimedia.ingest"
    before = code_version(ingest, root=copied), code_version(ingest, without=[truthy], root=copied)
    (copied / "longtail/wikimedia/truthy_dump.py").write_text("X = 1\n")
    after = code_version(ingest, root=copied), code_version(ingest, without=[truthy], root=copied)
    assert (before[0] != after[0], before[1] == after[1]) == (True, True)


def test_a_folders_version_includes_the_scripts_of_its_pages(copied: Path) -> None:
    before = folder_version(f"{CORE}.report", copied)
    chart = copied / "longtail/report/page/chart.js"
    chart.write_text(chart.read_text() + "\n// drawn anew\n")
    assert folder_version(f"{CORE}.report", copied) != before


def test_different_values_have_different_fingerprints() -> None:
    assert fingerprint("a", ["b"]) == fingerprint("a", ["b"])
    assert fingerprint("a", "b") != fingerprint("ab")
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})


SOURCE = '''\
"""A docstring."""

import json
from pathlib import Path  # a remark


def formula(x: int) -> int:
    """Twice."""
    return 2 * x
'''
PARSED = ParsedCode(
    "import json\nfrom pathlib import Path\n\ndef formula(x: int) -> int:\n    return 2 * x",
    (("json", ""), ("pathlib", "Path")),
)


@pytest.fixture
def another_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What this process has parsed for other tests is forgotten; Python keeps compiled files."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    module._parse_once.cache_clear()
    yield
    module._parse_once.cache_clear()


@pytest.fixture
def file(tmp_path: Path, another_process: None) -> Path:
    path = tmp_path / "formulas.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def read_in_another_process(file: Path) -> ParsedCode:
    module._parse_once.cache_clear()
    return parse_code(file)


def test_each_import_is_named(file: Path) -> None:
    file.write_text("import json, re\nimport sys\nfrom os import path, sep\n")
    assert parse_code(file).imports == (("json", ""), ("re", ""), ("sys", ""), ("os", "path"), ("os", "sep"))


def test_code_is_without_comments_and_docstrings_and_imports_are_named(file: Path) -> None:
    assert parse_code(file) == PARSED


def test_code_does_not_say_where_a_module_of_the_project_lies(file: Path) -> None:
    file.write_text("from longtail.storage.files import sync as synced\n")
    assert parse_code(file) == ParsedCode(
        "from dagster_project import sync as synced", (("longtail.storage.files", "sync"),)
    )


def test_what_one_process_parsed_the_next_one_reads(file: Path) -> None:
    parse_code(file)
    kept = module._cache_file(file)
    text = json.dumps(["x = 1", [["kept", ""]]]).encode()
    kept.write_bytes(module._seal(file.read_bytes(), text) + b"\n" + text)
    assert read_in_another_process(file) == ParsedCode("x = 1", (("kept", ""),))


def test_another_source_is_parsed_anew(file: Path) -> None:
    parse_code(file)
    file.write_text(SOURCE.replace("2 * x", "3 * x"), encoding="utf-8")
    for _ in range(2):
        assert "return 3 * x" in read_in_another_process(file).code


def test_a_kept_result_that_is_cut_or_altered_is_not_used(file: Path) -> None:
    parse_code(file)
    kept = module._cache_file(file)
    whole = kept.read_bytes()
    altered = [whole.replace(b"2 * x", b"4 * x"), whole.replace(b"pathlib", b"pathlid"), b"\xff" * 200]
    for text in [*(whole[:length] for length in range(0, len(whole), 7)), *altered]:
        kept.write_bytes(text)
        assert read_in_another_process(file) == PARSED
        assert kept.read_bytes() == whole


def test_a_result_of_another_python_is_not_used(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parse_code(file)
    kept = module._cache_file(file)
    of_this_python = kept.read_bytes()
    monkeypatch.setattr(sys, "version", "3.99.0 (of the future)")
    module._method.cache_clear()
    try:
        assert read_in_another_process(file) == PARSED
        assert kept.read_bytes() != of_this_python
    finally:
        monkeypatch.undo()
        module._method.cache_clear()


def test_nothing_is_kept_where_python_keeps_nothing_or_the_folder_cannot_be_written(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert parse_code(file) == PARSED
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file.with_name("__pycache__").write_text("a file where a folder must be")
    assert read_in_another_process(file) == PARSED


def test_a_folder_that_is_left_of_an_older_version_hides_no_module(copied: Path) -> None:
    before = versions(copied)
    (copied / "longtail/wikimedia/ingest/__pycache__").mkdir(parents=True)
    assert versions(copied) == before
