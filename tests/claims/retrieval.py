"""Tables and claims of docs/retrieval.md.

The default study computes the sandbox's table, but for hybrid, a method that it lacks. The other tables come from studies
of real data, which the project does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import duckdb

from longtail.embedding.settings import IvfPq
from longtail.storage.home import PROJECT_ROOT
from tests.claims.form import Claim, Computed, Numbers, constant, written

PLACE, RESULTS = "docs/retrieval.md", "benchmarks/RESULTS.md"
TABLES = ("sandbox", "popqa_random", "popqa_first")
"""Datasets, in the order of the page's tables of recall."""
ALL = "all questions"
_DEPTHS = (1, 5, 20)
_HEAD = "| retriever | popularity |"
_RATES = ", ".join(f"recall_at_{at}, recall_at_{at}_ci_low, recall_at_{at}_ci_high" for at in _DEPTHS)
_MARTS = f"""
select retriever, null as popularity_low, null as popularity_high, n, {_RATES}
from fct_retrieval_recall where relation = 'all' and dataset = $dataset
union all
select retriever, popularity_low, popularity_high, n, {_RATES}
from fct_retrieval_recall_by_popularity_third where dataset = $dataset
order by retriever, popularity_low nulls first
"""
Rates = Sequence[tuple[float, float, float] | None]


def table_of(marts: duckdb.DuckDBPyConnection, dataset: str) -> list[str]:
    """The rows of a dataset's table, as the page writes them."""
    return [
        _row(
            retriever,
            None if low is None else (low, high),
            n,
            [rates[at : at + 3] if rates[at] is not None else None for at in range(0, len(rates), 3)],
        )
        for retriever, low, high, n, *rates in marts.execute(_MARTS, {"dataset": dataset}).fetchall()
    ]


def _row(retriever: str, span: tuple[float, float] | None, n: int, rates: Rates) -> str:
    cells = [retriever, f"{span[0]:,.0f} to {span[1]:,.0f}" if span else ALL, f"{n:,}"]
    for rate in rates:
        share, low, high = map(_short, rate) if rate else ("–", "–", "–")
        cells += [share, f"{low} to {high}" if rate else "–"]
    return f"| {' | '.join(cells)} |"


def _short(share: float) -> str:
    return f"{share:.3f}".removeprefix("0")


def tables_in_page() -> Mapping[str, list[str]]:
    """The rows of each table of the page, by dataset."""
    parts = (PROJECT_ROOT / PLACE).read_text(encoding="utf-8").split("\n\n")
    tables = [part.strip().splitlines()[2:] for part in parts if part.startswith(_HEAD)]
    return dict(zip(TABLES, tables, strict=True))


def cells_in_page(dataset: str) -> Iterator[tuple[str, str, int, list[tuple[float, str]]]]:
    """(retriever, popularity, n, (recall, interval) by depth) of a table's rows."""
    for row in tables_in_page()[dataset]:
        retriever, popularity, n, *rates = row.strip("| ").split(" | ")
        pairs = zip(rates[::2], rates[1::2], strict=True)
        yield (
            retriever,
            popularity,
            int(n.replace(",", "")),
            [(float(share), interval) for share, interval in pairs if share != "–"],
        )


def _recalls(dataset: str, wanted: Callable[[str, str], bool], names: Sequence[str]) -> Computed:
    """recall@1 of the rows of a table that are `wanted` by retriever and popularity, under `names`, in their order."""

    def numbers(_: duckdb.DuckDBPyConnection) -> Numbers:
        found = [
            rates[0][0] for retriever, span, _, rates in cells_in_page(dataset) if wanted(retriever, span)
        ]
        return dict(zip(names, found, strict=True))

    return numbers


def _measured(row: str) -> tuple[float, str]:
    """recall@20 and questions a processor second of a way to rank, in benchmarks/RESULTS.md."""
    recall, speed = (
        written(RESULTS, rf"^\| {re.escape(row)} \| {cells} \|$")
        for cells in (r"([\d.]+) \| .*", r".* \| ([\d,]+)")
    )
    return float(recall), speed


def _refined(_: duckdb.DuckDBPyConnection) -> Numbers:
    (codes, fast), (vectors, slow) = map(
        _measured, ("codes alone, as before", f"vectors, `refine_factor: {IvfPq.refine_factor}`, the default")
    )
    return {"codes": codes, "vectors": vectors, "factor": IvfPq.refine_factor, "slow": slow, "fast": fast}


def _n_of(dataset: str) -> Computed:
    """Number `n` of a table's first row, which counts all questions."""
    return lambda _: {"n": next(cells_in_page(dataset))[2]}


CLAIMS = (
    Claim(
        PLACE,
        "There are {k} passages a question (`top_k: {k}`)",
        constant(k=written("study.yaml", r"^top_k: (\d+)")),
    ),
    Claim(
        PLACE,
        "has the highest recall@1 ({hybrid:d3}; bm25 {bm25:d3}, dense {dense:d3})",
        _recalls(
            "popqa_random",
            lambda retriever, span: span == ALL and retriever != "oracle",
            ("bm25", "dense", "hybrid"),
        ),
    ),
    Claim(
        PLACE,
        "hold an answer for {most:d3} of it (oracle), and for {least:d3} of the least popular third",
        _recalls(
            "popqa_random",
            lambda retriever, span: retriever == "oracle" and span != ALL,
            ("least", "middle", "most"),
        ),
    ),
    Claim(
        PLACE,
        "The {n} questions without popularity are",
        "select n_questions - n_questions_with_popularity as n from dim_datasets",
    ),
    Claim(
        PLACE,
        "IVF-PQ found {codes:d3} of the 20 nearest when its codes alone ranked them, and {vectors:d3} with the default "
        "`refine_factor: {factor}`, at {slow} instead of {fast} questions a processor second",
        _refined,
    ),
    Claim(PLACE, "The {n:,} random questions:", _n_of("popqa_random")),
    Claim(PLACE, "The first {n:,} questions:", _n_of("popqa_first")),
    Claim(PLACE, "the subjects of the first {n:,} questions", _n_of("popqa_first")),
    Claim(
        PLACE,
        "`studies/popqa_real.yaml`: {n} passages",
        constant(n=written("docs/popqa_real.md", r"The ([\d,]+) passages")),
    ),
)
