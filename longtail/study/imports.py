"""What study.yaml says about imported files: questions, paraphrases, answers of models, and collections of passages.

A format is a module with a record `FORMAT` (`imports.format`) in the folder of its kind in `imports/formats`, or of an
installed package: entry point `questions.flashcards` of group `longtail.formats` is format `flashcards` of questions.
Looking up a format imports only its module.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from longtail.errors import SourceError
from longtail.listed import ListedModules, load_record
from longtail.storage.fingerprints import code_version
from longtail.study.reader import Reader

QUESTIONS, PARAPHRASES, ANSWERS, COLLECTIONS = "questions", "paraphrases", "answers", "collections"
FORMATS = {
    kind: ListedModules(f"longtail.imports.formats.{kind}", "longtail.formats", kind)
    for kind in (QUESTIONS, PARAPHRASES, ANSWERS, COLLECTIONS)
}
"""Content of files → name of a format → module with its record, `FORMAT`."""

_DATE = re.compile(r"\d{4}(-\d\d(-\d\d)?)?")
_UNKNOWN = "unknown"
NO_LICENCE = "none"
"""What key `licence` says of a file whose source states none."""
EXACT_MATCH, F1, ROUGE_L = "exact_match", "f1", "rouge_l"
"""Scores of grounded answers (SPEC §9)."""
PLACE_KEYS = ("path", "path_env", "url", "sha256", "obtain")


class Format(Protocol):
    """What every format's record has: a reader for each key of study.yaml that only this format has."""

    keys: Mapping[str, Callable[[Reader, str], Any]]


@dataclass(frozen=True)
class Place:
    """A file or folder: `path`, relative to the study file, or the value of environment variable `path_env`.

    With both, `path` is inside the folder that the variable names. `url` is a file's address: it is fetched where the
    variable is not set, or, without a variable, where `path` names nothing (`imports.data_files`). `sha256` is the
    fetched file's checksum in hexadecimal digits; a file of the user's own may differ from it. `obtain` says where a
    missing file comes from: errors repeat it.
    """

    path: str | None = None
    path_env: str | None = None
    url: str | None = None
    sha256: str | None = None
    obtain: str | None = None

    def is_fetched(self, study_path: Path) -> bool:
        """Whether the file comes from `url`, since the user has no copy. Errors: as `find`."""
        if self.url is None:
            return False
        if self.path_env:
            return not os.environ.get(self.path_env, "").strip()
        return self.path is None or not self._named(study_path, "to import").exists()

    def find(self, study_path: Path, purpose: str = "to import") -> Path:
        """The absolute path on this machine, `url` left aside.

        Errors: `SourceError` where the variable is not set or nothing exists there.
        """
        found = self._named(study_path, purpose)
        if not found.exists():
            raise SourceError(
                f"{found}: there is no such file or folder {purpose}{self._by}; named in {study_path}{self._obtained}"
            )
        if not (found.is_file() or found.is_dir()):  # a pipe would never end
            raise SourceError(f"{found}: is neither a file nor a folder; named in {study_path}")
        return found

    def _named(self, study_path: Path, purpose: str) -> Path:
        named = self.path or ""
        if self.path_env:
            value = os.environ.get(self.path_env, "").strip()
            if not value:
                what = f"folder with {self.path}" if self.path else f"file {purpose}"
                raise SourceError(
                    f"{study_path}: environment variable {self.path_env} is not set; set it to the {what}"
                    f"{self._obtained}"
                )
            named = str(Path(value) / named)
        try:
            found = study_path.parent / Path(named).expanduser()
            found.exists()
        except (OSError, RuntimeError) as error:  # the name is too long, or its home folder is unknown
            raise SourceError(
                f"{named}: names no file or folder {purpose}{self._by}: {error}; named in {study_path}"
            ) from None
        return found

    @property
    def _obtained(self) -> str:
        return f"; {self.obtain}" if self.obtain else ""

    @property
    def _by(self) -> str:
        if self.path_env and self.path:
            return f" ({self.path_env} names the folder)"
        return f" ({self.path_env} names it)" if self.path_env else ""


class _WithOptions:
    """A declaration with keys that only its format has."""

    options: tuple[tuple[str, Any], ...]

    def option(self, key: str) -> Any:
        """The value of one of the format's own keys."""
        return dict(self.options)[key]


@dataclass(frozen=True)
class Import(_WithOptions):
    """A file or folder of questions or paraphrases (`kind`), its format, and the format's own keys with their values.

    `licence`: what questions may be used for, or `NO_LICENCE`; None: the study does not say.
    """

    kind: str
    format: str
    place: Place
    options: tuple[tuple[str, Any], ...] = ()
    licence: str | None = None


@dataclass(frozen=True)
class Results(_WithOptions):
    """Imported answers of a model to the questions of one dataset; a model may have several such entries.

    The rows belong to the study's `prompt`; None: to the prompt with the file's number of demonstrations. `licence`: as
    of `Import`.
    """

    format: str
    place: Place
    dataset: str
    prompt: str | None = None
    options: tuple[tuple[str, Any], ...] = ()
    licence: str | None = None
    kind = ANSWERS


@dataclass(frozen=True)
class Collection(_WithOptions):
    """A file of texts with titles, which retrieval searches.

    `source` says whose texts they are, `date` when they were taken from there (None: unknown), `licence` what they may
    be used for. The passages carry all three, wherever they are published.
    """

    name: str
    format: str
    place: Place
    source: str
    date: str | None
    licence: str
    options: tuple[tuple[str, Any], ...] = ()
    kind = COLLECTIONS


def load_format(kind: str, name: str) -> Any:
    """The record of a format."""
    return load_record(FORMATS[kind][name], "FORMAT")


def read_import(read: Reader, kind: str) -> Import:
    """The mapping under `import` or `paraphrases` of a dataset."""
    format_, options = _format(read, kind, *(["licence"] if kind == QUESTIONS else []))
    return Import(kind, format_, read_place(read), options, read.optional("licence", read.text))


def read_results(read: Reader) -> Results:
    """One entry of the list under `results` of a model."""
    format_, options = _format(read, ANSWERS, "dataset", "prompt", "licence")
    return Results(
        format=format_,
        place=read_place(read),
        dataset=read.text("dataset"),
        prompt=read.optional("prompt", read.text),
        options=options,
        licence=read.optional("licence", read.text),
    )


def read_collection(read: Reader) -> Collection:
    """One entry of the list under `collections`."""
    format_, options = _format(read, COLLECTIONS, "name", "source", "date", "licence")
    date = str(read.raw.get("date", ""))
    if date != _UNKNOWN and not _DATE.fullmatch(date):
        raise read.fail("date", f"must be the texts' date (2018, 2018-12 or 2018-12-20), or {_UNKNOWN}")
    return Collection(
        name=read.slug("name"),
        format=format_,
        place=read_place(read),
        source=read.text("source"),
        date=None if date == _UNKNOWN else date,
        licence=read.text("licence"),
        options=options,
    )


def _format(read: Reader, kind: str, *shared: str) -> tuple[str, tuple[tuple[str, Any], ...]]:
    """The format's name, and the values of its own keys."""
    name = read.choice("format", tuple(FORMATS[kind]))
    format_: Format = load_format(kind, name)
    read.only("format", *PLACE_KEYS, *shared, *format_.keys)
    return name, tuple((key, value(read, key)) for key, value in format_.keys.items())


def slice_of(declared: Import | Results | Collection) -> list[Any]:
    """What decides the rows, for a fingerprint: all keys except places of files, and the code that reads the files."""
    own: list[Any] = [declared.dataset, declared.prompt] if isinstance(declared, Results) else []
    if isinstance(declared, Collection):
        own = [declared.name, declared.source, declared.date, declared.licence]
    options = [(key, value) for key, value in declared.options if not isinstance(value, Path)]
    return [declared.format, options, *own, code_version(FORMATS[declared.kind][declared.format])]


def read_only_place(read: Reader) -> Place:
    """A mapping that says where a file is, and nothing else."""
    read.only(*PLACE_KEYS)
    return read_place(read)


def read_columns(read: Reader, meanings: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Key columns: pairs of a meaning and the file's name of the column; empty without it."""
    named = read.child("columns") if "columns" in read.raw else Reader(read.path, "", {})
    named.only(*meanings)
    return tuple((meaning, named.text(meaning)) for meaning in meanings if meaning in named.raw)


def read_place(read: Reader) -> Place:
    """The keys of a place: one of path, path_env and url must be given, and sha256 goes with url."""
    place = Place(
        path=read.optional("path", read.text),
        path_env=read.optional("path_env", read.environment_name),
        url=read.optional("url", lambda key: read.address(key, "https://example.org/data/questions.tsv")),
        sha256=read.optional("sha256", read.sha256),
        obtain=read.optional("obtain", read.text),
    )
    if not (place.path or place.path_env or place.url):
        raise read.fail("path", "is missing; path, path_env or url must name the file to import")
    if place.path and place.path_env and (Path(place.path).is_absolute() or ".." in Path(place.path).parts):
        raise read.fail("path", f"must lie inside the folder that {place.path_env} names")
    if place.sha256 and not place.url:
        raise read.fail("sha256", "goes with url: it is the checksum of the fetched file")
    return place
