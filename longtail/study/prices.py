"""The prices of services, by host, model and date: the price table `prices.csv`, and the study's own prices."""

from __future__ import annotations

import csv
import functools
import importlib.resources
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from urllib.parse import urlsplit

from longtail.study.models import Model

_STUDY = "study"
_ALWAYS = "1970-01-01"


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens from `valid_from` (YYYY-MM-DD) on; `source` says who published the price."""

    valid_from: str
    prompt_usd_per_million: float
    completion_usd_per_million: float
    source: str

    def exact_usd(self, prompt_tokens: int, new_tokens: int) -> Fraction:
        """The exact price of one request: a budget sums many of them."""
        prompt_usd, new_usd = (
            Fraction(str(usd)) for usd in (self.prompt_usd_per_million, self.completion_usd_per_million)
        )
        return (prompt_tokens * prompt_usd + new_tokens * new_usd) / 1_000_000


def prices_of(model: Model) -> tuple[Price, ...]:
    """All known prices of a service's model, oldest first: the study's own price, else the table's.

    The table is searched by the host of `base_url` and the model's `path`: a model with the same name on another
    server has another price, or none.
    """
    service = model.service
    if service is None:
        return ()
    stated = service.prompt_usd_per_million, service.completion_usd_per_million
    if stated[0] is not None and stated[1] is not None:
        return (Price(_ALWAYS, stated[0], stated[1], _STUDY),)
    return tuple(
        sorted(
            _table().get((urlsplit(service.base_url).hostname or "", model.path), ()),
            key=lambda price: price.valid_from,
        )
    )


def price_on(model: Model, day: date) -> Price | None:
    """The price on a day; None if it is unknown."""
    valid = [price for price in prices_of(model) if price.valid_from <= day.isoformat()]
    return valid[-1] if valid else None


@functools.cache
def _table() -> dict[tuple[str, str], list[Price]]:
    """Host and the model's name there → its prices."""
    prices: dict[tuple[str, str], list[Price]] = {}
    file = importlib.resources.files("longtail.study") / "prices.csv"
    with file.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            prompt_usd, new_usd = (float(row[f"{what}_usd_per_million"]) for what in ("prompt", "completion"))
            price = Price(row["valid_from"], prompt_usd, new_usd, row["source"])
            prices.setdefault((row["host"], row["path"]), []).append(price)
    return prices
