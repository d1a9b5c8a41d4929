"""What study.yaml says about imported files: questions, paraphrases, and answers of models.

What belongs here: which formats there are, the keys that all of them share, and where a file is. What does not: the
keys and the contents of one format (its module in `imports`), and what becomes of the rows.

A format is a module in `imports` with a record `FORMAT` (`imports.formats`), and its line in `FORMATS`. Looking up a
format imports only its module.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dagster_project.core.errors import SourceError
from dagster_project.core.fingerprints import code_version
from dagster_project.core.study.reader import Reader

QUESTIONS, PARAPHRASES, ANSWERS = "questions", "paraphrases", "answers"
_HERE = "dagster_project.core.imports"
FORMATS: dict[str, dict[str, str]] = {
    QUESTIONS: {"popqa": f"{_HERE}.popqa", "entity_questions": f"{_HERE}.entity_questions"},
    PARAPHRASES: {"popqa_tp": f"{_HERE}.popqa_tp"},
    ANSWERS: {"adaptive_retrieval": f"{_HERE}.adaptive_retrieval", "lm_eval": f"{_HERE}.lm_eval"},
}
"""Content of files → name of a format → module with its record, `FORMAT`."""

_PLACE_KEYS = ("format", "path", "path_env")


class Format(Protocol):
    """What every format's record has: a reader for each key of study.yaml that only this format has."""

    keys: Mapping[str, Callable[[Reader, str], Any]]


@dataclass(frozen=True)
class Place:
    """A file or folder: `path`, relative to the study file, or the value of environment variable `path_env`."""

    path: str | None = None
    path_env: str | None = None

    def find(self, study_path: Path, purpose: str = "to import") -> Path:
        """The absolute path. Errors: `SourceError` where the variable is not set or nothing exists there."""
        named = self.path
        if self.path_env:
            named = os.environ.get(self.path_env, "").strip()
            if not named:
                raise SourceError(
                    f"{study_path}: environment variable {self.path_env} is not set; set it to the file {purpose}"
                )
        by = f" ({self.path_env} names it)" if self.path_env else ""
        try:
            found = study_path.parent / Path(named or "").expanduser()
            is_there = found.exists()
        except (OSError, RuntimeError) as error:  # the name is too long, or its home folder is unknown
            raise SourceError(
                f"{named}: names no file or folder {purpose}{by}: {error}; named in {study_path}"
            ) from None
        if not is_there:
            raise SourceError(
                f"{found}: there is no such file or folder {purpose}{by}; named in {study_path}"
            )
        return found


class _WithOptions:
    """A declaration with keys that only its format has."""

    options: tuple[tuple[str, Any], ...]

    def option(self, key: str) -> Any:
        """The value of one of the format's own keys."""
        return dict(self.options)[key]


@dataclass(frozen=True)
class Import(_WithOptions):
    """A file or folder of questions or paraphrases (`kind`), its format, and the format's own keys with their values."""

    kind: str
    format: str
    place: Place
    options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Results(_WithOptions):
    """Imported answers of a model to the questions of one dataset; a model may have several such entries.

    The rows belong to the study's `prompt`; None: to the prompt with the file's number of demonstrations.
    """

    format: str
    place: Place
    dataset: str
    prompt: str | None = None
    options: tuple[tuple[str, Any], ...] = ()
    kind = ANSWERS


def load_format(kind: str, name: str) -> Any:
    """The record of a format."""
    return importlib.import_module(FORMATS[kind][name]).FORMAT


def read_import(read: Reader, kind: str) -> Import:
    """The mapping under `import` or `paraphrases` of a dataset."""
    format_, options = _format(read, kind, _PLACE_KEYS)
    return Import(kind, format_, read_place(read), options)


def read_results(read: Reader) -> Results:
    """One entry of the list under `results` of a model."""
    format_, options = _format(read, ANSWERS, (*_PLACE_KEYS, "dataset", "prompt"))
    return Results(
        format=format_,
        place=read_place(read),
        dataset=read.text("dataset"),
        prompt=read.optional("prompt", read.text),
        options=options,
    )


def _format(read: Reader, kind: str, shared: tuple[str, ...]) -> tuple[str, tuple[tuple[str, Any], ...]]:
    """The format's name, and the values of its own keys."""
    name = read.choice("format", tuple(FORMATS[kind]))
    format_: Format = load_format(kind, name)
    read.only(*shared, *format_.keys)
    return name, tuple((key, value(read, key)) for key, value in format_.keys.items())


def slice_of(declared: Import | Results) -> list[Any]:
    """What decides the rows, for a fingerprint: all keys except the file's place, and the code that reads the file."""
    own = [declared.dataset, declared.prompt] if isinstance(declared, Results) else []
    return [declared.format, declared.options, *own, code_version(FORMATS[declared.kind][declared.format])]


def read_place(read: Reader) -> Place:
    """Keys path and path_env; exactly one of them must be given."""
    path, variable = read.optional("path", read.text), read.optional("path_env", read.environment_name)
    if (path is None) == (variable is None):
        raise read.fail("path", "exactly one of path and path_env must name the file to import")
    return Place(path, variable)
