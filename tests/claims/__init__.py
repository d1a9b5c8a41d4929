"""Sentences with numbers that can be computed: in README, docs, captions, and docstrings of figures."""

from __future__ import annotations

from tests.claims import captions, papers, readme, retrieval
from tests.claims.form import Claim

CLAIMS: tuple[Claim, ...] = (*readme.CLAIMS, *papers.CLAIMS, *captions.CLAIMS, *retrieval.CLAIMS)
