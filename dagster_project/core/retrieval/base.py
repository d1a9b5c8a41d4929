"""What a retriever is: the Protocol, and what goes in and out of it.

What belongs here: the types that every retriever shares. What does not: how passages come about
(`passages`), where indexes are kept (`indexes`), and which retrievers there are (`registry`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

VERBALISED = "verbalised"
"""Column `source` of passages that are triples put into sentences."""


@dataclass(frozen=True)
class Passage:
    """One passage, as in lake table `passages`."""

    passage_id: str
    entity_id: str | None
    title: str
    position: int
    text: str

    @property
    def indexed_text(self) -> str:
        """What is searched: the title, then the text."""
        return f"{self.title}\n{self.text}"


@dataclass(frozen=True)
class Query:
    """One question to find passages for. The last two fields are for `oracle` alone."""

    question_id: str
    text: str
    subject_id: str
    gold_answers: tuple[str, ...]


@dataclass(frozen=True)
class Hit:
    """One passage found; `score` in the retriever's own unit, None where it has none."""

    passage_id: str
    score: float | None


class Retriever(Protocol):
    """Finds passages for questions.

    `build` and `search` of one retriever fit together through the folder; passages come in the order of
    passage_id.
    """

    def version(self) -> str:
        """What else, beside its code, decides the index: settings, weights."""

    def build(self, passages: Sequence[Passage], folder: Path, log: logging.Logger) -> None:
        """Write an index of `passages` into the empty folder `folder`."""

    def search(
        self, passages: Sequence[Passage], folder: Path, queries: Sequence[Query], k: int, log: logging.Logger
    ) -> list[list[Hit]]:
        """At most `k` hits for each query, best first, in the order of `queries`; ties by passage_id."""
