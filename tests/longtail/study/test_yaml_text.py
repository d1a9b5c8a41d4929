"""The text of study files: what is no study is refused in one line, whatever it holds."""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.errors import StudyError
from longtail.study.file import load_study
from longtail.study.study import Study
from tests.longtail.study.valid_study import VALID


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file must be a mapping of keys, not nothing"),
        ("- a", "the file must be a mapping of keys, not list"),
        ("a: *x", "is not valid YAML: line 1, column 4: found undefined alias 'x'"),
        (
            "a: !!python/object/apply:os.system [ls]",
            "line 1: tags (tag:yaml.org,2002:python/object/apply:os.system)",
        ),
        ("name: 2026-99-99", "name: '2026-99-99' must be lower-case letters"),
        ("name: " + "9" * 5_000, "line 1: a number of 5,000 characters, which no study needs"),
        ("[" * 50_000, "line 1: nested more than 20 levels deep"),
        ("name: " + "x" * 5_000, "name: is a text of 5,000 characters; at most 4,000 are allowed"),
        ("? " + "x" * 5_000 + "\n: 1", "xxxxx…: unknown key"),
        ("name: " + "x" * 100_000, "has more than 100,000 bytes, which no study needs"),
        ("a: &x [*x]", "line 1: *x refers to a value that contains it"),
        ("name: one\nseed: 1\nname: two", "line 3: key name appears twice, first in line 1; keep one"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n  <<: *x", "line 4: key << appears twice, first in line 3; keep one"),
        ('"a\\nb": 1', "unknown key"),
        ("top_k: 0x" + "f" * 20_000, "name: is missing; it must be a text"),
    ],
    ids=lambda value: value[:30],
)
def test_files_that_are_no_study_are_refused(
    refusal: Callable[[object], str], text: str, message: str
) -> None:
    assert message in refusal(text)


def bomb(form: str) -> str:
    """Nine values eight times over, all under keys of a study: 43 million values."""
    keys = ("seed", "source", "datasets", "prompts", "models", "methods", "popularity", "top_k", "sampling")
    lines = [f"{keys[0]}: &a0 {{x: lol}}"]
    lines += [
        f"{key}: &a{i} {form.format(', '.join([f'*a{i - 1}'] * 9))}" for i, key in enumerate(keys[1:], 1)
    ]
    return "\n".join([*lines, "name: *a8"])


@pytest.mark.parametrize("form", ["[{}]", "{{<<: [{}]}}"])
def test_a_bomb_of_aliases_is_refused_before_it_is_expanded(
    refusal: Callable[[object], str], form: str
) -> None:
    assert len(bomb(form)) < 709
    assert "study.yaml: line 5: more than 10,000 values up to here" in refusal(bomb(form))


def test_small_aliases_and_merges_are_read(load: Callable[[object], Study]) -> None:
    text = yaml.safe_dump(
        {key: value for key, value in VALID.items() if key not in ("models", "grounding", "sweep")}
    )
    models = """
models:
- &small {name: one, path: "sandbox:s", batch_tokens: 4_096, device_hour_usd: 1.5e-2}
- {<<: *small, name: two, path: "sandbox:m"}
"""
    one, two = load(text + models).models
    assert (one.batch_tokens, one.device_hour_usd) == (4096, 0.015)
    assert two == dataclasses.replace(one, name="two", family="two", path="sandbox:m")


@pytest.mark.parametrize(
    "value", ["1:30", "010", "0x10", "0b1", "2026-10-01", "1e3", "yes", "=", "1_", ".inf"]
)
def test_a_number_has_decimal_digits(load: Callable[[object], Study], value: str) -> None:
    text = yaml.safe_dump({key: value for key, value in VALID.items() if key != "seed"})
    with pytest.raises(StudyError, match=r"seed: must be a whole number of 0 to 1000000000000, not "):
        load(f"{text}seed: {value}\n")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no such study file; give the path of one"):
        load_study(tmp_path / "absent.yaml")
    with pytest.raises(StudyError, match="cannot be read"):
        load_study(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")
    with pytest.raises(StudyError, match="cannot be read"):
        load_study(tmp_path / "latin.yaml")


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["2026-10", "qa", "sandbox", "bm25", "father", "", "lake", "per_question"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def places(value: object, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    pairs = (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))
        if isinstance(value, list)
        else []
    )
    return [here for key, inner in pairs for here in [(*way, key), *places(inner, (*way, key))]]


def outcome(text: str) -> Study | StudyError:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.yaml"
        path.write_text(text, encoding="utf-8", errors="replace")
        try:
            return load_study(path)
        except StudyError as error:
            return error


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_change_gives_a_study_or_a_study_error(data: st.DataObject) -> None:
    raw = copy.deepcopy(VALID)
    for _ in range(data.draw(st.integers(1, 3))):
        way = data.draw(st.sampled_from(places(raw)))
        place: Any = raw
        for part in way[:-1]:
            place = place[part]
        if data.draw(st.booleans()):
            place[way[-1]] = data.draw(VALUES)
        elif isinstance(place, dict):
            place[data.draw(st.text(max_size=6))] = data.draw(VALUES)
        if not places(raw):
            break
    result = outcome(yaml.dump(raw, Dumper=yaml.CSafeDumper, allow_unicode=True))
    assert isinstance(result, Study) or len(str(result).splitlines()) == 1


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_gives_a_study_or_a_study_error(text: str) -> None:
    result = outcome(text)
    assert isinstance(result, StudyError)
    assert len(str(result).splitlines()) == 1
