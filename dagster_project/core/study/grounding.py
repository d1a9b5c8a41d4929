"""Grounding in study.yaml: the corpus whose quotations are looked for in what models write (SPEC §9).

What belongs here: the keys under `grounding`, and reading them. What does not: what is computed (`core.grounding`).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from dagster_project.core.study.reader import Reader


@dataclass(frozen=True)
class PortraitOf:
    """The corpus of the data portrait: the passages of these `collections`; empty: all passages of the study.

    `false_positive_rate`: the share of 25-grams that the portrait takes for the corpus' own though they are not.
    """

    collections: tuple[str, ...] = ()
    false_positive_rate: float = 0.001


@dataclass(frozen=True)
class Grounding:
    """Every text that models write is compared with a data portrait."""

    portrait: PortraitOf = PortraitOf()


def read_grounding(read: Reader, collections: tuple[str, ...]) -> Grounding:
    """The mapping under `grounding`; `collections` are those of the study."""
    read.only(*(f.name for f in dataclasses.fields(Grounding)))
    portrait = read.child("portrait")
    portrait.only(*(f.name for f in dataclasses.fields(PortraitOf)))
    named = portrait.raw.get("collections") is not None
    if named and not collections:
        raise portrait.fail("collections", "goes with the study's collections: it has none")
    return Grounding(
        PortraitOf(
            collections=portrait.choices("collections", collections, ()) if named else (),
            false_positive_rate=portrait.real(
                "false_positive_rate", PortraitOf.false_positive_rate, 1e-9, 0.5
            ),
        )
    )
