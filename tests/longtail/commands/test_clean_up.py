"""`longtail clean-up`: it lists, removes what is named, and nothing that cannot be made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from longtail.commands import clean_up
from longtail.storage.home import PROJECT_ROOT
from longtail.storage.ownership import only_one

STUDY = (PROJECT_ROOT / "studies/according_to_sandbox.yaml").read_text(encoding="utf-8")
FILES = (
    "mine/lake/answers/a.parquet", "row_cache/a.sqlite", "mine/tuned_models/a", "mine/indexes/bm25/a",
    "mine/build/warehouse.duckdb", "dagster/history/runs.db", "cache/huggingface/a", "cache/embeddings.sqlite",
    "mine/published/warehouse.duckdb", "mine/published/report.html", "mine/published/versions/1.duckdb",
    "mine/published/versions/2.duckdb", "mine/published/exports/1/a", "mine/published/exports/2/a", "other/lake/a",
)  # fmt: skip


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    (tmp_path / "mine.yaml").write_text(
        STUDY.replace("name: according_to_sandbox", "name: mine", 1), encoding="utf-8"
    )
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LONGTAIL_STUDY", str(tmp_path / "mine.yaml"))
    for name in FILES:
        path = tmp_path / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 1_000_000)
    (tmp_path / "home/mine/published/export").symlink_to("exports/2")
    (tmp_path / "home/mine/indexes/link").hardlink_to(tmp_path / "home/cache/huggingface/a")
    return tmp_path / "home"


def files(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()} - {
        "mine/published/export"
    }


def test_without_a_choice_it_lists_and_removes_nothing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(home)
    assert clean_up.main() == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert {line.split()[2]: round(float(line.split()[0])) for line in lines} == {
        "lake": 1, "row_cache": 1, "tuned_models": 1, "versions": 2, "published": 4, "indexes": 2, "build": 1,
        "dagster": 1, "cache/embeddings.sqlite": 1, "cache/huggingface": 0,
    }  # fmt: skip
    assert last.startswith("Nothing was removed.")
    assert files(home) == before


def test_an_empty_home_is_said_to_be_empty(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(home / "empty"))
    assert clean_up.main() == 0
    assert capsys.readouterr().out == f"{home / 'empty/mine'}: nothing is there yet\n"


def test_what_is_named_goes_and_the_rest_stays(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(home)
    assert clean_up.main("versions, indexes,build,dagster,cache/huggingface") == 0
    assert before - files(home) == {
        "mine/published/versions/1.duckdb", "mine/published/exports/1/a", "mine/indexes/bm25/a", "mine/indexes/link",
        "mine/build/warehouse.duckdb", "dagster/history/runs.db", "cache/huggingface/a",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["lake", "row_cache", "tuned_models", "published", "..", "other"])
def test_what_cannot_be_made_again_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    before = files(home)
    assert clean_up.main(f"indexes,{name}") == 1
    assert f"error: --remove: {name}: not one of versions, indexes, build" in capsys.readouterr().err
    assert files(home) == before


@pytest.mark.parametrize("other", ["mine/locks/run.lock", "other/locks/ui.lock"])
def test_while_another_works_nothing_is_removed(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], other: str
) -> None:
    with only_one(home / other, "held"):
        assert clean_up.main("indexes") == 1
    assert "a run or the web interface works there; stop it first" in capsys.readouterr().err
    assert (home / "mine/indexes/bm25/a").exists()


def test_what_could_not_be_removed_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on a folder that is not this user's."""
    monkeypatch.setattr(clean_up.files, "remove", lambda path: None)
    assert clean_up.main("build") == 1
    assert f"{home / 'mine/build'}: could not be removed whole" in capsys.readouterr().err
