"""The study as lake tables, and parameters counted from safetensors headers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from dagster_project.core.errors import BackendError
from dagster_project.core.home import DEFAULT_STUDY_FILE
from dagster_project.core.lake import Lake
from dagster_project.core.study import Study
from dagster_project.core.study_file import load_study
from dagster_project.core.study_tables import STUDY_TABLES, count_parameters, describe_study


def test_tables_restate_the_study(tmp_path: Path, hand_study: Study) -> None:
    lake = Lake(tmp_path / "lake")
    outcomes = describe_study(hand_study, lake)
    assert tuple(outcome.table for outcome in outcomes) == STUDY_TABLES
    assert all(outcome.was_current for outcome in describe_study(hand_study, lake))
    assert lake.read("models").to_pylist() == [
        {
            "model": "tiny", "family": "tiny", "n_parameters": None, "backend": "fake", "path": "nowhere",
            "revision": None, "dtype": "float32", "quantisation": "none",
        }
    ]  # fmt: skip
    methods = lake.read("methods").to_pylist()
    assert [(row["method"], row["is_parametric"]) for row in methods] == [
        ("closed_book", True), ("bm25", False), ("dense", False), ("oracle", False),
    ]  # fmt: skip
    assert lake.read("prompts").to_pylist() == [
        {
            "prompt": "zero_shot",
            "format": "qa",
            "shots": 0,
            "draw": None,
            "asks": ["questions", "paraphrases"],
        }
    ]
    dataset = lake.read("datasets").to_pylist()[0]
    assert (dataset["dataset"], dataset["source"], dataset["snapshot"]) == ("facts", "sandbox", "2026-10")
    assert len(dataset["relations"]) == 16
    assert lake.read("popularity_windows").to_pylist() == [
        {"measure": "page_views", "n_months": 12, "last_month": "2026-10"}
    ]


def test_a_changed_study_rewrites_only_what_changed(
    tmp_path: Path, make_study: Callable[[str], Study], hand_text: str
) -> None:
    lake = Lake(tmp_path / "lake")
    describe_study(make_study(hand_text), lake)
    changed = describe_study(make_study(hand_text.replace("name: tiny", "name: small")), lake)
    assert [outcome.table for outcome in changed if not outcome.was_current] == ["models"]


def test_parameters_are_counted_from_the_header(
    tmp_path: Path, make_study: Callable[[str], Study], hand_text: str
) -> None:
    folder = tmp_path / "weights"
    folder.mkdir()
    save_file({"a.weight": torch.zeros(3, 5), "a.bias": torch.zeros(5)}, folder / "one.safetensors")
    save_file(
        {
            "h.0.attn.bias": torch.zeros(1, 1, 8, 8),
            "h.0.attn.c_attn.bias": torch.zeros(7),
            "scale": torch.tensor(1.0),
        },
        folder / "two.safetensors",
    )
    assert count_parameters(folder) == 15 + 5 + 7 + 1  # the causal mask is no parameter
    lake = Lake(tmp_path / "lake")
    describe_study(make_study(hand_text.replace("path: nowhere", f"path: {folder}")), lake)
    assert lake.read("models")["n_parameters"].to_pylist() == [28]
    said = hand_text.replace("path: nowhere", f"path: {folder}, n_parameters: 9")
    describe_study(make_study(said), lake)
    assert lake.read("models")["n_parameters"].to_pylist() == [9]


def test_counts_equal_those_of_the_loaded_reference_models() -> None:
    from transformers import AutoModelForCausalLM

    from dagster_project.core.sandbox.models import reference_model_path

    folder = reference_model_path("s")
    assert count_parameters(folder) == AutoModelForCausalLM.from_pretrained(folder).num_parameters()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        b"\xff" * 16,
        (9).to_bytes(8, "little") + b"{not json",
        (2).to_bytes(8, "little") + b"[]",
        (9).to_bytes(8, "little") + b'{"a": []}',
        (20).to_bytes(8, "little") + b'{"a": {"shape": "x"}',
        (18).to_bytes(8, "little") + b'{"a":{"shape":[.]}',
    ],
)
def test_damaged_weights_are_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(BackendError, match=r"model\.safetensors: not a safetensors file"):
        count_parameters(tmp_path)


def test_default_study(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    describe_study(load_study(DEFAULT_STUDY_FILE), lake)
    rows = lake.read("models").to_pylist()
    sizes = [row["n_parameters"] for row in rows]
    assert all(sizes)
    assert sizes == sorted(sizes)
