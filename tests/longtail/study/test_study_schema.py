"""study.schema.json and docs/study_file.md are those of the parts; editors and readers see what `load_study` takes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from longtail.commands import schema
from longtail.errors import StudyError
from longtail.imports.column_names import USUAL_NAMES
from longtail.imports.formats.answers import table as table_answers
from longtail.imports.formats.questions import table
from longtail.methods import METHODS, memory_method
from longtail.prompt_formats import GROUNDING_PROMPTS
from longtail.storage.home import DEFAULT_STUDY_FILE, PROJECT_ROOT
from longtail.study.imports import Place
from longtail.study.parts import keys_of, meanings_of
from longtail.study.prompts import PROMPT_FORMATS
from longtail.study.schema import FILE, PARTS, fill_tables, schema_text
from longtail.study.study import Study
from longtail.study.yaml_text import read_yaml
from tests.longtail.study.test_imports_declared import VALID as OF_FILES
from tests.longtail.study.valid_study import VALID, edited

PAGE = (PROJECT_ROOT / "docs/study_file.md").read_text(encoding="utf-8")
SHIPPED = [DEFAULT_STUDY_FILE, *sorted((PROJECT_ROOT / "studies").glob("*.yaml"))]
SCHEMA = jsonschema.Draft202012Validator(json.loads(schema_text()))


def test_the_schema_that_is_shipped_is_that_of_the_parts() -> None:
    shipped = (PROJECT_ROOT / "studies" / FILE).read_text(encoding="utf-8")
    assert shipped == schema_text(), "run longtail schema"
    SCHEMA.check_schema(json.loads(shipped))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_studies_name_the_schema_and_fit_it(path: Path) -> None:
    line, _ = path.read_text(encoding="utf-8").split("\n", 1)
    named = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", line)
    assert named
    assert (path.parent / named[1]).resolve() == PROJECT_ROOT / "studies" / FILE
    assert [*SCHEMA.iter_errors(read_yaml(path))] == []


@pytest.mark.parametrize("raw", [VALID, OF_FILES, {"questions": "mine.csv", "models": ["sandbox:s"]}])
def test_studies_with_every_key_fit_the_schema(raw: dict[str, Any]) -> None:
    assert [*SCHEMA.iter_errors(raw)] == []


@pytest.mark.parametrize(
    ("raw", "path", "value"),
    [
        (VALID, "modles", []),
        (VALID, "name", "Big Name"),
        (VALID, "top_k", 0),
        (VALID, "sampling.temperature", 0),
        (VALID, "source.path_env", "X"),
        (VALID, "models.1.service.api_key", "k"),
        (VALID, "retrievers.0.kind", "dense"),
        (VALID, "retrievers.1.search", "flat"),
        (OF_FILES, "datasets.0.import.split", "dev"),
        (OF_FILES, "collections.0.date", "20.12.2018"),
        (OF_FILES, "models.0.results.0.method", "bm25"),
    ],
)
def test_the_schema_refuses_what_a_run_refuses(
    load: Callable[[object], Study], raw: dict[str, Any], path: str, value: object
) -> None:
    wrong = edited(raw, path, value)
    assert [*SCHEMA.iter_errors(wrong)]
    with pytest.raises(StudyError):
        load(wrong)


def test_an_installed_longtail_writes_the_schema_into_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(schema, "IS_CLONE", False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / FILE).mkdir()
    assert schema.main() == 1
    assert capsys.readouterr().err == f"error: {tmp_path / FILE}: Is a directory; let this user write there\n"
    (tmp_path / FILE).rmdir()
    assert schema.main() == 0
    assert (tmp_path / FILE).read_text(encoding="utf-8") == schema_text()


def test_the_tables_of_the_page_are_those_of_the_parts() -> None:
    assert fill_tables(PAGE) == PAGE, "run longtail schema"


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_every_key_has_a_meaning(part: type[Any]) -> None:
    assert all(meanings_of(part).values())


def test_formats_methods_and_prompts_are_listed() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert {*PROMPT_FORMATS, *METHODS, *GROUNDING_PROMPTS, *keys_of(Place)} <= named
    default = [name for name, method in METHODS.items() if method.is_default]
    assert f"| {', '.join(default)}; short form: {memory_method().name} |" in PAGE


def test_the_names_of_columns_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| (\w+) \| (both|questions|answers) \|(.*)\|$", PAGE, flags=re.MULTILINE)
    assert {row[0]: tuple(re.findall(r"`([\w.]+)`", row[2])) for row in rows} == USUAL_NAMES
    assert {row[0] for row in rows if row[1] != "answers"} == {*table.MEANINGS}
    assert {row[0] for row in rows if row[1] != "questions"} == {*table_answers.MEANINGS}
    assert all(names[0] == meaning for meaning, names in USUAL_NAMES.items() if names)
