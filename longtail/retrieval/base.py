"""What a retriever is: its base class, and what goes in and out of it."""

from __future__ import annotations

import importlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from longtail.errors import IndexMissingError
from longtail.methods import Method
from longtail.relations.relation import SOURCE_SET, Relation, by_name, relation_set

if TYPE_CHECKING:
    import numpy as np

    from longtail.retrieval.stored_passages import StoredPassages


@dataclass(frozen=True)
class Query:
    """One wording of a question to find passages for; paraphrase 0 is the question itself. Only bounds and conditions
    may read `subject_id` and `relation`, which may be unknown, `subject` and `gold_answers`."""

    dataset: str
    question_id: str
    text: str
    subject_id: str | None
    gold_answers: tuple[str, ...]
    paraphrase_id: int = 0
    relation: str | None = None
    subject: str = ""

    @property
    def key(self) -> QueryKey:
        return self.dataset, self.question_id, self.paraphrase_id


@dataclass(frozen=True)
class Written:
    """A passage that is not among the study's, with its text and, where it has no `original`, its title.

    A retriever wrote it (from the passage `original`, or as a sentence of its own) or brought it from elsewhere.
    `answers` are all names of what a written passage tells instead of the truth; none for one from elsewhere.
    """

    text: str
    original: str | None
    answers: tuple[str, ...]
    title: str


@dataclass(frozen=True)
class Hit:
    """One passage found; `score` in the retriever's own unit, None where it has none. `written`: see there.

    `query_vector`: the vector by which it was found, float32 (dimensions); None without vectors.
    """

    passage_id: str
    score: float | None
    written: Written | None = None
    query_vector: np.ndarray | None = field(default=None, compare=False, repr=False)


QueryKey = tuple[str, str, int]
"""Dataset, question id and paraphrase id."""
Results = Mapping[QueryKey, Sequence[str]]
"""The ids of the passages that a retriever found for each wording, best first; wordings without a hit are absent."""


@dataclass(frozen=True)
class Context:
    """What a retriever may use.

    `passages` are in the order of passage_id. `folder` holds its index, if it has one; `cache` is for parts of indexes
    that several studies of a home share. `k` is the number of passages wanted for each question, `seed` the study's.
    `device` is a torch device, or `auto`. `others` holds the results of the study's other retrievers by name: at most
    `k` a wording, and only of the retrievers that this one reads (`Study.results_read_by`). `from_elsewhere` has those of
    their passages, by id, that they brought from elsewhere. `relations` are those that the study knows, by name; only
    conditions may read them.
    """

    passages: StoredPassages
    folder: Path
    cache: Path
    log: logging.Logger
    k: int = 1
    seed: int = 0
    device: str = "cpu"
    others: Mapping[str, Results] | None = None
    from_elsewhere: Mapping[str, Written] = field(default_factory=dict)
    relations: Mapping[str, Relation] = field(default_factory=lambda: by_name(relation_set(SOURCE_SET)))


class Retriever(ABC):
    """Finds passages for questions. A retriever without an index writes `search` alone."""

    def version(self) -> str:
        """What decides the index beside the code: settings, weights."""
        return ""

    def search_version(self) -> str:
        """What decides a search beside the index: how questions are encoded, settings that only a search reads."""
        return ""

    def check(self) -> None:  # noqa: B027 (most retrievers load nothing)
        """Look for what the retriever loads, without loading it. Errors: `BackendError` where it is missing."""

    def build(self, context: Context) -> None:
        """Write an index of the passages into the folder. `k`, `seed` and `others` have no meaning here.

        The folder is empty, or holds what a build of the same index wrote before it was killed or ran out of disk.
        Whole parts of that need not be written again.
        """
        raise NotImplementedError(f"{type(self).__name__} has no index")

    def notes(self, folder: Path) -> Mapping[str, int]:
        """What people should know of an index that was built into the folder, by name."""
        return {}

    @abstractmethod
    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        """At most `k` hits for each query, best first, in the order of `queries`; ties by passage_id.

        The hits of one query are distinct passages. They may not depend on the other queries; only a condition may
        take the other queries for the facts that there are.
        """


def load_retriever(method: Method) -> Retriever:
    """The retriever of a method, made with its settings. Errors: `IndexMissingError` where the method has none."""
    if method.retriever is None:
        raise IndexMissingError(f"method {method.name} retrieves nothing")
    module, _, attribute = method.retriever.partition(":")
    made_with = () if method.settings is None else (method.settings, method.name)
    retriever: Retriever = getattr(importlib.import_module(module), attribute)(*made_with)
    return retriever
