"""The file that is published: what lies beside it, how damage to it is found, and its headline."""

from __future__ import annotations

import logging
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from longtail.commands import run
from longtail.errors import PublishError
from longtail.methods import METHODS
from longtail.storage.home import StudyHome
from longtail.study.study import Study
from longtail.warehouse.publication import (
    connect_to_publication,
    find_damage,
    headline,
    log_of,
    read_publication,
    record_of,
    render_headline,
)
from longtail.warehouse.publish import publish_warehouse
from tests.flipped_bits import flip_bit
from tests.warehouses import (
    AWKWARD,
    UNANSWERED,
    mart,
    publish_small_files,
    published_study,
    study_of_few_marts,
)

LOG = logging.getLogger(__name__)


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Study:
    return study_of_few_marts(monkeypatch, tmp_path / "study")


def overwrite(path: Path, content: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(content)


def flip_a_bit_in_the_middle(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    overwrite(path, bytes(content))


def write_to_it(path: Path) -> None:
    path.chmod(0o644)
    with duckdb.connect(str(path)) as connection:
        connection.execute("update marts.publication set study = 'forged'")


def leave_a_log(path: Path) -> None:
    """As `copy … to '….wal' (format blob)` once could: a log that every later reader replays."""
    copy = path.with_name("copy.duckdb")
    copy.write_bytes(path.read_bytes())
    with duckdb.connect(str(copy)) as connection:
        connection.execute("pragma disable_checkpoint_on_shutdown; set wal_autocheckpoint = '1TB'")
        connection.execute("update marts.publication set study = 'forged'")
    log_of(copy).rename(log_of(path))
    copy.unlink()


HARM: dict[str, Callable[[Path], object]] = {
    "ruined": lambda path: overwrite(path, b"ruined\n"),
    "empty": lambda path: overwrite(path, b""),
    "cut": lambda path: overwrite(path, path.read_bytes()[:-4096]),
    "longer": lambda path: overwrite(path, path.read_bytes() + b"\n"),
    "flipped": flip_a_bit_in_the_middle,
    "written to": write_to_it,
    "a log beside it": leave_a_log,
    "another one's": lambda path: overwrite(record_of(path), b"0" * 64 + b"  warehouse.duckdb\n"),
    "no record": lambda path: record_of(path).unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.fixture(scope="module")
def once() -> Iterator[Path]:
    """The folder of one publication, for tests that harm copies of it."""
    with pytest.MonkeyPatch.context() as patch:
        yield published_study(UNANSWERED, patch).home.published


@pytest.mark.parametrize("harm", HARM)
def test_damage_of_every_kind_is_found_and_told_in_a_line(once: Path, tmp_path: Path, harm: str) -> None:
    shutil.copytree(once, tmp_path / "published")
    home, path = StudyHome(tmp_path, tmp_path), tmp_path / "published/warehouse.duckdb"
    publish_small_files(home)
    assert find_damage(home) is None
    HARM[harm](path)
    found = find_damage(home)
    assert found is not None
    assert str(path) in found
    assert "\n" not in found


def test_nobody_reads_a_log_that_lies_beside_the_file(once: Path, tmp_path: Path) -> None:
    shutil.copytree(once, tmp_path / "published")
    path = tmp_path / "published/warehouse.duckdb"
    leave_a_log(path)
    with duckdb.connect(str(path), read_only=True) as connection:
        assert connection.execute("select study from marts.publication").fetchall() == [("forged",)]
    with pytest.raises(PublishError, match=r"warehouse\.duckdb\.wal: .*`make run"):
        connect_to_publication(path)


def test_publishing_again_mends_and_what_befalls_the_file_does_not_befall_kept_versions(study: Study) -> None:
    first = publish_warehouse(study, LOG)
    kept = first.version.read_bytes()
    assert kept == first.path.read_bytes()
    overwrite(first.path, b"ruined\n")
    log_of(first.path).write_bytes(b"forged")
    assert first.version.read_bytes() == kept
    second = publish_warehouse(study, LOG)
    publish_small_files(study.home)
    assert find_damage(study.home) is None
    assert read_publication(second.path).published_at == second.published_at
    files = [second.path, record_of(second.path), first.version, second.version]
    assert len({file.stat().st_ino for file in files}) == len(files)
    for file in files:
        assert file.stat().st_nlink == 1
        assert file.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) == 0


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="sha256sum is not installed")
def test_the_record_is_one_that_sha256sum_checks(once: Path) -> None:
    done = subprocess.run(
        ["sha256sum", "--check", "warehouse.duckdb.sha256"], cwd=once, capture_output=True, text=True
    )
    assert done.stdout == "warehouse.duckdb: OK\n"


def test_a_run_finds_nothing_to_build_only_where_all_published_files_are_whole(study: Study) -> None:
    """The lake is the same."""
    published = publish_warehouse(study, LOG).path
    files = [published, record_of(published), *publish_small_files(study.home)]
    noted = published.parent / "inputs"
    noted.write_bytes(b"of this lake")
    said: list[str] = []
    assert run._is_published(study, "of this lake", said.append)
    assert "nothing to build" in said.pop()
    for file in files:
        whole = file.read_bytes()
        file.chmod(0o644)
        flip_bit(file, 0.4)  # within the checksum, if it is a record
        assert not run._is_published(study, "of this lake", said.append), file
        assert "is damaged and will be made again: " in said.pop()
        file.unlink()
        assert not run._is_published(study, "of this lake", said.append), file
        assert "will be made again: " in said.pop()
        file.write_bytes(whole)
    assert run._is_published(study, "of this lake", said.append)
    assert not run._is_published(study, "of another lake", said.append)
    assert not run._is_published(study, "of this lake s3://bucket", lambda line: None), (
        "that store has nothing yet"
    )
    noted.write_bytes(b"of this lake s3://bucket/folder")
    assert run._is_published(study, "of this lake s3://bucket/folder", said.append)
    assert run._is_published(study, "of this lake ", said.append)
    noted.write_bytes(b"\xff\x00")  # neither is a damaged note taken for anything
    assert not run._is_published(study, "of this lake", said.append)


def test_rows_agree_with_the_marts(monkeypatch: pytest.MonkeyPatch) -> None:
    study = published_study(AWKWARD, monkeypatch)
    rows = headline(study.home.published_warehouse)
    accuracy = mart(study, "fct_accuracy").query("relation == 'all'")
    assert len(rows) == len(accuracy)
    keyed = accuracy.set_index(["dataset", "prompt", "model", "method"])
    adaptive = mart(study, "fct_adaptive_accuracy").query(
        "search == 'exact' and threshold_scope == 'per_relation' and parametric_method == 'closed_book'"
    )
    adaptive = adaptive.set_index(["dataset", "prompt", "model", "retrieval_method"])
    for row in rows:
        key = tuple(row[name] for name in ("dataset", "prompt", "model", "method"))
        assert (row["n"], row["accuracy"]) == (keyed.loc[key].n, keyed.loc[key].accuracy)
        if METHODS[row["method"]].is_parametric:
            assert row["accuracy_adaptive"] is row["accuracy_always"] is row["accuracy_never"] is None
        else:
            assert row["accuracy_adaptive"] == adaptive.loc[key].accuracy_adaptive
    assert [row["method"] for row in rows[:4]] == ["closed_book", "genread", "bm25", "oracle"]
    lines = render_headline(rows).splitlines()
    assert len(lines) == len(rows) + 2
    assert lines[0].split()[:4] == ["dataset", "prompt", "model", "method"]
    assert f"{rows[0]['accuracy']:.3f}" in lines[2]
    first = rows[0]["dataset"], rows[0]["prompt"]
    alone = render_headline([row for row in rows if (row["dataset"], row["prompt"]) == first])
    assert alone.split()[:2] == ["model", "method"]


def headline_row(**columns: Any) -> dict[str, Any]:
    named = ("share_declined", "accuracy_attempted", "pearson_binned", "share_retrieved")
    unknown = dict.fromkeys((*named, "accuracy_adaptive", "accuracy_always", "accuracy_never"))
    known = {"dataset": "d", "prompt": "p", "model": "m", "method": "closed_book", "n": 500, "accuracy": 0.3}
    return {**known, "ci_low": 0.2, "ci_high": 0.4, **unknown, **columns}


def test_texts_are_aligned_to_the_left_and_numbers_to_the_right() -> None:
    rows = [
        headline_row(model="small", n=14267, accuracy=0.5, ci_low=0.45, ci_high=0.55, pearson_binned=-0.25),
        headline_row(
            method="bm25", n=9, accuracy=0.25, ci_low=0.1, ci_high=0.5, accuracy_adaptive=0.625,
            accuracy_always=0.25, accuracy_never=0.5, share_retrieved=0.375,
        ),
    ]  # fmt: skip
    assert render_headline(rows).splitlines() == [
        "model  method            n  accuracy   95 % interval  r(popularity)  adaptive  always  never  retrieved",
        "-------------------------------------------------------------------------------------------------------",
        "small  closed_book  14,267     0.500  0.450 to 0.550         -0.250",
        "m      bm25              9     0.250  0.100 to 0.500                    0.625   0.250  0.500        38%",
    ]


def test_declined_answers_stand_beside_the_accuracy() -> None:
    rows = [
        headline_row(ci_low=0.26, share_declined=0.436, accuracy_attempted=0.535),
        headline_row(method="oracle", ci_low=0.8, ci_high=0.9),
    ]
    heading, _, declining, none = render_headline(rows).splitlines()
    assert heading.split()[6:10] == ["interval", "declined", "of", "the"]
    assert declining.split()[-2:] == ["44%", "0.535"]
    assert none.split()[-1] == "0.900"


def test_without_answers_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    study = published_study(UNANSWERED, monkeypatch)
    assert (
        render_headline(headline(study.home.published_warehouse))
        == "The published marts have no answers to questions; table catalogue lists what they have."
    )


def test_a_missing_or_broken_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(PublishError, match="nothing is published yet"):
        headline(tmp_path / "warehouse.duckdb")
    (tmp_path / "warehouse.duckdb").write_text("not a database")
    with pytest.raises(PublishError, match="cannot be read"):
        headline(tmp_path / "warehouse.duckdb")
