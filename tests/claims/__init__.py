"""Every sentence with a number that can be computed: in README, docs, captions, and docstrings of figures.

A number that no claim computes is of a kind that `UNCOMPUTED` names, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.claims import architecture, captions, papers, readme, retrieval
from tests.claims.form import Claim, all_captions, modules_of_figures

CLAIMS: tuple[Claim, ...] = (
    *readme.CLAIMS,
    *papers.CLAIMS,
    *architecture.CLAIMS,
    *captions.CLAIMS,
    *retrieval.CLAIMS,
)

UNCOMPUTED: tuple[tuple[str, str], ...] = (
    (
        r"\| (bm25|dense|hybrid|oracle) \| (all questions|[\d,]+ to [\d,]+) \| [\d,]+ (\| (–|[\d.]+( to [\d.]+)?) ){6}\|",
        "docs/retrieval.md: tests/journeys/test_claims.py computes the sandbox's table. The real tables are of "
        "studies/popqa_real.yaml, whose files the project does not hold; tests/test_claims.py "
        "compares their rows with one another",
    ),
    (
        r"reference_[smle] \w+ [\d,]+ 0\.\d+ 0\.\d+ to 0\.\d+( [+-]?0\.\d+)+( \d+%)?",
        "the headline's table: tests/journeys/test_claims.py compares it whole",
    ),
    (r"\| reference_[smle] \|.*\|", "the table of signals: tests/journeys/test_claims.py compares it whole"),
    (
        r"n_parameters: 162_322_944|(requests_per_minute|(prompt|completion)_usd_per_million|max_cost_usd): [\d.]+",
        "an example",
    ),
    (
        r"`shots: 15`|shots: 15, draw: per_question|--shard [12]/2\b|concurrency set gpu 2|b\.bin = 3\b"
        r"|own, risk = 0\.8, 0\.2|WAREHOUSE_MEMORY=12GB"
        r"|PORT=3001|QUICK=1|LIMIT=50|_limit_50|snapshot: \"2026-10\"|popularity=120|\"popularity\": 120"
        r"|n_months: 1, last_month: \"2021-10\"|thinking_tokens: 4000|PUBLISH_FEWER=1"
        r"|\b[48]bit\b"
        r"|false_positive_rate: 0\.001|k1: 0\.9, b: 0\.4|steps: 2 # first the answer, then its explanation; 1 asks",
        "an example",
    ),
    (r"https?://\S+|127\.0\.0\.1|head:6379", "an address"),
    (r"[A-Za-z]+[-_]?\d[\w.-]*", "a name: bm25, float16, bzip2, T5, SHA-256"),
    (r"Python 3\.11 to 3\.13|SQLAlchemy 2\.1|SPARQL 1\.1|Apache License 2\.0", "a version"),
    (
        r"(Figures?|Tables?|sections?|appendix|SPEC §) ?[A-C]?[\d.]+(, §?\d+)*",
        "a place in a paper or in SPEC",
    ),
    (r"4,000 of 14,267|recall@1 is low: \.14 against \.42 overall|reports 0\.914", "the papers' own numbers"),
    (r"run on 2026-\d\d-\d\d", "a day"),
    (r"recall@(1|5|20)\b|batch size 1\b", "the name of a measure"),
    (
        r"\b25 characters|at most 2,500 MB|25-grams|\b3 texts per|cut at 900 characters|64 KiB|150 questions"
        r"|500 questions of PopQA|under 40 texts|passages of 100 words|16 bytes each",
        "the size of something by definition",
    ),
    (
        r"(Wilson's, |Wilson |bootstrap |central |with |accuracy |are |has |its |the |\()95 %",
        "the level of intervals",
    ),
    (r"fewer than 20 (questions|subjects)", "the least that an interval needs (SPEC §12)"),
    (
        r"easily near ±1|; 1 means that|both are near 1,|null, never 0\.|above \.8 in",
        "the scale of a measure, or a mark on it",
    ),
    (r"for all 12 pairs of model and retriever", "timings of a machine and a day"),
    (
        r"for 11\.7 % of 60 questions of PopQA \(5\.8 to 22\.2\) with this prompt, and for 0 % \(0 to 6\.0\)",
        "README's own study on questions of PopQA, which the project does not hold",
    ),
    (
        r"with -9\b|five 429 in a row|exit code 1\b|exit code is then 1\b|exit code is 128 and the signal's number"
        r"|\(130 after Ctrl-C, 143 after SIGTERM\), but 0 for|as process 1 of a container",
        "a signal or a status of HTTP or of a process",
    ),
    (r"up to 200 rows in a terminal and 10,000 in a pipe|U\+0080 to U\+009F", "what DuckDB's shell shows"),
)
"""Patterns and why nothing computes them."""


def swept() -> Sequence[str]:
    """Where every number must be accounted for."""
    return (
        "README.md",
        "CONTRIBUTING.md",
        "docs/architecture.md",
        "docs/default_study.md",
        "docs/facts.md",
        "docs/models.md",
        "docs/operations.md",
        "docs/paper_claims.md",
        "docs/passages.md",
        "docs/retrieval.md",
        "docs/router.md",
        "docs/sql.md",
        "docs/your_data.md",
        *all_captions(),
        *modules_of_figures(),
    )
