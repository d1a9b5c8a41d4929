"""What a file holds is parsed once and kept: a kept result is used only for exactly the source that it was made from."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from longtail.storage import fingerprints as module
from longtail.storage.fingerprints import ParsedCode, parse_code

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


@pytest.fixture(autouse=True)
def another_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What this process has parsed for other tests is forgotten; Python keeps compiled files."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    module._parse_once.cache_clear()
    yield
    module._parse_once.cache_clear()


@pytest.fixture
def file(tmp_path: Path) -> Path:
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
