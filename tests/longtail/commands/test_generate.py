"""`longtail generate`: a study is prepared with Dagster, and answered where there is none."""

from __future__ import annotations

import dataclasses
import logging
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import longtail
from longtail.commands import generate
from longtail.commands.plan import estimate
from longtail.errors import LongtailError
from longtail.generation.engine.job import Shard
from longtail.generation.engine.session import ModelSession
from longtail.generation.engine.task import Scope
from longtail.generation.tasks.registry import TASKS
from longtail.storage.home import PROJECT_ROOT
from longtail.storage.lake import Lake
from longtail.study.models import Service
from tests.in_process_dbt import put_parsed
from tests.journeys.commands import environment, run_study

STUDY = """
name: two_machines
description: d
source: {kind: sandbox, seed: 0, facts_per_relation: 8, snapshot: "2026-10"}
datasets: [{name: sandbox, max_questions_per_relation: 1}]
prompts: [{name: zero_shot, format: qa}]
models:
  - {name: reference_s, path: "sandbox:s", batch_tokens: 64}
  - {name: broken, path: "fake:digest?fail_on_call=1", backend: fake}
  - {name: reference_m, path: "sandbox:m"}
methods: [closed_book, genread]
popularity: {measure: page_views, n_months: 1, last_month: "2026-10"}
background_tokens: 20
seed: 0
"""
WITHOUT = """
import sys
from importlib.machinery import PathFinder
found = PathFinder.find_spec
absent = {"dagster", "dbt", "duckdb", "bm25s", "sklearn", "scipy"}
PathFinder.find_spec = staticmethod(
    lambda name, *more: None if name.partition(".")[0] in absent else found(name, *more)
)
from longtail.__main__ import main
sys.exit(main(["generate", *sys.argv[1:]]))
"""


@pytest.fixture(scope="module")
def study_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two machines")
    (folder / "study.yaml").write_text(STUDY, encoding="utf-8")
    return folder / "study.yaml"


def generate_there(home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *map(str, arguments)],
        cwd=PROJECT_ROOT, env=environment(home), capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("text", ["2", "0/2", "3/2", "1/0", "a/b", "1/2/3"])
def test_a_shard_is_one_of_several(text: str, study_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_STUDY", str(study_file))
        assert generate.main(text) == 1
    assert f"shard {text!r}: give one of several, such as 2/4" in capsys.readouterr().err


def test_shards_run_beside_each_other_but_not_beside_a_run(study_file: Path) -> None:
    study = longtail.load_study(study_file)
    with generate._alone(study, Shard(1, 2)), generate._alone(study, Shard(2, 2)):
        with pytest.raises(LongtailError, match="computes shard 1/2"), generate._alone(study, Shard(1, 2)):
            pass
        with pytest.raises(LongtailError, match="another run"), generate._alone(study, None):
            pass
    with (
        generate._alone(study, None),
        pytest.raises(LongtailError, match="another run"),
        generate._alone(study, Shard(1, 2)),
    ):
        pass


def test_a_home_that_cannot_be_written_is_one_line(
    study_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LONGTAIL_STUDY", str(study_file))
    monkeypatch.setenv("LONGTAIL_HOME", str(study_file))
    assert generate.main() == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: {study_file}/")
    assert "Not a directory; " in said
    assert said.endswith("choose another folder: LONGTAIL_HOME=<folder>\n")


def test_a_service_is_not_sharded(study_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    study = longtail.load_study(study_file)
    model = dataclasses.replace(study.models[0], service=Service("http://127.0.0.1"))
    scope = Scope(study, Lake(study.home.lake), model)
    with caplog.at_level(logging.INFO, "longtail"), ModelSession(logging.getLogger()) as session:
        generate._shard_of_model(scope, Shard(1, 2), session)
    assert "reference_s: not sharded" in caplog.text


def test_what_is_generated_elsewhere_is_finished_here(
    study_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    home = study_file.parent / "home"
    for name, value in {"LONGTAIL_STUDY": study_file, "LONGTAIL_HOME": home}.items():
        monkeypatch.setenv(name, str(value))
    for shard in ("1/2", ""):
        assert generate.main(shard) == 1
        told = capsys.readouterr().err.splitlines()
        assert [line.split(":")[1] for line in told] == [" reference_s", " broken", " reference_m"]
        assert "questions" in told[0]
    put_parsed(home, study_file)
    prepared = run_study(home, study_file, options=["--prepare"])
    assert prepared.returncode == 0, prepared.stderr
    assert "`longtail generate`" in prepared.stdout
    elsewhere = study_file.parent / "elsewhere"
    shutil.copytree(home, elsewhere)
    codes, told, found, made = [], [], [], []
    with caplog.at_level(logging.INFO, "longtail"):
        for place, shard in ((elsewhere, "2/2"), (home, "1/2")):
            monkeypatch.setenv("LONGTAIL_HOME", str(place))
            caplog.clear()
            codes.append(generate.main(shard))
            told += capsys.readouterr().err.splitlines()
            found += re.findall(r"reference_s\|closed_book: (\d+) of 16 results", caplog.text)
            assert "reference_s|genread waits for generated_passages" in caplog.text
            made += re.findall(r"answers (reference_m\|closed_book: 16 rows)", caplog.text)
    assert sum(codes) == len(told) > 0  # a broken model stops no other
    assert {line.partition("broken: ")[0] for line in told} == {"error: "}
    assert made == ["reference_m|closed_book: 16 rows"]  # by the shard that has its only batch
    assert 0 < int(found[0]) < 16
    assert sum(map(int, found)) == 16
    third = shutil.copytree(home / "row_cache", study_file.parent / "third")  # a machine that adds nothing
    merged = generate_there(home, study_file, "--merge", f"{third}:{elsewhere / 'row_cache'}")
    assert merged.returncode == 1
    assert merged.stderr.startswith("error: broken: ")
    assert merged.stderr.count("\n") == 1
    assert "answers reference_s|closed_book: 16 rows" in merged.stdout
    assert "answers reference_s|genread: 16 rows" in merged.stdout
    assert f"{third}: " in merged.stdout
    study = longtail.load_study(study_file)
    lake = Lake(study.home.lake)
    with ModelSession(logging.getLogger()) as session:
        for model in ("reference_s", "reference_m"):
            for method in study.methods:
                scope = Scope(study, lake, study.model(model), method)
                assert estimate(TASKS["answers"], scope, session) is None
        scope = Scope(study, lake, study.model("broken"), "closed_book")
        assert estimate(TASKS["answers"], scope, session) is not None
