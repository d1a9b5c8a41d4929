"""A small study, end to end through Dagster: every stage, the published tables, a second run that computes nothing."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from longtail.router import load_router
from longtail.storage.lake import Lake
from longtail.storage.lake_files import metadata_of, seal, stamp_of
from tests.flipped_bits import flip_bit
from tests.in_process_dbt import put_parsed
from tests.journeys.commands import (
    ANSWERS_ALONE,
    PROJECT,
    command,
    environment,
    run_python,
    run_study,
    run_up_to_the_warehouse,
)
from tests.journeys.growing_disk import contents
from tests.journeys.small_world import QUESTIONS, Small
from tests.small_disk import run_with_small_disk

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("small_study")]


def test_every_question_is_answered_once_by_every_method(small: Small) -> None:
    with small.published() as warehouse:
        rows = warehouse.sql(
            "select method, count(*), count(distinct question_id) from marts.fct_answers group by method order by method"
        ).fetchall()
    counts = {method: (n, distinct) for method, n, distinct in rows}
    everyone = {counts[method] for method in ("closed_book", "bm25", "genread", "hybrid", "random")}
    assert everyone == {(QUESTIONS, QUESTIONS)}
    assert 0 < counts["oracle"][0] <= QUESTIONS


def test_the_store_has_the_lake_and_all_that_is_published(small: Small) -> None:
    home, published = small.root, small.root / "published"
    version = next((published / "versions").iterdir())
    report = hashlib.sha256((published / "report.html").read_bytes()).hexdigest()[:16]
    files = {
        **{f"lake/{path.relative_to(home / 'lake')}": path for path in home.glob("lake/[!.]*/[!_]*.parquet")},
        f"published/warehouse/{version.name}": version,
        **{
            f"published/{kind}/{path.relative_to(folder.parent)}": path
            for kind in ("export", "router")
            for folder in [(published / kind).resolve()]
            for path in folder.rglob("*")
            if path.is_file()
        },
        **{f"published/report/{report}/{name}": published / name for name in ("report.html", "answers.html")},
    }
    pointers = {
        f"published/{kind}/current.json": {"version": name}
        for kind, name in (
            ("warehouse", version.name),
            ("report", report),
            *((kind, (published / kind).resolve().name) for kind in ("export", "router")),
        )
    }
    stored = {key.removeprefix("small/"): content for key, content in small.objects.items()}
    assert {key: json.loads(stored.pop(key)) for key in pointers} == {
        key: {**one, "versions": [one["version"]]} for key, one in pointers.items()
    }
    assert stored == {key: path.read_bytes() for key, path in files.items()}


def test_samples_certainty_costs_and_exact_prompts_are_published(small: Small) -> None:
    with small.published() as warehouse:
        samples, seeds = warehouse.sql(
            "select count(*), count(distinct seed) from marts.fct_sampled_answers"
        ).fetchone()
        certain = warehouse.sql(
            "select count(*) from marts.fct_question_consistency where cert between -0.12 and 1.0001"
        ).fetchone()
        costs = dict(warehouse.sql("select method, prompt_tokens_per_1000 from marts.fct_costs").fetchall())
        exact = warehouse.sql(
            "select count(*), count(*) filter (where sha256(p.prompt_text) = a.prompt_hash)"
            " from marts.fct_answers as a join marts.fct_prompts as p"
            " using (dataset, question_id, model, method, prompt)"
        ).fetchone()
    assert samples == seeds == 10 * QUESTIONS
    assert certain == (QUESTIONS,)
    assert costs["closed_book"] < costs["bm25"]
    assert costs["closed_book"] < costs["genread"]
    assert exact[0] == exact[1] > 3 * QUESTIONS


def test_a_backend_that_reads_its_passage_is_right_with_the_right_passage_only(small: Small) -> None:
    with small.published() as warehouse:
        accuracy = dict(
            warehouse.sql("select method, accuracy from marts.fct_accuracy where relation = 'all'").fetchall()
        )
    assert accuracy["oracle"] > 0.3
    assert accuracy["closed_book"] < 0.05
    assert accuracy["closed_book"] < accuracy["bm25"] < accuracy["oracle"]


def test_a_fusion_is_a_method_and_a_random_passage_a_condition(small: Small) -> None:
    with small.published() as warehouse:
        found = warehouse.sql(
            "select sum((h.passage_id = b.passage_id)::int), sum((r.passage_id = b.passage_id)::int)"
            " from marts.fct_answers as h join marts.fct_answers as b using (dataset, question_id, model, prompt)"
            " join marts.fct_answers as r using (dataset, question_id, model, prompt)"
            " where h.method = 'hybrid' and b.method = 'bm25' and r.method = 'random'"
        ).fetchone()
        ranks = warehouse.sql(
            "select method, rank from marts.fct_leaderboard where not is_adaptive"
        ).fetchall()
        pairs = warehouse.sql("select distinct retrieval_method from marts.fct_adaptive_accuracy").fetchall()
    assert found[0] == QUESTIONS  # one retriever fused is that retriever
    assert found[1] < QUESTIONS / 4
    assert {method for method, rank in ranks if rank is None} == {"oracle", "random"}
    assert {name for (name,) in pairs} == {"bm25", "hybrid", "oracle"}


def test_each_pair_of_methods_has_a_router_but_bounds_and_conditions_have_none(small: Small) -> None:
    routers = [load_router(path) for path in (small.root / "published/router").glob("*.json")]
    pairs = {f"{memory}.{found}" for memory in ("closed_book", "genread") for found in ("bm25", "hybrid")}
    assert {router.name for router in routers} == {f"small.zero_shot.scripted.{pair}" for pair in pairs}
    for router in routers:
        assert (router.decide().retrieve, router.policy) in {(True, "always"), (False, "never")}
        assert router.document["fitted_on"]["n_questions"] > QUESTIONS / 2


def test_the_terminal_shows_progress_and_accuracy(small: Small) -> None:
    for text in ("] answers of scripted", "scripted · closed_book · zero_shot: accuracy "):
        assert text in small.output


def test_nothing_is_written_outside_the_home(small: Small) -> None:
    started = small.study.stat().st_mtime
    written = [
        path
        for path in PROJECT.rglob("*")
        if path.is_file() and path.stat().st_ctime >= started and not _is_of_a_tool(path)
    ]
    sources = {PROJECT / name for name in _tracked_or_new()}
    assert [path for path in written if path not in sources] == []
    assert list((small.folder / "person").rglob("*")) == []


def _tracked_or_new() -> list[str]:
    """Files of the repository, also new ones that somebody edits beside the test; what git ignores is not among them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return listed.stdout.splitlines()


def _is_of_a_tool(path: Path) -> bool:
    """Caches of Python, pytest and the like, the environment, and the default home of other runs."""
    first = path.relative_to(PROJECT).parts[0]
    return first in {".venv", ".git", "data"} or first.startswith(".") or "__pycache__" in path.parts


def test_a_second_run_mends_files_that_a_full_disk_left_cut_and_computes_nothing(changing: Small) -> None:
    """A manifest of dbt that was cut: `tests/longtail/warehouse/test_build.py`."""
    root = changing.root
    before = {path: path.stat().st_mtime_ns for path in (root / "lake").rglob("*.parquet")}
    for path in (root / "study_file", changing.home / "dagster/run.yaml"):
        path.write_bytes(b"")
    done = run_study(changing.home, changing.study)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    assert_broken_alone_failed(done.stderr)
    assert (root / "study_file").read_text() == f"{changing.study}\n"
    assert "nothing to build" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in (root / "lake").rglob("*.parquet")} == before


def test_a_full_disk_is_one_line_at_every_stage_and_the_run_goes_on_when_there_is_room(
    small: Small, tmp_path: Path
) -> None:
    """Full when the run history is begun, in generation, in dbt build."""
    put_parsed(tmp_path / "disk/home", small.study)
    (tmp_path / "disk").rename(tmp_path / "parsed")
    sizes = ("0.05", "12", "36")
    shown = run_with_small_disk("tests.journeys.growing_disk", str(small.study), str(tmp_path), *sizes)
    attempts = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [attempt["code"] for attempt in attempts] == [1, 1, 1], shown.stderr[-2000:]
    began, generated, built = (attempt["stage"] for attempt in attempts)
    assert began == "start"
    assert re.match(r"\[\d+/(\d+)\]", generated)
    assert re.match(r"\[(\d+)/\1\]", built)
    for attempt in attempts:
        assert not attempt["has_trace"]
        (line,) = attempt["errors"]
        assert line.startswith("error: ")
        assert re.search("disk is full|No space left", line), line
        assert re.search("make room|free space", line), line
        assert str(tmp_path / "disk/home") in line
    filled, whole = attempts[-1]["contents"], contents(Lake(small.root / "lake"))
    assert filled.keys() == whole.keys()
    measured = {key for key in filled if key.startswith("single_latencies ")}  # no two runs take as long
    assert {key: filled[key] for key in filled.keys() - measured} == {
        key: whole[key] for key in filled.keys() - measured
    }


def test_sql_reads_the_published_file(small: Small) -> None:
    """What it refuses: `tests/longtail/commands/test_sql.py`."""
    counted = subprocess.run(
        command("sql", "-c", "select count(*) as n from fct_answers", "--format", "csv"),
        cwd=PROJECT, env=environment(small.home, small.study), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert counted.returncode == 0, counted.stderr
    assert int(counted.stdout.splitlines()[-1]) > 3 * QUESTIONS


def test_the_run_history_holds_every_stage(small: Small) -> None:
    code = (
        "import dagster as dg, json\n"
        "with dg.DagsterInstance.get() as instance:\n"
        "    runs = instance.get_runs()\n"
        "    tags = ('longtail/stage', 'longtail/run')\n"
        "    print(json.dumps([[*map(r.tags.get, tags), r.status.value] for r in runs]))\n"
    )
    of_small = environment(small.home, small.study, DAGSTER_HOME=str(small.home / "dagster"))
    shown = run_python("-c", code, env=of_small)
    assert shown.returncode == 0, shown.stderr[-2000:]
    runs = json.loads(shown.stdout.strip().splitlines()[-1])
    failed = [stage for stage, _, status in runs if status != "SUCCESS"]
    assert len(failed) == 1
    assert failed[0].endswith(" of broken")
    assert any(stage and stage.startswith("answers of scripted") for stage, *_ in runs)
    assert (
        len({command for _, command, _ in runs if command}) == 1
    )  # the tag shows the stages of a command together


def test_flipped_bits_in_many_partitions_are_told_and_their_stages_make_them_again(changing: Small) -> None:
    lake = Lake(changing.root / "lake")
    answers = lake.path("answers", "scripted|closed_book")
    written, before = _answers(answers), contents(lake)
    _change_a_text(answers)
    damaged = [answers]
    for table in (
        "questions",
        "passages",
        "page_views",
        "retrieved_passages",
        "paraphrase_answers",
        "quarantine",
    ):
        for partition in lake.partitions(table)[:2]:
            damaged.append(lake.path(table, partition))
            flip_bit(damaged[-1])
    said = run_up_to_the_warehouse(changing.home, changing.study)
    for path in damaged:
        maker = path.name.partition("__")[0] if path.parent.name == "quarantine" else path.parent.name
        maker = maker.removesuffix(".parquet")
        assert f"{path} is damaged: checksum mismatch; lake/{maker} makes it again" in said
    assert _answers(answers) == written
    assert contents(lake) == before


def _answers(path: Path) -> list[dict[str, Any]]:
    """The rows without the run that wrote them."""
    return pq.read_table(path, partitioning=None).drop_columns(["run_id"]).to_pylist()


def _change_a_text(path: Path) -> None:
    """Flip one bit of an answer. The partition is written without compression first, so that its texts are legible."""
    stamp, rows = (stamp_of(path), pq.read_table(path, partitioning=None).replace_schema_metadata(None))
    with pq.ParquetWriter(path, rows.schema, compression="none") as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(metadata_of(stamp))
    seal(path)
    assert stamp_of(path) == stamp
    whole, text = path.read_bytes(), rows["raw_text"][-1].as_py().encode()
    for place in (
        found.start() for found in re.finditer(re.escape(text), whole)
    ):  # statistics have texts, too
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        if pq.read_table(path, partitioning=None)["raw_text"] != rows["raw_text"]:
            return
    raise AssertionError("no flipped bit changed a text")


def test_a_changed_study_recomputes_what_it_touches_and_reuses_rows(changing: Small) -> None:
    home, study = changing.home, changing.study
    text = study.read_text(encoding="utf-8")
    for asking, nothing in ANSWERS_ALONE.items():
        assert asking in text
        text = text.replace(asking, nothing)
    study.write_text(text.replace("seed: 0\n", "seed: 0\nmax_new_tokens: 14\n"), encoding="utf-8")
    triples = changing.root / "lake/triples/all.parquet"
    answers = changing.root / "lake/answers/scripted__closed_book.parquet"
    before = triples.stat().st_mtime_ns, answers.stat().st_mtime_ns
    (changing.root / "stage_times.json").unlink()  # as after runs of Dagster's daemon
    plan = _plan(changing)
    (n,) = re.findall(r"\n  answers of scripted .*?([\d,]+) of \1 results; about [\d,]+ prompt tokens", plan)
    assert int(n.replace(",", "")) > 100
    for stage in ("questions", "single latencies of scripted", "warehouse: .*"):
        assert re.search(rf"\n  {stage} +\d+ s  ran before; skipped if nothing it reads has changed", plan), (
            stage
        )
    assert (triples.stat().st_mtime_ns, answers.stat().st_mtime_ns) == before
    run_up_to_the_warehouse(home, study)
    assert triples.stat().st_mtime_ns == before[0]
    assert answers.stat().st_mtime_ns > before[1]
    assert re.search(r"\n  answers of scripted +finished\n", _plan(changing))
    # Another seed changes no zero-shot prompt: every row will come from the cache of the run before.
    study.write_text(text.replace("seed: 0\n", "seed: 1\n"), encoding="utf-8")
    assert re.search(
        r"answers of scripted +rows made again from [\d,]+ results in the row cache", _plan(changing)
    )


def _plan(changing: Small) -> str:
    told = run_python("-m", "longtail", "plan", env=environment(changing.home, changing.study))
    assert told.returncode == 0, told.stderr[-2000:]
    return told.stdout


def test_a_model_that_fails_leaves_the_others_published(small: Small) -> None:
    """The failing model's later stages are skipped; the mart of coverage has its rows as missing."""
    assert_broken_alone_failed(small.errors)
    assert "broken: not finished. The warehouse is published: the other model is complete" in small.errors
    assert re.search(r"`make run STUDY=\S+small\.yaml LONGTAIL_HOME=\S+` again continues there", small.errors)
    assert len(re.findall(r"^\[\d+/\d+\] .* of broken$", small.output, re.MULTILINE)) == 1
    assert "scripted" in small.output.split("\n\n")[-1]  # the headline
    with small.published() as warehouse:
        states = warehouse.sql(
            "select distinct model, state from marts.fct_answer_coverage where table_name = 'answers' order by all"
        ).fetchall()
        answered = warehouse.sql("select distinct model from marts.fct_accuracy").fetchall()
    assert states == [("broken", "no rows"), ("scripted", "complete")]
    assert answered == [("scripted",)]


def assert_broken_alone_failed(said: str) -> None:
    (error,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert re.match(r"error: \w+ \w+ of broken: fake backend: call 1 fails", error)
