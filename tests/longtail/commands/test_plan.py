"""`longtail plan` of a study of files that has never run: what its prompts will be, without computing anything."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from longtail.commands.plan import assume_inputs
from longtail.generation.engine.session import ModelSession
from longtail.generation.engine.task import Scope
from longtail.generation.estimate import estimate
from longtail.generation.tasks.registry import TASKS
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.study.study import Study

_LOG = logging.getLogger(__name__)
TEXT = "It stands at the river. "


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    rows = (f"Where is Tower {i}?,Town {i},Tower {i},{i},{TEXT * (10, 10, 400, 0)[i]}\n" for i in range(4))
    (tmp_path / "towers.csv").write_text("question,answers,subject,popularity,passage\n" + "".join(rows))
    (tmp_path / "towers.yaml").write_text(
        "questions: towers.csv\nmodels: [{name: s, path: 'fake:digest', backend: fake}]\nmethods: [closed_book, bm25]\n"
    )
    return load_study(tmp_path / "towers.yaml")


def test_prompts_are_counted_with_the_passages_beside_the_questions(study: Study, tmp_path: Path) -> None:
    lake = assume_inputs(study, Lake(tmp_path / "assumed"))
    with ModelSession(_LOG) as session:
        memory, passages = (
            estimate(TASKS["answers"], Scope(study, lake, study.models[0], method), session)
            for method in study.methods
        )
    assert memory is not None
    assert passages is not None
    assert (memory.n_missing, passages.n_missing) == (4, 4)
    beside, usual = len(TEXT) * 10 // 4, 600 // 4
    passage = 20 * len(TEXT) // 4  # the third text is cut to passages of 100 words
    assert passages.prompt_tokens - memory.prompt_tokens == pytest.approx(
        2 * beside + passage + usual, rel=0.1
    )
    assert not study.home.lake.exists()
