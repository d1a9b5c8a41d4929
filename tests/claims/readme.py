"""Claims of README.md, of the pages that explain how to use Longtail, and of docstrings that quote the default study."""

from __future__ import annotations

import json
import re

import duckdb

from dagster_project.core.storage.home import PROJECT_ROOT
from dagster_project.core.study.quick import N_QUESTIONS as QUICK
from dagster_project.core.wikimedia.page_view_origins import MOST_BY_API
from tests.claims.form import Claim, Numbers, constant, dbt_variable, written

README = "README.md"
CONTRIBUTING = "CONTRIBUTING.md"
DEFAULT_STUDY = "docs/default_study.md"
_RESULTS = "benchmarks/RESULTS.md"
_SIZES = (
    "select (select max(n_questions) from dim_datasets) as n, (select count(*) from dim_methods) as methods, "
    "(select count(*) from dim_models) as models"
)


def _measured(topic: str, name: str) -> float:
    """The newest value under a name in the sections of benchmarks/RESULTS.md on one command, make bench-<topic>."""
    sections = re.split(r"^## ", (PROJECT_ROOT / _RESULTS).read_text(encoding="utf-8"), flags=re.MULTILINE)
    of_topic = [section for section in sections if re.match(rf".*`make bench-{topic}[` ]", section)]
    kept = [json.loads(line) for line in re.findall(r"^    (\{.*\})$", "\n".join(of_topic), re.MULTILINE)]
    return float([values[name] for values in kept if name in values][-1])


def _generation(_: duckdb.DuckDBPyConnection) -> Numbers:
    return {
        "loop": round(_measured("generation", "loop_ratio")),
        "batched": round(_measured("generation", "batched_ratio")),
    }


def _warehouse(_: duckdb.DuckDBPyConnection) -> Numbers:
    n = written(_RESULTS, r"questions, ([\d,]+) answers \(")
    return {
        "n": n,
        "s": round(_measured("warehouse", "build_s")),
        "ratio": round(_measured("warehouse", "thresholds_ratio")),
    }


def _row(section: str, row: str) -> list[str]:
    """The cells of a row of docs/popqa_real.md after those that it begins with."""
    text = (PROJECT_ROOT / "docs/popqa_real.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {section}$.*?^\| {re.escape(row)} \| (.*?) \|$", text, re.MULTILINE | re.DOTALL)
    assert found, f"docs/popqa_real.md holds no row {row} in {section}"
    return found[1].split(" | ")


def _real_accuracy(_: duckdb.DuckDBPyConnection) -> Numbers:
    found: dict[str, float] = {}
    for name, method in (("m", "closed_book"), ("b", "bm25")):
        _, accuracy, interval = _row("Accuracy", f"popqa_random | {method}")
        found |= {name: float(accuracy)} | dict(
            zip((f"{name}_low", f"{name}_high"), map(float, interval.split(" to ")), strict=True)
        )
    return found


def _real_correlation(_: duckdb.DuckDBPyConnection) -> Numbers:
    n, pooled, of_pooled, within, of_within = _row(
        "Correlation of correctness with popularity", "popqa_random | closed_book"
    )
    found = {"n": n, "pooled": pooled, "within": within}
    for name, interval in (("pooled", of_pooled), ("within", of_within)):
        found[f"{name}_low"], found[f"{name}_high"] = interval.split(" to ")
    return found


CLAIMS = (
    Claim(
        README,
        "accuracy from {m:p1} % ({m_low:p1} to {m_high:p1}) to {b:p1} % ({b_low:p1} to {b_high:p1})",
        _real_accuracy,
    ),
    Claim(
        README,
        "{n} passages of Wikipedia",
        constant(n=written("docs/popqa_real.md", r"The ([\d,]+) passages")),
    ),
    Claim(README, "SmolLM2-135M-Instruct in 4 bits, {n} random questions", _real_correlation),
    Claim(README, "SmolLM2-135M on {n} random questions", _real_correlation),
    Claim(
        README,
        "installs SmolLM2-135M ({mb} MB)",
        constant(mb=written("Makefile", r"SmolLM2-135M-Instruct \((\d+) MB\)")),
    ),
    Claim(README, "with correctness is {pooled} ({pooled_low} to {pooled_high})", _real_correlation),
    Claim(README, "popularity helps: {within} ({within_low} to {within_high})", _real_correlation),
    Claim(README, "answers {n:,} questions {methods:w} ways with {models:w} models", _SIZES),
    Claim(README, "{models:w} small reference models answer questions about a synthetic world", _SIZES),
    Claim(
        DEFAULT_STUDY,
        "{models:w} reference models answer questions about a synthetic world by {methods:w}",
        _SIZES,
    ),
    Claim(DEFAULT_STUDY, "Accuracy against popularity for {models:w} models and {methods:w} methods", _SIZES),
    Claim(README, "Add `QUICK=1` to any study to ask at most {n} questions", constant(n=QUICK)),
    Claim(DEFAULT_STUDY, "over {splits} random splits", constant(splits=dbt_variable("adaptive_splits"))),
    Claim(
        "docs/sql.md",
        "{n} ready questions",
        constant(n=len(list((PROJECT_ROOT / "dbt/analyses").glob("*.sql")))),
    ),
    Claim("docs/facts.md", "does above {titles:,} titles", constant(titles=MOST_BY_API)),
    Claim(
        "docs/operations.md",
        "make ui # http://127.0.0.1:{port};",
        constant(port=written("Makefile", r"^PORT \?= (\d+)$")),
    ),
    Claim(CONTRIBUTING, "{loop} times the loop, {batched} times padded batches", _generation),
    Claim(
        CONTRIBUTING, "{n} answers built and tested in {s} s; thresholds {ratio} times as fast", _warehouse
    ),
    Claim(
        "dagster_project/core/retrieval/bm25.py",
        "recall@1 is {recall:.3f} on the sandbox's {n:,} questions",
        "select recall_at_1 as recall, n from fct_retrieval_recall where retriever = 'bm25' and relation = 'all'",
    ),
)
