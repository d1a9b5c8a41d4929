"""Benchmarks run on small inputs, and check the results that they time.

Those of the warehouse and of Ray are too dear for the suite. Figures are not tested here: speed is measured by
`make bench-…`, on a quiet machine.
"""

from __future__ import annotations

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

pytestmark = pytest.mark.journey

SMALL = {
    "generation": (
        "--every 1200 --rounds 1 --candidates 4 --stream 40 --no-harness --gpu tiny",
        "loop_ratio batched_ratio sampling_cost scoring_ratio peak_overhead_mb gpu_loop_ratio gpu_continuous_ratio",
    ),
    "consistency": ("--questions 60 --texts 30 --rounds 1", "int_sim_ratio embedding_overhead peak_mb"),
    "retrieval": (
        "--passages 1000 --questions 10 --encoded 3",
        "bm25_overhead dense_overhead encoder_overhead peak_mb_1k load_s ivf_pq_recall",
    ),
    "router": (
        "--requests 200 --clients 8 --entities 300",
        "decide_us lookup_us requests_per_s p50_ms p99_ms batched_per_s",
    ),
    "prediction": ("--models 1", "regression_s ablations_s"),
    "grounding": (
        "--gib 0.002 --asked 400000 --no-peers", "build_mgrams_s query_mgrams_s bits_ratio fp_ratio peak_mb",
    ),
    "coverage": (
        "--of adaptive --sizes 200 --studies 4 --least 2", "coverage_low coverage_high n_judged coverage_s",
    ),
    "damaged_files": ("--kinds lake --flips 8", "other_results signals named"),
}  # fmt: skip
"""Benchmark → its options, and the figures of its last line."""


@pytest.mark.parametrize("benchmark", SMALL)
def test_it_prints_its_figures(benchmark: str) -> None:
    options, names = SMALL[benchmark]
    code = f"import sys\nsys.argv[1:] = {options.split()!r}\nfrom benchmarks.{benchmark} import main\nmain()"
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(PROJECT_ROOT)}
    done = fork_server.run(["-c", code], PROJECT_ROOT, env, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    assert set(names.split()) <= set(figures)
    if benchmark == "damaged_files":
        assert figures == {"other_results": 0, "signals": 0, "named": 8}
    elif benchmark == "coverage":
        assert 0 <= figures["coverage_low"] <= figures["coverage_high"] <= 1
    else:
        assert all(value > 0 for value in figures.values())
    if benchmark == "grounding":
        assert figures["bits_ratio"] < 1.1
        assert 0.7 < figures["fp_ratio"] < 1.3


def test_thresholds_equal_the_notebooks(monkeypatch: pytest.MonkeyPatch) -> None:
    built_study(AWKWARD, monkeypatch)
    race = warehouse.race_thresholds(folder_of(AWKWARD), exact_splits=1)
    assert race.n_checked > 100
    assert race.n_pairs > 10


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
