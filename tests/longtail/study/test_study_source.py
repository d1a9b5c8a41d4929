"""Key `source.sample`: its allowed values, and the keys that it needs."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from longtail.errors import StudyError
from longtail.study.file import load_study
from longtail.study.source import FactSample
from longtail.study.study import Study

BASE: dict[str, Any] = {
    "name": "sampled",
    "description": "d",
    "source": {"kind": "sandbox", "snapshot": "2026-10"},
    "datasets": [{"name": "facts"}],
    "prompts": [{"name": "plain"}],
    "models": [{"name": "m", "path": "fake", "backend": "fake"}],
    "popularity": {"last_month": "2026-10"},
}
BY_VIEWS = {"frequency": "popularity", "month": "2026-09"}


def load(folder: Path, sample: object, **more: Any) -> Study:
    raw = copy.deepcopy(BASE)
    raw["source"]["sample"] = sample
    raw |= more
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(raw), encoding="utf-8")
    return load_study(path)


@pytest.mark.parametrize(
    ("sample", "popularity", "expected"),
    [
        (BY_VIEWS, {}, FactSample("popularity", 2000, "2026-09")),
        ({"frequency": "popularity"}, {"measure": "sitelinks"}, FactSample("popularity")),
        ({"frequency": "text", "text": "a b"}, {}, FactSample("text", text_path="a b")),
        (
            {"frequency": "text", "text_env": "T", "match": "anywhere"},
            {"measure": "sitelinks"},
            FactSample("text", text_env="T", match="anywhere"),
        ),
    ],
)
def test_the_allowed_values_of_a_sample(
    tmp_path: Path, sample: dict[str, Any], popularity: dict[str, Any], expected: FactSample
) -> None:
    assert load(tmp_path, sample, popularity=popularity).source.sample == expected


@pytest.mark.parametrize(
    ("sample", "more", "message"),
    [
        (None, {}, "source.sample must be a mapping of keys, not nothing"),
        ({}, {}, "source.sample.frequency: is missing; it must be one of popularity, text"),
        (BY_VIEWS | {"text": "x"}, {}, "source.sample.text: goes with frequency: text"),
        (BY_VIEWS | {"match": "anywhere"}, {}, "source.sample.match: goes with frequency: text"),
        (BY_VIEWS | {"month": "2015-06"}, {}, "source.sample.month: '2015-06' has no page views; allowed: '2015-07'"),
        ({"frequency": "popularity"}, {}, "source.sample.month: is missing: the month whose page views weight"),
        (BY_VIEWS, {"popularity": {"measure": "sitelinks"}}, "source.sample.month: goes with frequency: popularity, me"),
        ({"frequency": "text", "text": "x", "month": "2026-09"}, {}, "source.sample.month: goes with frequency: popu"),
        ({"frequency": "text"}, {}, "source.sample.text: exactly one of text and text_env must name the text sample"),
    ],
)  # fmt: skip
def test_messages_of_the_sample(tmp_path: Path, sample: object, more: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError) as caught:
        load(tmp_path, sample, **more)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_sample_needs_a_dataset_of_the_source_and_a_measure_that_it_knows(tmp_path: Path) -> None:
    source = {"kind": "wikidata", "snapshot": "2026-09", "sample": {"frequency": "popularity"}}
    imported = {"name": "popqa", "import": {"format": "popqa", "path": "popqa.tsv"}}
    measure = {"measure": "imported"}
    with pytest.raises(StudyError, match=r"source\.sample: no dataset is built from the source"):
        load(tmp_path, {}, source=source, datasets=[imported], popularity=measure)
    with pytest.raises(
        StudyError,
        match=r"source\.sample\.frequency: popularity\.measure imported does not cover the source's own",
    ):
        load(tmp_path, {}, source=source, datasets=[imported, {"name": "facts"}], popularity=measure)
