"""What study.yaml says about decisions of others: files that say for which questions a policy retrieves."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.study.imports import PLACE_KEYS, Place, read_columns, read_place
from longtail.study.reader import Reader

MEANINGS = ("id", "method", "retrieve", "score")


@dataclass(frozen=True)
class Decisions:
    """A table of decisions on the questions of `dataset`, by policy `name` or by those that its rows name.

    `columns`: meaning → the file's name of the column.
    """

    name: str
    place: Place
    dataset: str
    columns: tuple[tuple[str, str], ...] = ()


def read_decisions(read: Reader) -> Decisions:
    """One entry of the list under `decisions`."""
    read.only("name", "dataset", "columns", *PLACE_KEYS)
    columns = read_columns(read, MEANINGS)
    return Decisions(read.slug("name"), read_place(read), read.text("dataset"), columns)
