"""The numbers in README, docs and captions equal those of the default study's warehouse, the code and dbt."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from longtail.storage.home import PROJECT_ROOT
from longtail.warehouse.publication import headline, render_headline
from tests.claims import CLAIMS
from tests.claims.form import Claim, text_of
from tests.claims.readme import DEFAULT_STUDY, signal_rows
from tests.claims.retrieval import table_of, tables_in_page
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


def test_the_sandbox_s_recalls_are_those_of_the_default_study(marts: duckdb.DuckDBPyConnection) -> None:
    rows = [row for row in tables_in_page()["sandbox"] if not row.startswith("| hybrid ")]
    assert rows == sorted(table_of(marts, "sandbox"), key=lambda row: row.split(" | ")[0])
