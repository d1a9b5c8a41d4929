"""What study.yaml says about counts: texts in which subjects and answers are counted, and published counts."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.study.imports import PLACE_KEYS, Place, read_columns, read_place
from longtail.study.reader import Reader

MEANINGS = ("id", "subject", "answer", "count")
UNITS = ("sentences", "passages", "articles")
WHATS = ("subject", "pair")


@dataclass(frozen=True)
class Counts:
    """A text, or with `dataset` a file of published counts for its questions. `columns`: meaning → the file's name."""

    name: str
    place: Place
    dataset: str | None = None
    columns: tuple[tuple[str, str], ...] = ()

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of what is counted: a text's unit by unit, and in each the subject first."""
        if self.dataset:
            return (f"{self.name}_count",)
        return tuple(f"{self.name}_{what}_{unit}" for unit in UNITS for what in WHATS)


def read_counts(read: Reader) -> Counts:
    """One entry of the list under `counts`."""
    read.only("name", "dataset", "columns", *PLACE_KEYS)
    if "columns" in read.raw and "dataset" not in read.raw:
        raise read.fail("columns", "goes with dataset: a text has no columns")
    dataset = read.optional("dataset", read.text)
    return Counts(read.slug("name"), read_place(read), dataset, read_columns(read, MEANINGS))
