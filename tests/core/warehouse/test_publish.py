"""Publishing: what the file holds, who may read meanwhile, and what a kill at any moment leaves."""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest

from dagster_project.core.errors import PublishError
from dagster_project.core.home import PROJECT_ROOT
from dagster_project.core.study import Study
from dagster_project.core.warehouse.publish import KEPT_VERSIONS, publish_warehouse
from tests.warehouses import AWKWARD, UNANSWERED, copied_study, mart

LOG = logging.getLogger(__name__)
PUBLISH_FOR_EVER = """
import logging, sys
from pathlib import Path
from dagster_project.core.study_file import load_study
from dagster_project.core.warehouse.publish import publish_warehouse
study = load_study(Path(sys.argv[1]))
print("ready", flush=True)
while True:
    publish_warehouse(study, logging.getLogger())
"""


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Study:
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


def test_published_are_the_marts_alone_with_comments_and_constraints(study: Study) -> None:
    report = publish_warehouse(study, LOG)
    assert report.path == study.home.published_warehouse
    assert rows_of(report.path) == report.n_rows
    with duckdb.connect(str(report.path), read_only=True) as connection:
        schemas = connection.execute(
            "select distinct schema_name from duckdb_schemas() where not internal and schema_name <> 'main'"
        ).fetchall()
        views = connection.execute("select view_name from duckdb_views() where not internal").fetchall()
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
    assert views == [("fct_prompts",)]
    assert uncommented == []
    assert bound[0][0] > 20
    assert described == ("synthetic", report.invocation_id)


def test_the_table_of_a_model_that_was_deleted_is_not_published(study: Study) -> None:
    with duckdb.connect(str(study.home.build_warehouse)) as connection:
        connection.execute("create table marts.fct_renamed as select 1 as n")
        connection.execute("comment on table marts.fct_renamed is 'an old mart'")
    report = publish_warehouse(study, LOG)
    assert "fct_renamed" not in rows_of(report.path)
    assert "fct_answers" in report.n_rows


def test_the_file_needs_nothing_but_itself(study: Study) -> None:
    publish_warehouse(study, LOG)
    assert [file.name for file in sorted(study.home.published.iterdir())] == [
        ".lock", "versions", "warehouse.duckdb",
    ]  # fmt: skip
    with duckdb.connect(str(study.home.published_warehouse), read_only=True) as connection:
        connection.execute("set enable_external_access = false")
        for name in rows_of(study.home.published_warehouse):
            connection.execute(f'select * from marts."{name}"').fetchall()


def test_the_view_reads_the_file_it_stands_in_whatever_that_is_called(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study = copied_study(AWKWARD, monkeypatch, tmp_path / "answered")
    path = publish_warehouse(study, LOG).version
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
    with pytest.raises(PublishError, match="fct_prompts reads what is not published"):
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
    reports = [publish_warehouse(study, LOG) for _ in range(KEPT_VERSIONS + 2)]
    kept = sorted((study.home.published / "versions").iterdir())
    assert kept == [report.version for report in reports[-KEPT_VERSIONS:]]
    assert all(rows_of(path) == reports[0].n_rows for path in kept)


def test_a_stale_log_beside_the_file_is_removed(study: Study) -> None:
    publish_warehouse(study, LOG)
    log = study.home.published / "warehouse.duckdb.wal"
    log.write_bytes(b"stale")
    publish_warehouse(study, LOG)
    assert not log.exists()


def test_an_analyst_keeps_the_old_snapshot_and_the_next_one_sees_the_new(study: Study) -> None:
    first = publish_warehouse(study, LOG)
    with duckdb.connect(str(first.path), read_only=True) as connection:
        second = publish_warehouse(study, LOG)
        old = connection.execute("select published_at from marts.publication").fetchone()
        assert old is not None
        assert old[0] == first.published_at
    code = "import duckdb, sys; print(duckdb.connect(sys.argv[1], read_only=True).sql("
    code += "'select epoch_us(published_at) from marts.publication').fetchone()[0])"
    seen = subprocess.run(
        [sys.executable, "-c", code, str(first.path)], capture_output=True, text=True, check=True
    )
    assert int(seen.stdout) == round(second.published_at.timestamp() * 1e6)


def test_readers_without_pause_see_a_whole_file_through_fifty_publications(study: Study) -> None:
    expected = publish_warehouse(study, LOG).n_rows
    stop, reads, errors = threading.Event(), [], []
    # A process of its own: connections of one process share the file that was opened first.
    code = (
        "import duckdb, sys\n"
        "for line in sys.stdin:\n"
        "    with duckdb.connect(sys.argv[1], read_only=True) as c:\n"
        "        print(c.sql('select count(*) from marts.dim_questions').fetchone()[0], flush=True)\n"
    )
    reader = subprocess.Popen(
        [sys.executable, "-c", code, str(study.home.published_warehouse)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip

    def read() -> None:
        while not stop.is_set():
            reader.stdin.write("\n")
            reader.stdin.flush()
            answer = reader.stdout.readline()
            (reads if answer.strip() == str(expected["dim_questions"]) else errors).append(answer)
            if not answer:
                return

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(50):
        publish_warehouse(study, LOG)
    stop.set()
    thread.join()
    _, trace = reader.communicate()
    assert errors == [], trace
    assert len(reads) > 50


def test_a_kill_at_any_moment_leaves_a_whole_file(study: Study) -> None:
    first = publish_warehouse(study, LOG)
    rng = random.Random(11)
    for _ in range(10):
        publisher = subprocess.Popen(
            [sys.executable, "-c", PUBLISH_FOR_EVER, str(study.path)],
            cwd=PROJECT_ROOT, env=os.environ.copy(), stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert publisher.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            publisher.wait(rng.uniform(0, 0.6))
        publisher.send_signal(signal.SIGKILL)
        publisher.communicate()
        assert rows_of(study.home.published_warehouse) == first.n_rows
        assert not list(study.home.published.glob("*.wal"))
    assert publish_warehouse(study, LOG).n_rows == first.n_rows
    assert not (study.home.published / ".staging").exists()


def test_a_failed_test_of_the_build_is_named_and_nothing_is_published(study: Study) -> None:
    first = publish_warehouse(study, LOG)
    with duckdb.connect(str(study.home.build_warehouse)) as connection:
        connection.execute(
            "update audit.results set status = 'fail', message = 'Got 3 results' "
            "where name like 'unique_key_fct_answers%'"
        )
    with pytest.raises(PublishError, match=r"test unique_key_fct_answers.*Got 3 results"):
        publish_warehouse(study, LOG)
    assert rows_of(first.path) == first.n_rows


def test_a_dbt_run_that_did_not_finish_is_not_published(study: Study) -> None:
    with duckdb.connect(str(study.home.build_warehouse)) as connection:
        connection.execute("insert into audit.invocations values ('killed', '1', now(), null)")
    with pytest.raises(PublishError, match="did not finish"):
        publish_warehouse(study, LOG)
    assert not study.home.published_warehouse.exists()


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


def test_a_full_disk_leaves_the_version_before(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that cannot be written stands for the disk: the error is the operating system's either way."""
    first = publish_warehouse(study, LOG)
    (study.home.published / "versions").rename(study.home.published / "kept")
    (study.home.published / "versions").write_text("a file where a folder must be")
    with pytest.raises(PublishError, match="the version before stays"):
        publish_warehouse(study, LOG)
    assert rows_of(first.path) == first.n_rows
    assert not mart(study, "dim_questions").empty
