"""Every number in README, docs and captions belongs to a computed claim, or to a stated kind that cannot be computed.

This module needs no warehouse: it checks that each claim is found in its place, and that no number is left over.
`tests/journeys/test_claims.py` computes the numbers from the finished default study.
"""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from tests.claims import CLAIMS, UNCOMPUTED, swept
from tests.claims.form import Claim, text_of
from tests.claims.retrieval import TABLES, agrees, cells_in_page

BY_PLACE: dict[str, list[Claim]] = defaultdict(list)
for one in CLAIMS:
    BY_PLACE[one.place].append(one)


@pytest.mark.parametrize("place", swept())
def test_no_number_is_left_over(place: str) -> None:
    text = text_of(place)
    for claim in BY_PLACE[place]:
        text = claim.pattern().sub(" ~ ", text)
    for pattern, _ in UNCOMPUTED:
        text = re.sub(pattern, " ~ ", text)
    left = [text[max(0, found.start() - 60) : found.end() + 40] for found in re.finditer(r"\d[\d.,]*", text)]
    assert left == [], (
        f"{place}: a claim in tests/claims must compute these numbers, or UNCOMPUTED say why none can"
    )


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.place}: {claim.says[:40]}")
def test_each_claim_occurs_once_in_its_place(claim: Claim) -> None:
    assert len(claim.pattern().findall(text_of(claim.place))) == 1


def test_every_stated_kind_is_used() -> None:
    whole = "\n".join(text_of(place) for place in swept())
    assert [pattern for pattern, _ in UNCOMPUTED if not re.search(pattern, whole)] == []


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
        if dataset != "sandbox":  # whose intervals over subjects tests/journeys/test_claims.py computes
            assert all(agrees(*rate, n) for n, rates in ((n, whole), *thirds) for rate in rates)
        for at, (share, _) in enumerate(whole):
            hits = sum(n * rates[at][0] for n, rates in thirds)
            assert -(n - n_known) - 0.001 * n <= hits - share * n <= 0.001 * n
