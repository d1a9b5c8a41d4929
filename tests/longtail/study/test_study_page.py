"""docs/study_file.md lists every key of a study file, its default, and every format, method and grounding prompt."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from longtail.embedding.settings import EncoderSettings, Hnsw, IvfPq
from longtail.imports import table
from longtail.imports.column_names import USUAL_NAMES
from longtail.imports.formats.answers import table as table_answers
from longtail.methods import METHODS, memory_method
from longtail.prompt_formats import GROUNDING_PROMPTS
from longtail.retrieval.retrievers.bm25 import Bm25Settings
from longtail.retrieval.retrievers.http import HttpSettings
from longtail.storage.home import PROJECT_ROOT
from longtail.study import imports, page
from longtail.study.counts import Counts
from longtail.study.datasets import Dataset
from longtail.study.decisions import Decisions
from longtail.study.grounding import Grounding, PortraitOf
from longtail.study.imports import Collection, Place, Results
from longtail.study.models import Model, Service
from longtail.study.popularity import Popularity
from longtail.study.prompts import PROMPT_FORMATS, Prompt, Sampling
from longtail.study.reference_questions import ReferenceQuestions, TagMe
from longtail.study.source import FactSample, Source
from longtail.study.study import Study
from longtail.study.sweep import Sweep
from longtail.study.text_models import Embeddings, Nli

PAGE = (PROJECT_ROOT / "docs/study_file.md").read_text(encoding="utf-8")
IN_ORDER = (
    Study, Source, FactSample, Dataset, Place, Prompt, Sampling, Model, Service, Results, Popularity, Embeddings, Nli,
    Collection, Counts, Decisions, Bm25Settings, EncoderSettings, IvfPq, Hnsw, HttpSettings, Grounding, PortraitOf, Sweep,
    ReferenceQuestions, TagMe,
)  # fmt: skip
NO_KEYS = {"limit", "study_folder", "place", "options", "kind"}
"""Fields that no study file has; `kind` is one, but of `Source`."""
OTHER_NAMES = {"imported": "import"}
MORE = {Study: {"questions"}, FactSample: {"text_env"}}


def tables() -> list[dict[str, str]]:
    """Key → default, for each table of keys."""
    found = re.findall(r"\| key \| default \| meaning \|\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE)
    rows = (re.findall(r"^\| `(\w+)` \|([^|]*)\|", table, flags=re.MULTILINE) for table in found)
    return [{key: default.strip() for key, default in table} for table in rows]


def keys_of(record: type[Any]) -> dict[str, Any]:
    """Key → default, as the code has it."""
    fields = {OTHER_NAMES.get(field.name, field.name): field.default for field in dataclasses.fields(record)}
    left_out = NO_KEYS - {"kind"} if record is Source else NO_KEYS
    left_out = left_out | {"path"} if record is Study else left_out
    return {key: value for key, value in fields.items() if key not in left_out}


def test_there_is_a_table_for_every_part_of_a_study() -> None:
    assert len(tables()) == len(IN_ORDER)


@pytest.mark.parametrize(
    ("record", "listed"), zip(IN_ORDER, tables(), strict=False), ids=lambda one: str(one)[:40]
)
def test_the_keys_and_their_defaults_are_those_of_the_code(record: type[Any], listed: dict[str, str]) -> None:
    keys = keys_of(record)
    assert set(listed) == {*keys, *MORE.get(record, ())}
    for key, default in keys.items():
        if isinstance(default, bool):
            assert listed[key] == str(default).lower(), key
        elif isinstance(default, (int, float)):
            assert float(listed[key].replace(",", "")) == default, key
        elif isinstance(default, str) and default:
            assert listed[key] == default, key


def test_formats_methods_and_prompts_are_listed() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert {*PROMPT_FORMATS, *METHODS, *GROUNDING_PROMPTS, *imports.PLACE_KEYS} <= named
    default = [name for name, method in METHODS.items() if method.is_default]
    assert tables()[0]["methods"] == f"{', '.join(default)}; short form: {memory_method().name}"


def test_the_parts_that_are_made_from_records_are_up_to_date() -> None:
    assert page.page(PAGE) == PAGE, "run python -m longtail.study.page"


def test_the_names_of_columns_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| (\w+) \| (both|questions|answers) \|(.*)\|$", PAGE, flags=re.MULTILINE)
    assert {row[0]: tuple(re.findall(r"`([\w.]+)`", row[2])) for row in rows} == USUAL_NAMES
    assert {row[0] for row in rows if row[1] != "answers"} == {*table.MEANINGS}
    assert {row[0] for row in rows if row[1] != "questions"} == {*table_answers.MEANINGS}
    assert all(names[0] == meaning for meaning, names in USUAL_NAMES.items() if names)
