"""The interface between the engine and a generated lake table: a task, its scope, its plan, and the plan's items."""

from __future__ import annotations

import hashlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from longtail.errors import StudyError
from longtail.generation.backends.base import Decoding, Identity
from longtail.methods import RETRIEVAL, Method
from longtail.storage.fingerprints import code_version, fingerprint, prompt_hash
from longtail.storage.lake import Computed, Lake, Outcome
from longtail.study.backends import GENERATE, IMPORTED
from longtail.study.models import Model
from longtail.study.study import Study

_SCORING = "v1 score"
"""Raised when the same prompt and candidates ought to get other scores: cached ones then no longer count."""
BYTES_PER_TOKEN = 4
_NEW_SHARE = 2
"""A text is taken to have at most this part of its tokens, for the size of batches and the time left."""


@dataclass(frozen=True, slots=True)
class ModelInput:
    """A prompt: its text, and passages that the model reads apart from the text (most models read none)."""

    text: str
    passages: tuple[str, ...] = ()

    def hash(self) -> str:
        """SHA-256 of the text as hexadecimal digits.

        With passages, that of a list of such digits, one a line: the text's, then each passage's. SQL does the same.
        """
        if not self.passages:
            return prompt_hash(self.text)
        return prompt_hash("\n".join(map(prompt_hash, (self.text, *self.passages))))


def passages_of(prompts: Sequence[ModelInput]) -> dict[str, Any]:
    """The keyword `passages` of a backend that declares `PASSAGES`; nothing where no prompt has any."""
    apart = [prompt.passages for prompt in prompts]
    return {"passages": apart} if any(apart) else {}


@dataclass(frozen=True)
class Request:
    """What is asked behind a prompt: a text (`decoding`), or the log-likelihood of each of the `candidates`.

    With `seeded_by`, `n` texts are drawn, each by a seed of its own: that of text i is 63 bits of the SHA-256 of
    (`seeded_by`, i), so that more samples keep the first ones. A candidate brings its own leading space. `free`: a greedy
    text that the model also writes behind the prompt of its candidates. The works of one call share it.
    """

    decoding: Decoding | None = None
    n: int = 1
    seeded_by: tuple[Any, ...] = ()
    candidates: tuple[str, ...] = ()
    free: Decoding | None = None

    @property
    def seeds(self) -> tuple[int | None, ...]:
        """The seed of each text; None alone for a greedy text and for scores."""
        if not self.seeded_by:
            return (None,)
        texts = ("\n".join(map(str, (*self.seeded_by, number))) for number in range(self.n))
        digests = (hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts)
        return tuple(int.from_bytes(digest[:8], "big") >> 1 for digest in digests)


def describe_decoding(request: Request, identity: Identity) -> str:
    """What decides a result besides prompt, candidates, weights and seed: as rows say it, and in cache keys."""
    if request.decoding is not None:
        return identity.decoding(request.decoding)
    return f"{_SCORING}, and {identity.decoding(request.free)}" if request.free else _SCORING


def part_tokens(request: Request) -> int:
    """Tokens to compute for one part of a request, behind its prompt: an estimate."""
    if request.decoding is None:
        free = max(1, request.free.max_new_tokens // _NEW_SHARE) if request.free else 0
        return free + sum(
            len(candidate.encode("utf-8", "replace")) // BYTES_PER_TOKEN + 1
            for candidate in request.candidates
        )
    return max(1, request.decoding.max_new_tokens // _NEW_SHARE)


class Item(Protocol):
    """One prompt to be asked, and what is asked. Texts that are drawn are its parts; others have one part.

    Items that share a prompt and a request, or seeds of it, share their results.
    """

    @property
    def request(self) -> Request: ...

    def prompt(self) -> ModelInput:
        """What the model reads; built anew at each call, never kept."""
        ...

    def key(self, part: int) -> Mapping[str, Any]:
        """The key columns of a part's row, but those of the partition (model, method)."""
        ...


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
    def method_record(self) -> Method:
        """The record of its method. Errors: `StudyError` where the study does not have it."""
        methods = self.study.methods
        if self.method is None or self.method not in methods:
            listed = ", ".join(methods)
            raise StudyError(f"{self.study.path}: methods: {self.method!r} is not one of: {listed}")
        return self.study.method(self.method)

    @property
    def n_apart(self) -> int:
        """How many passages the model reads apart from the question by its method."""
        return self.model.passages if self.method_record.kind == RETRIEVAL else 0


@dataclass(frozen=True)
class Plan(Generic[AnyItem]):
    """The items of a partition, in the rows' order, and how many questions (times prompts) had no passage."""

    items: Sequence[AnyItem]
    n_without_passage: int = 0


class Task(ABC):
    """One generated lake table, which has the accounting columns of `longtail/tables/lake.yaml`.

    `keys` are the columns that tell its rows apart, those of the partition left out. `reads` are lake tables of one
    partition that it is made from. `capability` is what a backend must be able to do.
    """

    table: ClassVar[str]
    keys: ClassVar[tuple[str, ...]]
    reads: ClassVar[tuple[str, ...]] = ("questions",)
    capability: ClassVar[str] = GENERATE

    @property
    def is_imported(self) -> bool:
        """Whether files of imported answers may hold rows of this table."""
        return type(self).import_rows is not Task.import_rows

    @abstractmethod
    def is_asked(self, study: Study) -> bool:
        """Whether the study asks for any row."""

    def inputs(self, scope: Scope) -> list[str]:
        """Content hashes of all lake tables that its prompts and rows are made from. Errors: `LakeError`."""
        inputs = [scope.lake.content(table) for table in self.reads]
        before = self.source_table(scope)
        return [*inputs, scope.lake.content(before, scope.model.name)] if before else inputs

    def source_table(self, scope: Scope) -> str | None:
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

    def import_rows(self, scope: Scope, run_id: str) -> Outcome:
        """The partition of a model whose answers are imported: empty, unless files may hold rows of this table."""
        return materialise_empty(scope.lake, self.table, scope.name)


def materialise_empty(lake: Lake, table: str, name: str) -> Outcome:
    """Materialise a partition of no rows: nothing is generated or timed for a model whose answers are imported."""
    return lake.materialise(table, fingerprint(table, name, IMPORTED), lambda: Computed([]), name)
