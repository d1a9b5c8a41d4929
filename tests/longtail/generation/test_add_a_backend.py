"""A new backend is one module and one record: the class here, registered by such a record, answers a study."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from small_study import answer, fill_lake, small_study

from longtail.errors import StudyError
from longtail.generation.backends.fake import FakeBackend
from longtail.storage.lake import Lake
from longtail.study.backends import BACKENDS, GENERATE, Backend
from longtail.study.file import load_study


class ToyBackend(FakeBackend):
    """Says what the fake one says, and can do nothing but generate."""

    capabilities = frozenset({GENERATE})


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Backend(f"{__name__}:ToyBackend", frozenset({GENERATE}), frozenset({"path", "dtype"}))
    monkeypatch.setitem(BACKENDS, "toy", toy)


def test_a_study_is_answered_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    study = small_study(tmp_path, "fake:echo", backend="toy")
    fill_lake(Lake(study.home.lake), 2)
    outcome = answer(study)
    rows = Lake(study.home.lake).read("answers", "tiny|closed_book")
    assert outcome.stamp.n_rows == rows.num_rows == 20
    assert set(rows["engine"].to_pylist()) == {"fake 1"}


def test_study_yaml_knows_its_keys_and_refuses_those_of_others(tmp_path: Path) -> None:
    raw = {
        "name": "toy", "description": "d", "source": {"kind": "sandbox", "snapshot": "2026-10"},
        "datasets": [{"name": "sandbox"}], "prompts": [{"name": "plain"}], "methods": ["closed_book"],
        "popularity": {"last_month": "2026-09"},
        "models": [{"name": "m", "backend": "toy", "path": "fake:echo", "dtype": "float16"}],
    }  # fmt: skip
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump(raw))
    assert load_study(file).model("m").dtype == "float16"
    for key, value in {"device": "cuda", "batch_tokens": 100}.items():
        file.write_text(yaml.safe_dump(raw | {"models": [raw["models"][0] | {key: value}]}))
        with pytest.raises(
            StudyError, match=rf"models\[0\]\.{key}: has no meaning for backend toy; leave it out"
        ):
            load_study(file)
