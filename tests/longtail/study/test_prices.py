"""Prices: the table's rows are whole, and the one of the day is taken."""

from __future__ import annotations

import csv
import importlib.resources
from datetime import date, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.study.models import Model, Service
from longtail.study.prices import price_on, prices_of

URL = "https://api.openai.com/v1"


def _model(path: str, prompt: float | None = None, completion: float | None = None) -> Model:
    service = Service(URL, prompt_usd_per_million=prompt, completion_usd_per_million=completion)
    return Model("m", path, "openai", service=service)


def test_every_row_of_the_table_is_whole_and_has_its_source() -> None:
    file = importlib.resources.files("longtail.study") / "prices.csv"
    with file.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert len({(row["host"], row["path"], row["valid_from"]) for row in rows}) == len(rows)
    for row in rows:
        assert date(2020, 1, 1) < date.fromisoformat(row["valid_from"]) <= date(2026, 11, 20)
        assert 0 < float(row["prompt_usd_per_million"]) <= float(row["completion_usd_per_million"]) < 1000
        assert "." in row["source"]
        assert "/" in row["source"]


def test_a_price_holds_from_its_day_on() -> None:
    old, new = prices_of(_model("gpt-4o"))
    change = date.fromisoformat(new.valid_from)
    assert price_on(_model("gpt-4o"), change) == new
    assert price_on(_model("gpt-4o"), change - timedelta(days=1)) == old
    assert price_on(_model("gpt-4o"), date(2024, 1, 1)) is None
    assert (old.prompt_usd_per_million, new.prompt_usd_per_million) == (5.0, 2.5)


def test_the_studys_own_price_comes_first_and_unknown_is_none() -> None:
    own = price_on(_model("gpt-4o", 0.1, 0.2), date(1999, 1, 1))
    assert own is not None
    assert own.exact_usd(1_000_000, 500_000) == Fraction("0.2")
    assert price_on(_model("no-such-model"), date(2026, 1, 1)) is None
    assert prices_of(Model("m", "gpt-4o")) == ()
    assert prices_of(Model("m", "gpt-4o", "openai", service=Service("http://127.0.0.1:8000/v1"))) == ()


@given(st.integers(0, 10**7), st.integers(0, 10**6))
def test_a_bill_is_exact(prompt_tokens: int, new_tokens: int) -> None:
    price = price_on(_model("gpt-4o-mini"), date(2026, 1, 1))
    assert price is not None
    assert price.exact_usd(prompt_tokens, new_tokens) == Fraction(15 * prompt_tokens + 60 * new_tokens, 10**8)
    assert float(price.exact_usd(prompt_tokens, new_tokens)) == pytest.approx(
        (prompt_tokens * 0.15 + new_tokens * 0.6) / 1e6
    )
