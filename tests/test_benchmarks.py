"""Benchmarks run and check the results that they time; the one for generation needs neither Dagster nor dbt.

Those of the warehouse and of Ray are too dear for the suite. Figures are not tested here: speed is measured by
`make bench-…`, on a quiet machine.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from benchmarks import pararel, warehouse
from longtail.storage.home import PROJECT_ROOT
from longtail.study.study import Study
from tests import fork_server, in_process_dbt
from tests.warehouses import AWKWARD, built_study, folder_of

pytestmark = pytest.mark.journey  # as long as one, and so among the first to start

WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"dagster", "dagster_dbt", "dbt", "duckdb", "pyarrow", "faiss", "bm25s", "pyoxigraph"}:
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
"""
SMALL = [
    "--every", "600", "--rounds", "1", "--candidates", "4", "--stream", "40", "--no-harness", "--gpu", "tiny",
]  # fmt: skip


def _run(benchmark: str, arguments: Sequence[str], before: str = "") -> subprocess.CompletedProcess[str]:
    code = f"{before}\nimport sys\nsys.argv[1:] = {list(arguments)!r}\n"
    code += f"from benchmarks.{benchmark} import main\nmain()"
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(PROJECT_ROOT)}
    if before:  # the fork server has imported them already
        command = [sys.executable, "-c", code]
        return subprocess.run(command, cwd=PROJECT_ROOT, env=env, capture_output=True, text=True, timeout=600)
    return fork_server.run(["-c", code], PROJECT_ROOT, env, timeout=600)


def test_generation_prints_its_figures_with_core_alone() -> None:
    done = _run("generation", SMALL, WITHOUT)
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    assert {"loop_ratio", "batched_ratio", "sampling_cost", "scoring_ratio", "peak_overhead_mb"} <= set(
        figures
    )
    assert {"gpu_loop_ratio", "gpu_continuous_ratio"} <= set(figures)
    assert "RANDOM WEIGHTS" in done.stdout
    assert all(value > 0 for value in figures.values())


def test_thresholds_equal_the_notebooks(monkeypatch: pytest.MonkeyPatch) -> None:
    built_study(AWKWARD, monkeypatch)
    race = warehouse.race_thresholds(folder_of(AWKWARD), exact_splits=1)
    assert race.n_checked > 100
    assert race.n_pairs > 10


def test_a_flipped_bit_of_a_lake_is_named() -> None:
    done = _run("damaged_files", ["--kinds", "lake", "--flips", "20"])
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"other_results": 0, "signals": 0, "named": 20}


def test_coverage_prints_every_structure_with_the_share_that_holds_the_truth() -> None:
    small = ["--of", "adaptive", "--sizes", "200", "--studies", "4", "--least", "2"]
    done = _run("coverage", small)
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    assert {"coverage_low", "coverage_high", "n_judged", "coverage_s"} <= set(figures)
    assert 0 <= figures["coverage_low"] <= figures["coverage_high"] <= 1
    rows = [line.split("|")[1].strip() for line in done.stdout.splitlines() if "per_relation" in line]
    assert len(rows) == 2 * len(set(rows))
    assert set(rows) > {"both methods good somewhere", "one always better", "equal", "tiny relations"}


def test_consistency_prints_its_figures() -> None:
    small = ["--questions", "60", "--texts", "30", "--rounds", "1"]
    done = _run("consistency", small)
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    assert set(figures) == {"int_sim_ratio", "embedding_overhead", "peak_mb"}
    assert all(value > 0 for value in figures.values())
    assert "120 sets of answers" in done.stdout


def test_retrieval_prints_its_figures_and_finds_what_bm25s_and_faiss_find() -> None:
    done = _run("retrieval", ["--passages", "1000", "--questions", "10", "--encoded", "3"])
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    names = {"bm25_overhead", "rank_bm25_ratio", "dense_overhead", "encoder_overhead", "peak_mb_1k", "load_s"}
    names |= {"ivf_pq_recall", "hnsw_recall"}
    missing = set() if importlib.util.find_spec("rank_bm25") else {"rank_bm25_ratio"}
    assert set(figures) == names - missing
    assert all(value > 0 for value in figures.values())


def test_the_router_prints_its_figures_and_every_reply_is_the_files_decision() -> None:
    small = ["--requests", "200", "--clients", "8", "--entities", "300"]
    done = _run("router", small)
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    names = {"decide_us", "lookup_us", "requests_per_s", "p50_ms", "p99_ms", "batched_per_s"}
    assert set(figures) == names
    assert all(value > 0 for value in figures.values())


def test_pararel_prints_its_figures_and_both_models_score_as_transformers_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All steps run in this process, dbt among them."""

    def build(study: Study, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        found = in_process_dbt.invoke_dbt(study, *arguments)
        target = study.home.build / "dbt" / "target"
        target.mkdir(parents=True, exist_ok=True)
        (target / "run_results.json").write_text(json.dumps({"elapsed_time": found.elapsed_time}))
        return subprocess.CompletedProcess(arguments, 0, "Done.", "")

    monkeypatch.setenv("LONGTAIL_HOME", "")  # put back at the end: each step points to its folder
    monkeypatch.setattr(pararel, "timed_step", warehouse._measured)
    monkeypatch.setattr(pararel, "dbt_command", build)
    monkeypatch.setattr(
        sys, "argv", ["pararel", "--every", "50", "--candidates", "4", "--fused", "3", "--tiny"]
    )
    pararel.main()
    said = capsys.readouterr().out
    figures = json.loads(said.splitlines()[-1])
    assert set(figures) == {"scoring_ratio", "fid_ratio", "measures_s", "peak_mb"}
    assert all(value > 0 for value in figures.values())
    assert "tiny T5's shape" in said
    assert "RANDOM WEIGHTS" in said


def test_prediction_prints_its_times() -> None:
    done = _run("prediction", ["--models", "1"])
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    assert set(figures) == {"regression_s", "ablations_s"}
    assert all(value > 0 for value in figures.values())


def test_grounding_prints_its_figures_and_its_portrait_misses_nothing() -> None:
    done = _run("grounding", ["--gib", "0.002", "--asked", "400000", "--no-peers"])
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    assert set(figures) == {"build_mgrams_s", "query_mgrams_s", "bits_ratio", "fp_ratio", "peak_mb"}
    assert figures["bits_ratio"] < 1.1
    assert 0.7 < figures["fp_ratio"] < 1.3
