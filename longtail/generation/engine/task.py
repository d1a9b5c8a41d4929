"""The interface between the engine and a generated lake table: a task."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from longtail.errors import StudyError
from longtail.generation.engine.items import Item
from longtail.methods import RETRIEVAL, Method
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome
from longtail.study.backends import GENERATE, IMPORTED
from longtail.study.models import Model
from longtail.study.study import Study

AnyItem = TypeVar("AnyItem", bound=Item, covariant=True)
_SILENT = logging.getLogger(f"{__name__}.silent")
_SILENT.setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class Scope:
    """One partition: a study's lake, a model, and a method where the table is partitioned by method too."""

    study: Study
    lake: Lake
    model: Model
    method: str | None = None
    log: logging.Logger = field(default=_SILENT, compare=False)

    @property
    def name(self) -> str:
        """The partition's name in the lake."""
        return self.model.name if self.method is None else f"{self.model.name}|{self.method}"

    @property
    def asked_by(self) -> Method:
        """The record of its method. Errors: `StudyError` where the study does not have it."""
        methods = self.study.methods
        if self.method is None or self.method not in methods:
            listed = ", ".join(methods)
            raise StudyError(f"{self.study.path}: methods: {self.method!r} is not one of: {listed}")
        return self.study.method(self.method)

    @property
    def n_apart(self) -> int:
        """How many passages the model reads apart from the question by its method."""
        return self.model.passages if self.asked_by.kind == RETRIEVAL else 0


@dataclass(frozen=True)
class Plan(Generic[AnyItem]):
    """The items of a partition, in the rows' order, and how many questions (times prompts) had no passage."""

    items: Sequence[AnyItem]
    n_without_passage: int = 0


class Task(ABC):
    """One generated lake table, which has the accounting columns of `longtail.tables.generation`.

    `keys` are the columns that tell its rows apart, those of the partition left out. `capability` is what a backend
    must be able to do.
    """

    table: ClassVar[str]
    keys: ClassVar[tuple[str, ...]]
    capability: ClassVar[str] = GENERATE

    @property
    def is_imported(self) -> bool:
        """Whether files of imported answers may hold rows of this table."""
        return type(self).imported is not Task.imported

    @abstractmethod
    def is_asked(self, study: Study) -> bool:
        """Whether the study asks for any row."""

    @abstractmethod
    def inputs(self, scope: Scope) -> list[str]:
        """Content hashes of all lake tables that its prompts and rows are made from. Errors: `LakeError`."""

    def made_from(self, scope: Scope) -> str | None:
        """The generated table of the same model that its prompts are made from; it stands before this one in `TASKS`."""
        return None

    @abstractmethod
    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        """The part of the study that decides its rows; JSON-able. A change of other keys leaves a partition current."""

    @abstractmethod
    def plan(self, scope: Scope) -> Plan[Any]:
        """Its items. Errors: `LakeError`."""

    @abstractmethod
    def row(self, model: Model, item: Any, part: int, result: Any) -> Mapping[str, Any]:
        """The columns of one row that neither the partition nor the accounts decide, from one part's result.

        Errors: `NoAnswerError` where the result holds no answer.
        """

    def code_version(self) -> str:
        """A hash of the code that decides its rows: its own module's, and that of the partition around it."""
        return code_version(type(self).__module__, f"{__package__}.partition")

    def imported(self, scope: Scope, run_id: str) -> Outcome:
        """The partition of a model whose answers are imported: empty, unless files may hold rows of this table."""
        return without_rows(scope.lake, self.table, scope.name)


def without_rows(lake: Lake, table: str, name: str) -> Outcome:
    """Materialise a partition of no rows: nothing is generated or timed for a model whose answers are imported."""
    return lake.materialise(table, fingerprint(table, name, IMPORTED), lambda: Computed([]), name)
