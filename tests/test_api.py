"""`import longtail`: five functions, three of which work without Dagster, dbt and DuckDB."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pytest

import longtail
from longtail.storage.home import PROJECT_ROOT
from tests.longtail.router.hand_made import marts_of, routers_of


def test_the_examples_of_the_docstrings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT_ROOT)
    assert doctest.testmod(longtail) == (0, 5)


def test_a_shipped_study_is_found_from_any_folder_unless_one_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert longtail.load_study("studies/popqa.yaml").path == PROJECT_ROOT / "studies/popqa.yaml"
    text = (PROJECT_ROOT / "studies/popqa.yaml").read_text(encoding="utf-8")
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies/popqa.yaml").write_text(text, encoding="utf-8")
    assert longtail.load_study("studies/popqa.yaml").path == Path("studies/popqa.yaml")
    with pytest.raises(longtail.LongtailError, match=r"nowhere\.yaml"):
        longtail.load_study("nowhere.yaml")


@pytest.mark.parametrize("limit", [0, -5, True, 1.5])
def test_a_limit_that_is_no_number_of_questions_is_refused(limit: int) -> None:
    with pytest.raises(longtail.LongtailError, match=f"limit: {limit} is not a number of questions"):
        longtail.load_study(PROJECT_ROOT / "study.yaml", limit)


@pytest.mark.parametrize("limit", [None, 5])
def test_a_run_is_of_exactly_this_study_and_its_failure_is_an_error(
    limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, codes = longtail.load_study(PROJECT_ROOT / "study.yaml", limit), iter([0, 1])

    def run(command: list[str], env: dict[str, str], check: bool) -> SimpleNamespace:
        assert command == [sys.executable, "-m", "longtail", "run", str(study.path)]
        assert (env["LONGTAIL_LIMIT"], env["LONGTAIL_QUICK"]) == (str(limit or ""), "")
        assert env["PATH"] == os.environ["PATH"]
        return SimpleNamespace(returncode=next(codes))

    monkeypatch.setenv("LONGTAIL_LIMIT", "9")
    monkeypatch.setattr(subprocess, "run", run)
    assert longtail.run(study) == study.home.published
    with pytest.raises(longtail.LongtailError, match="exit code 1"):
        longtail.run(study)


def test_a_warehouse_opens_read_only_by_study_folder_and_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path))
    study = longtail.load_study(PROJECT_ROOT / "study.yaml")
    with pytest.raises(longtail.LongtailError, match="nothing is published yet; run `make run "):
        longtail.open_warehouse(study)
    study.home.published.mkdir(parents=True)
    with duckdb.connect(str(study.home.published_warehouse)) as made:
        made.execute("create schema marts; create table marts.numbers as select 7 as n")
    for place in (study, study.home.published, str(study.home.published_warehouse)):
        with longtail.open_warehouse(place) as warehouse:
            assert warehouse.sql("from numbers").df()["n"].tolist() == [7]
            assert warehouse.sql("from numbers").to_arrow_table() == pa.table(
                {"n": pa.array([7], pa.int32())}
            )
            with pytest.raises(duckdb.Error, match="read-only"):
                warehouse.execute("delete from numbers")


@pytest.mark.parametrize(
    ("predictions", "answers", "said"),
    [(["a"], [], "got 1 and 0"), (["a"], ["a"], "got one text"), ("a", [["a"]], "got one text"),
     ([None], [["a"]], "got None"), (["a"], [["a", 5]], "got 5")],
)  # fmt: skip
def test_lists_that_do_not_fit_are_refused(
    predictions: Sequence[str], answers: list[list[str]], said: str
) -> None:
    with pytest.raises(longtail.LongtailError, match=said):
        longtail.score(predictions, answers)


MINIMAL = """
import sys
from importlib.machinery import PathFinder
absent, found = set(sys.argv[2].split()), PathFinder.find_spec
PathFinder.find_spec = staticmethod(
    lambda name, *more: None if name.partition(".")[0] in absent else found(name, *more)
)
import longtail
from longtail.generation.backends.base import Decoding
from longtail.generation.backends.base import load_backend
study = longtail.load_study("study.yaml")
[answer] = load_backend(study.models[0]).generate(["Q: What is the capital of France?\\nA:"], Decoding(4))
[scores] = longtail.score([answer.text], [[answer.text]])
assert answer.text and scores.is_exact_match
print(longtail.load_router(sys.argv[1]).decide(popularity=1).retrieve)
assert not absent & {name.partition(".")[0] for name in sys.modules}
"""
MODULES = {
    "scikit-learn": "sklearn",
    "dbt-core": "dbt",
    "dbt-duckdb": "dbt",
    "vl-convert-python": "vl_convert",
}


def test_a_minimal_install_generates_scores_and_decides(tmp_path: Path) -> None:
    """No package of the extra `platform` can be imported, nor what tests use."""
    extra = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {re.split(r"[^\w-]", one)[0] for one in extra["platform"]} - {
        "typer"
    }  # which transformers imports
    absent = {MODULES.get(name, name.replace("-", "_")) for name in names} | {"pandas", "faiss", "accelerate"}
    assert {"dagster", "dagster_dbt", "dbt", "duckdb", "sklearn", "scipy"} <= absent
    router = next(iter(routers_of(marts_of(tmp_path), tmp_path / "routers")))
    done = subprocess.run(
        [sys.executable, "-c", MINIMAL, str(tmp_path / f"routers/{router}.json"), " ".join(absent)],
        cwd=PROJECT_ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout in ("True\n", "False\n"), done.stderr[-2000:]
