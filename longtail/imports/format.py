"""What a format of imported files is: the records that the modules of formats fill in.

Every record has `keys`, the keys of study.yaml that only this format has, and `check`, which looks for columns at the
beginning of each of its `files` before a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from longtail.imports.cells import AUTO, ENCLOSING, PLAIN
from longtail.imports.column_checks import Check
from longtail.imports.dataset import ImportedDataset, ImportedParaphrases
from longtail.imports.results import ImportedAnswer, Questions
from longtail.storage.lake import QuarantinedRow
from longtail.study.datasets import Dataset
from longtail.study.imports import EXACT_MATCH, Collection, Import, Results
from longtail.study.parts import Part
from longtail.study.values import Flag, Text, fail, need_mapping, one_of, read_text, value_of

Names = Callable[[], tuple[Mapping[str, set[str]], Mapping[str, float]]]
"""Gives the ids of the entities that bear a name, and the popularity by which one of them may be chosen."""
MOST_POPULAR = "most_popular"


def names_for(declared: Import, names: Names) -> tuple[Mapping[str, set[str]], Mapping[str, float]]:
    """The names, and the popularity if the import's key `ambiguous` chooses by it."""
    ids, popularity = names()
    return ids, popularity if declared.option("ambiguous") == MOST_POPULAR else {}


def _read_separator(value: Any) -> str:
    """Any text, as a tab."""
    return value if isinstance(value, str) and value else read_text(value)


def _read_rows(value: Any) -> tuple[tuple[str, str], ...]:
    """Columns of the file and the value that a row has there, as pairs."""
    wanted = {} if value is None else need_mapping(value)
    if any(isinstance(one, Mapping | list) or one is None for one in wanted.values()):
        raise fail("", "columns of the file with one value each were expected, as in {split: test}")
    return tuple((str(column), str(one).strip().casefold()) for column, one in wanted.items())


ChosenRows = Annotated[
    tuple[tuple[str, str], ...],
    value_of("a mapping of keys", _read_rows, type=["object", "null"]),
    Field(description="columns of the file with the value of the rows that count, as in {split: test}"),
]
Ambiguous = Annotated[
    str,
    one_of(("left_out", MOST_POPULAR)),
    Field(
        description="`most_popular` links a name that several entities have to the most popular one, `left_out` to none"
    ),
]
Separator = Annotated[
    Annotated[str, value_of("a text", _read_separator, type="string", minLength=1)] | None,
    Field(description="the sign between the answers of one text"),
]
Quoting = Annotated[
    str,
    one_of((AUTO, PLAIN, ENCLOSING)),
    Field(
        description="what quotation marks at the beginning of cells mean: `csv`, they enclose cells; `none`, they belong"
        " to the text; `auto`, what the file's rows say"
    ),
]
Method = Annotated[Text, Field(description="how the model was asked")]


@dataclass(frozen=True)
class CutKeys(Part):
    """The keys of a collection's format whose files may break off."""

    accept_cut_dumps: Flag = False
    """use a truncated file, up to the break"""


def the_file(place: Path, _declared: Import | Results | Collection) -> list[Path]:
    """The files of a format whose place is one file."""
    return [place]


def no_check(_path: Path, _declared: Any) -> None:
    """The check of a format that does not look at the beginnings of its files."""


@dataclass(frozen=True)
class QuestionFormat:
    """Questions of others. Their relations are those of a `relation_set`, or, where that is None, any or none.

    `files` gives the files that are read at a place. `read` takes the place, the declaration, the dataset (its name,
    and the relations that are asked about; none: all), and names of entities to link subjects to. With
    `names_entities`, the files bring entities, facts and popularity. With `links_subjects`, the subjects that the files
    name are linked to entities that are known from elsewhere. Without either, the questions have no subject. With
    `invents_ids`, ids are made from the file: `ImportedDataset.rows` says which row a question comes from, and no subject
    of another file is linked to its entities. With `has_candidates`, its questions are cloze queries, and the files
    bring each relation's patterns and candidates. `end_task`: the score by which grounded answers are published.
    """

    read: Callable[[Path, Import, Dataset, Names], ImportedDataset]
    files: Callable[[Path, Import], list[Path]] = the_file
    relation_set: str | None = None
    names_entities: bool = False
    links_subjects: bool = False
    invents_ids: bool = False
    has_candidates: bool = False
    end_task: str = EXACT_MATCH
    keys: type[Part] | None = None
    check: Check = no_check


@dataclass(frozen=True)
class ParaphraseFormat:
    """Paraphrases of the questions of format `of`, joined by their ids."""

    of: str
    read: Callable[[Path, Questions], ImportedParaphrases]
    files: Callable[[Path, Import], list[Path]] = the_file
    keys: type[Part] | None = None
    check: Check = no_check


@dataclass(frozen=True)
class AnswerFormat:
    """Answers of models. `read` gives the answers to the given questions, and the rows that it put aside.

    Where files do not say how many demonstrations there were (`tells_shots`), and the study has several prompts, the
    study must name one. Where files do not say the method, key `method` does. With `joins_by_row`, the questions that
    it gets have the number of their row in the dataset's file (`row`), where that is known. `package`: the Python
    module that reads the files, and what pip installs.
    """

    read: Callable[[Path, Results, Questions], tuple[list[ImportedAnswer], list[QuarantinedRow]]]
    files: Callable[[Path, Results], list[Path]] = the_file
    tells_shots: bool = False
    joins_by_row: bool = False
    package: tuple[str, str] | None = None
    keys: type[Part] | None = None
    check: Check = no_check


@dataclass(frozen=True)
class CollectedText:
    """A passage or an article of a collection's file: the row that it stands in, its id there, its title and its text.

    `section`: the title of the article's section; `revision`, `url` and `date`: which version of the page it is;
    `entity_id`: the entity that it is about. None: the file does not say.
    """

    row: int
    id: str
    title: str
    text: str
    section: str | None = None
    revision: str | None = None
    url: str | None = None
    date: str | None = None
    entity_id: str | None = None


@dataclass(frozen=True)
class CollectionFormat:
    """Texts to search. `read` gives the texts in the file's order, and puts rows aside that hold none. It takes the
    place, the rows put aside, and the values of the format's own `keys`, by their names.

    A text is a passage with an id of its own, or, with `gives_articles`, an article (or a part of one) to be cut into
    passages; its id is then its title, which the parts of an article share.
    """

    read: Callable[..., Iterator[CollectedText]]
    gives_articles: bool = False
    files: Callable[[Path, Collection], list[Path]] = the_file
    keys: type[Part] | None = None
    check: Check = no_check
