"""Publishing: what the file holds, who may read meanwhile, and what a kill at any moment leaves."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from longtail.errors import PublishError
from longtail.study.study import Study
from longtail.warehouse.publish import KEPT_VERSIONS, publish_warehouse
from tests.flipped_bits import flip_bit
from tests.small_disk import files_up_to
from tests.synced import renames_on_disk
from tests.warehouses import AWKWARD, UNANSWERED, copied_study, mart, published_study, study_of_few_marts

LOG = logging.getLogger(__name__)


MARTS = ("catalogue", "dim_entities", "dim_questions", "fct_answers", "fct_quarantine")


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Study:
    """A study of few marts: the tests below publish it a hundred times."""
    return study_of_few_marts(monkeypatch, tmp_path / "study", MARTS)


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Study:
    """A study with every mart."""
    return copied_study(UNANSWERED, monkeypatch, tmp_path / "study")


def rows_of(path: Path) -> dict[str, int]:
    """Rows by table of a published file, counted; they must equal what the file says of itself."""
    with duckdb.connect(str(path), read_only=True) as connection:
        ((said,),) = connection.execute("select n_rows from marts.publication").fetchall()
        counted = {
            name: connection.execute(f'select count(*) from marts."{name}"').fetchone()[0] for name in said
        }
    assert counted == said
    return counted


def test_published_are_the_marts_alone_with_comments_and_constraints(whole: Study) -> None:
    report = publish_warehouse(whole, LOG)
    assert report.path == whole.home.published_warehouse
    assert rows_of(report.path) == report.n_rows
    with duckdb.connect(str(report.path), read_only=True) as connection:
        schemas = connection.execute(
            "select distinct schema_name from duckdb_schemas() where not internal and schema_name <> 'main'"
        ).fetchall()
        views = connection.execute(
            "select schema_name, view_name from duckdb_views() where not internal"
        ).fetchall()
        uncommented = connection.execute(
            "select table_name from duckdb_tables() where comment is null "
            "union all select view_name from duckdb_views() where comment is null and not internal "
            "union all select table_name || '.' || column_name from duckdb_columns() where comment is null "
            "and schema_name = 'marts'"
        ).fetchall()
        bound = connection.execute(
            "select count(*) from duckdb_constraints() "
            "where constraint_type = 'NOT NULL' and table_name = 'fct_answers'"
        ).fetchall()
        (described,) = connection.execute("select study, dbt_invocation_id from marts.publication").fetchall()
    assert schemas == [("marts",)]
    assert {name for schema, name in views if schema == "marts"} == {"fct_prompts"}
    assert {name for schema, name in views if schema == "main"} == {
        *report.n_rows,
        "fct_prompts",
        "publication",
    }
    assert uncommented == []
    assert bound[0][0] > 15
    assert described == ("synthetic", report.invocation_id)


def test_the_table_of_a_model_that_was_deleted_is_not_published(study: Study) -> None:
    with duckdb.connect(str(study.home.build_warehouse)) as connection:
        connection.execute("create table marts.fct_renamed as select 1 as n")
        connection.execute("comment on table marts.fct_renamed is 'an old mart'")
    report = publish_warehouse(study, LOG)
    assert "fct_renamed" not in rows_of(report.path)
    assert "fct_answers" in report.n_rows


def test_the_file_needs_nothing_but_itself(study: Study) -> None:
    with renames_on_disk() as names:
        publish_warehouse(study, LOG)
    assert names[1:] == ["warehouse.duckdb", "warehouse.duckdb.sha256"]
    assert [file.name for file in sorted(study.home.published.iterdir())] == [
        ".lock-warehouse.duckdb", "versions", "warehouse.duckdb", "warehouse.duckdb.sha256",
    ]  # fmt: skip
    with duckdb.connect(str(study.home.published_warehouse), read_only=True) as connection:
        connection.execute("set enable_external_access = false")
        for name in rows_of(study.home.published_warehouse):
            connection.execute(f'select * from marts."{name}"').fetchall()


def test_the_view_reads_the_file_it_stands_in_whatever_that_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = published_study(AWKWARD, monkeypatch)
    path = next((study.home.published / "versions").iterdir())
    with duckdb.connect() as connection:
        connection.execute("create schema marts")
        connection.execute("create table marts.fct_answers as select 1 as decoy")
        connection.execute(f"attach '{str(path).replace(chr(39), chr(39) * 2)}' as another_name (read_only)")
        connection.execute("set enable_external_access = false")
        connection.execute("set lock_configuration = true")
        counted = connection.execute(
            "select table_name, count(*), bool_and(is_exact) from another_name.marts.fct_prompts "
            "group by all order by all"
        ).fetchall()
    assert [row[0] for row in counted] == [
        "answers", "generated_passages", "paraphrase_answers", "sampled_answers",
    ]  # fmt: skip
    for name, n_rows, are_exact in counted:
        assert n_rows == len(mart(study, f"fct_{name}"))
        assert are_exact


def test_a_view_that_reads_more_than_marts_is_not_published(study: Study) -> None:
    with duckdb.connect(str(study.home.build_warehouse)) as connection:
        connection.execute(
            "create or replace view marts.fct_prompts as select * from intermediate.int_answers"
        )
    with pytest.raises(PublishError, match="fct_prompts reads a table that is not published"):
        publish_warehouse(study, LOG)


def test_older_clients_can_open_it(study: Study) -> None:
    publish_warehouse(study, LOG)
    with duckdb.connect(str(study.home.published_warehouse), read_only=True) as connection:
        tags = connection.execute(
            "select tags from duckdb_databases() where database_name = 'warehouse'"
        ).fetchone()
    assert tags is not None
    assert tags[0]["storage_version"].startswith("v1.0.0")


def test_the_last_versions_are_kept_whole(study: Study) -> None:
    reports = [publish_warehouse(study, LOG) for _ in range(KEPT_VERSIONS + 1)]
    kept = sorted((study.home.published / "versions").iterdir())
    assert kept == [report.version for report in reports[-KEPT_VERSIONS:]]
    assert all(rows_of(path) == reports[0].n_rows for path in kept)


def test_an_analyst_keeps_the_old_snapshot_and_the_next_one_sees_the_new(study: Study) -> None:
    first = publish_warehouse(study, LOG)
    with duckdb.connect(str(first.path), read_only=True) as connection:
        second = publish_warehouse(study, LOG)
        old = connection.execute("select published_at from marts.publication").fetchone()
        assert old is not None
        assert old[0] == first.published_at.replace(tzinfo=None)  # UTC, without a zone
    code = "import duckdb, sys; print(duckdb.connect(sys.argv[1], read_only=True).sql("
    code += "'select epoch_us(published_at) from marts.publication').fetchone()[0])"
    seen = subprocess.run(
        [sys.executable, "-c", code, str(first.path)], capture_output=True, text=True, check=True
    )
    assert int(seen.stdout) == round(second.published_at.timestamp() * 1e6)


def mark(study: Study, version: int) -> None:
    """Give the build a version that every row of two tables, and the number of rows of a third, tell."""
    with duckdb.connect(str(study.home.build_warehouse)) as connection:
        connection.execute("update marts.dim_questions set question = ?", [f"version {version}"])
        connection.execute("update marts.dim_entities set label = ?", [f"version {version}"])
        connection.execute("delete from marts.fct_quarantine")
        connection.execute(
            "insert into marts.fct_quarantine select 't', 'p', range::varchar, 1, 'k' from range(?)",
            [version % 7],
        )


def read_version(published: Path) -> int:
    """The version of every row and count in the file. Errors: `AssertionError` where two differ."""
    with duckdb.connect(str(published), read_only=True) as connection:
        versions = connection.sql(
            "select distinct question from (select question from marts.dim_questions"
            " union all select label from marts.dim_entities)"
        ).fetchall()
        ((said,),) = connection.sql("select n_rows from marts.publication").fetchall()
        catalogue = dict(
            connection.sql("select table_name, n_rows from marts.catalogue where kind = 'table'").fetchall()
        )
        ((quarantined,),) = connection.sql("select count(*) from marts.fct_quarantine").fetchall()
    assert len(versions) == 1, versions
    version = int(versions[0][0].split()[1])
    assert quarantined == version % 7 == said["fct_quarantine"] == catalogue["fct_quarantine"]
    return version


def test_before_and_after_every_step_of_publishing_a_reader_sees_one_whole_version(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed leaves what one of these readers sees."""
    mark(study, 1)
    published = publish_warehouse(study, LOG).path
    seen: list[int] = []

    def watched(step: Callable[..., None]) -> Callable[..., None]:
        def watching(*names: Path, **options: Any) -> None:
            seen.append(read_version(published))
            step(*names, **options)
            seen.append(read_version(published))

        return watching

    for name in ("replace", "unlink"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    mark(study, 2)
    publish_warehouse(study, LOG)
    assert len(seen) > 5
    assert seen == sorted(seen)
    assert set(seen) == {1, 2}


def test_a_failed_test_of_the_build_is_named_and_nothing_is_published(study: Study) -> None:
    first = publish_warehouse(study, LOG)
    with duckdb.connect(str(study.home.build_warehouse)) as connection:
        connection.execute(
            "update audit.results set status = 'fail', message = 'Got 3 results' "
            "where name = 'table_is_valid_fct_answers'"
        )
    with pytest.raises(PublishError, match=r"test table_is_valid_fct_answers.*Got 3 results"):
        publish_warehouse(study, LOG)
    assert rows_of(first.path) == first.n_rows


COVERED = [("a", "small", 10, 0), ("a", "large", 10, 2), ("b", "large", 5, 0)]
"""Dataset, model, rows expected, rows missing."""
ALL_LOST = [("a", "small", 10, 10), *COVERED[1:]]


def cover(study: Study, rows: list[tuple[str, str, int, int]]) -> None:
    """Give the build such a mart of coverage."""
    with duckdb.connect(str(study.home.build_warehouse)) as connection:
        connection.execute(
            "create or replace table marts.fct_answer_coverage (table_name varchar, dataset varchar, prompt varchar, "
            "model varchar, method varchar, n_expected bigint, n_missing bigint)"
        )
        connection.executemany(
            "insert into marts.fct_answer_coverage values ('answers', ?, null, ?, 'bm25', ?, ?)", rows
        )


def edit(study: Study) -> None:
    study.path.write_text(study.path.read_text().replace("seed:", "# another seed\nseed:") + "top_k: 3\n")


def describe(study: Study) -> None:
    text = study.path.read_text()
    study.path.write_text(text.replace("description: A", "description: Another") + "# a comment\n")
    assert study.path.read_text() != text


def damage_what_is_published(study: Study) -> None:
    study.home.published_warehouse.chmod(0o644)
    flip_bit(study.home.published_warehouse)


@pytest.mark.parametrize(
    ("rows", "change", "said"),
    [
        (ALL_LOST, None, "0 answers of small instead of 10; correct"),
        (ALL_LOST, describe, "0 answers of small instead of 10; correct"),
        (ALL_LOST, edit, "0 answers of small instead of 10; correct"),
        (ALL_LOST, damage_what_is_published, "0 answers of small instead of 10; correct"),
        (COVERED[1:], None, "0 answers of small instead of 10; correct"),
        ([COVERED[0], ("a", "large", 9, 3), ("b", "large", 5, 1)], None, "10 answers of large instead of 13; correct"),
        ([*ALL_LOST, ("c", "small", 90, 0)], edit, "0 answers of small instead of 10; correct"),
        ([("a", "small", 9, 0), *COVERED[1:]], None, "9 answers of small instead of 10; correct"),
        ([("a", "small", 9, 0), *COVERED[1:]], edit, None),  # fewer questions declared
        ([COVERED[0], ("a", "large", 5, 1), COVERED[2]], edit, None),
        (COVERED[1:], edit, None),  # a model removed
        ([("a", "small", 20, 10), *COVERED[1:]], None, None),  # more asked for, and as many there
        ([*COVERED, ("c", "small", 5, 5)], None, None),
    ],
)  # fmt: skip
def test_a_publication_gets_smaller_only_if_the_study_file_says_so(
    study: Study,
    rows: list[tuple[str, str, int, int]],
    change: Callable[[Study], None] | None,
    said: str | None,
) -> None:
    cover(study, COVERED)
    first = publish_warehouse(study, LOG)
    whole = first.version.read_bytes()
    if change:
        change(study)
    cover(study, rows)
    if said:
        before = first.path.read_bytes()
        with pytest.raises(PublishError, match=f"not published: .* would be {said}") as refused:
            publish_warehouse(study, LOG)
        assert "\n" not in str(refused.value)
        assert (first.path.read_bytes(), first.version.read_bytes()) == (before, whole)
    report = publish_warehouse(study, LOG, allows_fewer=bool(said))
    assert report.n_rows["fct_answer_coverage"] == len(rows)


def test_a_build_in_use_is_not_published(study: Study) -> None:
    code = (
        "import duckdb, sys, time; c = duckdb.connect(sys.argv[1]); print('open', flush=True); time.sleep(60)"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", code, str(study.home.build_warehouse)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout.readline() == "open\n"
        with pytest.raises(PublishError, match="in use"):
            publish_warehouse(study, LOG)
    finally:
        writer.kill()
        writer.communicate()


def test_without_a_build_it_says_what_to_do(study: Study) -> None:
    study.home.build_warehouse.unlink()
    with pytest.raises(PublishError, match="build the warehouse first"):
        publish_warehouse(study, LOG)


def test_a_full_disk_leaves_the_version_before(study: Study) -> None:
    first = publish_warehouse(study, LOG)
    for n_bytes in (4_096, 200_000, 700_000):
        assert first.n_bytes > n_bytes
        with files_up_to(n_bytes), pytest.raises(PublishError, match="the previous version stays") as caught:
            publish_warehouse(study, LOG)
        assert "\n" not in str(caught.value)
        assert rows_of(first.path) == first.n_rows
        assert [path.name for path in (study.home.published / "versions").iterdir()] == [first.version.name]
        assert not (study.home.published / ".staging-warehouse.duckdb").exists()
    assert publish_warehouse(study, LOG).n_rows == first.n_rows


def test_a_folder_that_cannot_be_written_leaves_the_version_before(study: Study) -> None:
    first = publish_warehouse(study, LOG)
    (study.home.published / "versions").rename(study.home.published / "kept")
    (study.home.published / "versions").write_text("a file where a folder must be")
    with pytest.raises(PublishError, match="the previous version stays"):
        publish_warehouse(study, LOG)
    assert rows_of(first.path) == first.n_rows
    assert not mart(study, "dim_questions").empty
