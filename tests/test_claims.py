"""Every number in README, docs and captions belongs to a claim that is computed, or to a stated kind that cannot be.

Without a warehouse: that claims are found in their places, whatever their numbers, and that no number is left over.
`tests/journeys/test_claims.py` computes the numbers of the finished default study.
"""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from tests.claims import CLAIMS, UNCOMPUTED, swept
from tests.claims.form import Claim, text_of

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
def test_each_claim_stands_in_its_place_once(claim: Claim) -> None:
    assert len(claim.pattern().findall(text_of(claim.place))) == 1


def test_no_reason_is_idle() -> None:
    whole = "\n".join(text_of(place) for place in swept())
    assert [pattern for pattern, _ in UNCOMPUTED if not re.search(pattern, whole)] == []
