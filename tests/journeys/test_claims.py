"""The numbers in README, docs and captions equal those of the default study's warehouse, the code and dbt."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from longtail.storage.home import PROJECT_ROOT
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.warehouse.headline import headline, render_headline
from tests.claims import CLAIMS
from tests.claims.form import Claim, text_of
from tests.claims.readme import DEFAULT_STUDY, signal_rows
from tests.claims.retrieval import TABLES, agrees, cells_in_page, hybrid_rows, table_of, tables_in_page
from tools.pages.paper_comparison import PLACE, chosen, ours_of, page, shown

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("default_study")]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.place}: {claim.says[:40]}")
def test_the_numbers_equal_the_computed_ones(claim: Claim, marts: duckdb.DuckDBPyConnection) -> None:
    (stands,) = (found[0] for found in claim.pattern().finditer(text_of(claim.place)))
    assert stands == claim.rendered(marts), claim.place


def test_the_headline_in_the_docs_equals_the_terminals(finished_home: Path) -> None:
    printed = render_headline(headline(finished_home / "published/warehouse.duckdb"))
    indented = "\n".join(f"    {line}" for line in printed.splitlines())
    assert indented in (PROJECT_ROOT / "docs/default_study.md").read_text(encoding="utf-8"), (
        f"docs/default_study.md must show:\n{indented}"
    )


def test_the_table_of_signals_is_that_of_the_default_study(marts: duckdb.DuckDBPyConnection) -> None:
    rows = "\n".join(signal_rows(marts))
    assert rows in (PROJECT_ROOT / DEFAULT_STUDY).read_text(encoding="utf-8"), f"the page must show:\n{rows}"


def test_the_sandbox_s_cells_are_those_of_the_default_study(marts: duckdb.DuckDBPyConnection) -> None:
    found = {row[1:] for row in shown(page(chosen([ours_of(marts)])))}
    text = (PROJECT_ROOT / PLACE).read_text(encoding="utf-8")
    of_sandbox = {row[1:] for row in shown(text) if row[0].startswith("sandbox, ")}
    assert len(of_sandbox) > 50
    assert of_sandbox - found == set()


def test_the_sandbox_s_recalls_are_those_of_the_default_study(
    finished_home: Path, marts: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(finished_home))
    study = load_study(PROJECT_ROOT / "study.yaml")
    rows = table_of(marts, "sandbox") + hybrid_rows(marts, Lake(study.home.lake), study.top_k)
    assert tables_in_page()["sandbox"] == sorted(rows, key=lambda row: row.split(" | ")[0])


@pytest.mark.parametrize("dataset", TABLES)
def test_recalls_have_their_intervals_and_add_up(dataset: str) -> None:
    """The files of the real studies are not in the project: what their rows say of each other is checked."""
    rows = list(cells_in_page(dataset))
    assert {retriever for retriever, *_ in rows} == {"bm25", "dense", "hybrid", "oracle"}
    for retriever in ("bm25", "dense", "hybrid", "oracle"):
        (n, whole), *thirds = ((n, rates) for own, _, n, rates in rows if own == retriever)
        assert len(thirds) == 3
        n_known = sum(n for n, _ in thirds)
        assert n_known == n or (dataset == "sandbox" and n_known < n)  # subjects without an article
        if dataset != "sandbox":  # whose intervals over subjects are computed above
            assert all(agrees(*rate, n) for n, rates in ((n, whole), *thirds) for rate in rates)
        for at, (share, _) in enumerate(whole):
            hits = sum(n * rates[at][0] for n, rates in thirds)
            assert -(n - n_known) - 0.001 * n <= hits - share * n <= 0.001 * n
