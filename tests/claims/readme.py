"""Claims of README.md, of the pages that explain how to use Longtail, and of docstrings that quote the default study."""

from __future__ import annotations

import inspect

import duckdb

from longtail.commands import ui
from longtail.storage.home import N_QUESTIONS as QUICK
from longtail.storage.home import PROJECT_ROOT
from longtail.wikimedia.page_views import MOST_BY_API
from tests.claims.form import Claim, Form, Numbers, constant, dbt_variable, written

README = "README.md"
DEFAULT_STUDY = "docs/default_study.md"
_SIZES = (
    "select (select max(n_questions) from dim_datasets) as n, (select count(*) from dim_methods) as methods, "
    "(select count(*) from dim_models) as models"
)
_SIGNALS = """
with areas as (
    select model, signal, auroc, auroc_ci_low, auroc_ci_high from fct_signal_quality where method = 'closed_book'
), gains as (
    select model, signal, gain_over_popularity_all as gain, gain_over_popularity_all_ci_low as low,
        gain_over_popularity_all_ci_high as high
    from fct_adaptive_signals where retrieval_method = 'bm25' and threshold_scope = 'all'
)
select model, signal, auroc, auroc_ci_low, auroc_ci_high, gain, low, high
from areas left join gains using (model, signal)
where signal in ('popularity', 'confidence', 'popularity_confidence')
"""


def signal_rows(marts: duckdb.DuckDBPyConnection) -> list[str]:
    """The rows of the default study's table: AUROC of three signals, and what deciding by two gains over popularity."""
    found = {row[:2]: row[2:] for row in marts.sql(_SIGNALS).fetchall()}
    signals = ("popularity", "confidence", "popularity_confidence")
    rows = []
    for model in (f"reference_{size}" for size in "seml"):
        areas = [_estimated(*found[model, signal][:3], "d2") for signal in signals]
        gains = [_estimated(*found[model, signal][3:], "s3") for signal in signals[1:]]
        rows.append(f"| {' | '.join([model, *areas, *gains])} |")
    return rows


def _estimated(value: float, low: float | None, high: float | None, form: str) -> str:
    ends = "–" if low is None else f"{{:{form}}} to {{:{form}}}"
    return Form().format(f"{{:{form}}} ({ends})", value, low, high)


_REAL = "docs/real_models.md"


def _real_signals(_: duckdb.DuckDBPyConnection) -> Numbers:
    ends = written(_REAL, r"for every model: (.*?)\.\*\*").replace("\n", " ")
    confidence, popularity = (one.split(" to ") for one in ends.split(" against "))
    return {"c_low": confidence[0], "c_high": confidence[1], "p_low": popularity[0], "p_high": popularity[1]}


def _real_policies(_: duckdb.DuckDBPyConnection) -> Numbers:
    policies = ("never", "always", "oracle", "adaptive_rag")
    found = {name: written(_REAL, rf"^\| `{name}` \| \d+ \| (\.\d+) ") for name in policies}
    share = written(_REAL, r"^\| `oracle` \| \d+ \| [^|]+\| (\d+)% ")
    return {**found, "share": share, "n": written(_REAL, r"^\| `oracle` \| (\d+) ")}


def _real_verdicts(_: duckdb.DuckDBPyConnection) -> Numbers:
    """The rows whose gain by popularity is known; none of them gains."""
    rows = written(_REAL, r"(?s)(\| questions \| model \| n \|.*?)\n\n").splitlines()
    at = rows[0].split(" | ").index("gain by popularity")
    known = [gain for row in rows[2:] if not (gain := row.split(" | ")[at]).startswith("not known")]
    assert not [gain for gain in known if gain.startswith("gains +")]
    return {"n": len(known)}


def _real_sample(_: duckdb.DuckDBPyConnection) -> Numbers:
    best = written(_REAL, r"tells more than popularity for each of them: an AUROC of ([^*]*?)\.\*\*").replace(
        "\n", " "
    )
    quarters = written(_REAL, r"most popular quarter they are right for ([^T]*?)\. The").replace("\n", " ")
    (b_low, b_high), (p_low, p_high) = (ends.split(" to ") for ends in best.split(" against "))
    (high, highest), (low, lowest) = (
        ends.split(" to ") for ends in quarters.split(", in the least popular one for ")
    )
    return {
        "b_low": b_low, "b_high": b_high, "p_low": p_low, "p_high": p_high, "high": high, "highest": highest,
        "low": low, "lowest": lowest,
    }  # fmt: skip


CLAIMS = (
    Claim(
        README,
        "they are right for {high} to {highest} of the most popular quarter, and for {low} to {lowest} of the least"
        " popular one. The best of their own signals tells right from wrong with an AUROC of {b_low} to {b_high},"
        " popularity with {p_low} to {p_high}",
        _real_sample,
    ),
    Claim(README, "gained nothing in the {n:w} cases where it could be judged", _real_verdicts),
    Claim(
        README, "said who performs each of {n} songs", constant(n=written(_REAL, r"each of ([\d,]+)\s+songs"))
    ),
    Claim(README, "AUROC of {c_low} to {c_high} against {p_low} to {p_high}", _real_signals),
    Claim(
        README,
        "On {n} questions of HotpotQA, a Llama of 8 billion parameters is right for {never} from memory and for "
        "{always} with passages; the oracle that picks the right one of the two reaches {oracle}, and retrieves for "
        "{share} %. The decisions of Adaptive-RAG reach {adaptive_rag}",
        _real_policies,
    ),
    Claim(
        README,
        "installs SmolLM2-135M ({mb} MB)",
        constant(mb=written("Makefile", r"SmolLM2-135M-Instruct \((\d+) MB\)")),
    ),
    Claim(README, "answers {n:,} questions {methods:w} ways with {models:w} models", _SIZES),
    Claim(README, "{models:w} small reference models answer questions about a synthetic world", _SIZES),
    Claim(
        DEFAULT_STUDY,
        "{models:w} reference models answer questions about a synthetic world by {methods:w}",
        _SIZES,
    ),
    Claim(DEFAULT_STUDY, "Accuracy against popularity for {models:w} models and {methods:w} methods", _SIZES),
    Claim(README, "`QUICK=1` asks {n}", constant(n=QUICK)),
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
        constant(port=inspect.signature(ui.main).parameters["port"].default),
    ),
    Claim(
        "longtail/retrieval/bm25.py",
        "recall@1 is {recall:.3f} on the sandbox's {n:,} questions",
        "select recall_at_1 as recall, n from fct_retrieval_recall where retriever = 'bm25' and relation = 'all'",
    ),
)
