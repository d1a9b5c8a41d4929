"""What study.yaml says about files of others: questions, paraphrases, answers, collections, counts and decisions.

A format is a module with a record `FORMAT` (`imports.format`) in the folder of its kind in `imports/formats`, or of an
installed package: entry point `questions.flashcards` of group `longtail.formats` is format `flashcards` of questions.
Looking up a format imports only its module.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator

from longtail.errors import SourceError
from longtail.listed import ListedModules, load_record
from longtail.storage.fingerprints import code_version
from longtail.study.parts import Part
from longtail.study.values import (
    TEXT,
    Checksum,
    Default,
    Reading,
    Slug,
    Text,
    Variable,
    address,
    column_names,
    fail,
    need_mapping,
    number,
    one_of,
    value_of,
)

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
COUNT_MEANINGS = ("id", "subject", "answer", "count")
DECISION_MEANINGS = ("id", "method", "retrieve", "score")
UNITS = ("sentences", "passages", "articles")
WHATS = ("subject", "pair")
NQ_OPEN = "nq_open"
REFERENCE_FORMATS = (NQ_OPEN,)
TAGME_URL = "https://tagme.d4science.org/tagme/tag"
FormatName = Annotated[str, TEXT]
"""The name of a format, which `_InFormat` reads."""


@dataclass(frozen=True)
class Place(Part):
    """A file or folder: `path`, or the value of environment variable `path_env`; with both, `path` is inside the folder
    that the variable names. `url` is fetched where the variable is not set, or, without a variable, where `path` names
    nothing (`imports.datasets`). A file of the user's own may differ from `sha256`.
    """

    path: Annotated[Text | None, Default("")] = None
    """relative to the study file; with `path_env`, inside the folder that the variable names"""
    path_env: Annotated[Variable | None, Default("")] = None
    """an environment variable that names the file"""
    url: Annotated[Annotated[str, address("https://example.org/data/questions.tsv")] | None, Default("")] = (
        None
    )
    """where the file is fetched from if you have no copy"""
    sha256: Annotated[Checksum | None, Default("")] = None
    """checksum of the fetched file"""
    obtain: Annotated[Text | None, Default("")] = None
    """how one gets the file: errors repeat it where the file is missing"""

    def check(self, raw: Mapping[str, Any], reading: Reading) -> Place:
        if not (self.path or self.path_env or self.url):
            raise fail("path", "is missing; path, path_env or url must name the file to import")
        if self.path and self.path_env and (Path(self.path).is_absolute() or ".." in Path(self.path).parts):
            raise fail("path", f"must lie inside the folder that {self.path_env} names")
        if self.sha256 and not self.url:
            raise fail("sha256", "goes with url: it is the checksum of the fetched file")
        return self

    def is_fetched(self, study_path: Path) -> bool:
        """Whether the file comes from `url`, since the user has no copy. Errors: as `find`."""
        if self.url is None:
            return False
        if self.path_env:
            return not os.environ.get(self.path_env, "").strip()
        return self.path is None or not self._locate(study_path, "to import").exists()

    def find(self, study_path: Path, purpose: str = "to import") -> Path:
        """The absolute path on this machine, `url` left aside.

        Errors: `SourceError` where the variable is not set or nothing exists there.
        """
        path = self._locate(study_path, purpose)
        if not path.exists():
            raise SourceError(
                f"{path}: there is no such file or folder {purpose}{self._by}; named in {study_path}{self._obtain_hint}"
            )
        if not (path.is_file() or path.is_dir()):  # a pipe would never end
            raise SourceError(f"{path}: is neither a file nor a folder; named in {study_path}")
        return path

    def _locate(self, study_path: Path, purpose: str) -> Path:
        named = self.path or ""
        if self.path_env:
            value = os.environ.get(self.path_env, "").strip()
            if not value:
                what = f"folder with {self.path}" if self.path else f"file {purpose}"
                raise SourceError(
                    f"{study_path}: environment variable {self.path_env} is not set; set it to the {what}"
                    f"{self._obtain_hint}"
                )
            named = str(Path(value) / named)
        try:
            path = study_path.parent / Path(named).expanduser()
            path.exists()
        except (OSError, RuntimeError) as error:  # the name is too long, or its home folder is unknown
            raise SourceError(
                f"{named}: names no file or folder {purpose}{self._by}: {error}; named in {study_path}"
            ) from None
        return path

    @property
    def _obtain_hint(self) -> str:
        return f"; {self.obtain}" if self.obtain else ""

    @property
    def _by(self) -> str:
        if self.path_env and self.path:
            return f" ({self.path_env} names the folder)"
        return f" ({self.path_env} names it)" if self.path_env else ""


class _AtPlace(Part):
    inlined: ClassVar[Mapping[str, type[Part]]] = {"place": Place}


class _InFormat(_AtPlace):
    """A declaration with keys that only its format has: pairs of a key and its value in `options`."""

    kind: ClassVar[str]
    """What the files hold: a key of `FORMATS`."""
    chosen_by: ClassVar[str] = "format"
    holder: ClassVar[str] = "options"
    options: tuple[tuple[str, Any], ...]

    @classmethod
    def choices(cls) -> Sequence[str]:
        return tuple(FORMATS[cls.kind])

    @classmethod
    def further_keys(cls, choice: str) -> type[Part] | None:
        keys: type[Part] | None = load_format(cls.kind, choice).keys
        return keys

    @classmethod
    def hold(cls, further: Any) -> Any:
        return tuple((field.name, getattr(further, field.name)) for field in dataclasses.fields(further))

    def option(self, key: str) -> Any:
        """The value of one of the format's own keys."""
        return dict(self.options)[key]


@dataclass(frozen=True)
class Import(_InFormat):
    """A file or folder of questions, its format, and the format's own keys with their values."""

    format: FormatName
    """what the file holds"""
    place: Place
    options: tuple[tuple[str, Any], ...] = ()
    licence: Annotated[Text | None, Default("unknown")] = None
    """what the questions may be used for; with `none` the export has no rows of them"""
    kind = QUESTIONS


@dataclass(frozen=True)
class Paraphrases(Import):
    """A file or folder of other wordings of questions."""

    left_out = ("licence",)
    kind = PARAPHRASES


@dataclass(frozen=True)
class Results(_InFormat):
    """Imported answers of a model to the questions of one dataset; a model may have several such entries.

    Without `prompt`, the rows belong to the prompt with the file's number of demonstrations.
    """

    format: FormatName
    """of the file"""
    place: Place
    dataset: Text
    """the dataset whose questions are answered"""
    prompt: Annotated[Text | None, Default("")] = None
    """the prompt to which the answers belong; needed if the study has several and the file does not say"""
    options: tuple[tuple[str, Any], ...] = ()
    licence: Annotated[Text | None, Default("unknown")] = None
    """as of `import`: with `none` the export has no rows of these answers"""
    kind = ANSWERS


def _read_date(value: Any) -> str | None:
    """None: unknown."""
    if str(value) != _UNKNOWN and not _DATE.fullmatch(str(value)):
        raise fail("", f"must be the texts' date (2018, 2018-12 or 2018-12-20), or {_UNKNOWN}")
    return None if value == _UNKNOWN else str(value)


@dataclass(frozen=True)
class Collection(_InFormat):
    """A file of texts with titles, which retrieval searches. The passages carry `source`, `date` (None: unknown) and
    `licence`, wherever they are published."""

    name: Slug
    """the collection"""
    format: FormatName
    """of the file"""
    place: Place
    source: Text
    """whose texts they are"""
    date: Annotated[
        str | None,
        value_of(
            "a date", _read_date, type=["string", "integer"], pattern=rf"^({_DATE.pattern}|{_UNKNOWN})$"
        ),
    ]
    """when they were taken: 2018, "2018-12", "2018-12-20" or unknown"""
    licence: Text
    """what they may be used for; exports name it"""
    options: tuple[tuple[str, Any], ...] = ()
    kind = COLLECTIONS

    @classmethod
    def expand(cls, raw: Mapping[str, Any], reading: Reading) -> Mapping[str, Any]:
        return {"date": "", **raw}


@dataclass(frozen=True)
class Counts(_AtPlace):
    """A text, or with `dataset` a file of published counts for its questions. `columns`: meaning → the file's name."""

    name: Slug
    """begins the names of the measures: `NAME_subject_sentences`, `NAME_pair_articles`, …"""
    place: Place
    dataset: Text | None = None
    """the file has published counts for questions of this dataset (`NAME_count`). Without it, the file is a text, or a
    folder of texts, plain or JSON lines with key `text`, in which is counted"""
    columns: Annotated[
        tuple[tuple[str, str], ...], column_names(COUNT_MEANINGS), Default("their meanings")
    ] = ()
    """columns of published counts by meaning: `count`, and `id` (of the question) or `subject`, and `answer` if both were
    counted together. Without it, the file may also be one JSON object: `{subject: count}` or `{subject: {answer:
    count}}`"""

    def check(self, raw: Mapping[str, Any], reading: Reading) -> Counts:
        if "columns" in raw and "dataset" not in raw:
            raise fail("columns", "goes with dataset: a text has no columns")
        return self

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of what is counted: a text's unit by unit, and in each the subject first."""
        if self.dataset:
            return (f"{self.name}_count",)
        return tuple(f"{self.name}_{what}_{unit}" for unit in UNITS for what in WHATS)


@dataclass(frozen=True)
class Decisions(_AtPlace):
    """A table of decisions on the questions of `dataset`, by policy `name` or by those that its rows name.

    `columns`: meaning → the file's name of the column.
    """

    name: Slug
    """the policy, unless the rows name it"""
    place: Place
    dataset: Text
    """the dataset whose questions it decides"""
    columns: Annotated[
        tuple[tuple[str, str], ...], column_names(DECISION_MEANINGS), Default("their meanings")
    ] = ()
    """columns of the file by meaning: `id` (of the question), `method` (the policy), `retrieve` (yes, no, or the number
    of retrievals), `score` (the higher, the rather it retrieves; the threshold is fitted)"""


@dataclass(frozen=True)
class TagMe(Part):
    """A TagMe-compatible service that links questions to Wikipedia articles (PopQA, appendix A)."""

    url: Annotated[Annotated[str, address(TAGME_URL)] | None, Default("the public service")] = None
    """its address"""
    token_env: Variable = "TAGME_TOKEN"  # noqa: S105 (a name, no token)
    """the variable with the token"""
    min_rho: Annotated[float, number(-1e-9, 1)] = 0.22
    """links at or below it are left out"""


@dataclass(frozen=True)
class ReferenceQuestions(_AtPlace):
    """A file of questions whose popularity is compared; no model answers them."""

    name: Slug
    """the questions"""
    format: Annotated[str, one_of(REFERENCE_FORMATS)]
    """`nq_open`"""
    place: Place
    tagme: Annotated[TagMe | None, BeforeValidator(need_mapping)] = None
    """a service that links them to entities; without it, the names of the lake's entities do"""


def load_format(kind: str, name: str) -> Any:
    """The record of a format of files with this content."""
    return load_record(FORMATS[kind][name], "FORMAT")


def slice_of(declared: Import | Results | Collection) -> list[Any]:
    """What decides the rows, for a fingerprint: all keys except places of files, and the code that reads the files."""
    more: list[Any] = [declared.dataset, declared.prompt] if isinstance(declared, Results) else []
    if isinstance(declared, Collection):
        more = [declared.name, declared.source, declared.date, declared.licence]
    options = [(key, value) for key, value in declared.options if not isinstance(value, Path)]
    return [declared.format, options, *more, code_version(FORMATS[declared.kind][declared.format])]
