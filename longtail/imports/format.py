"""What a format of imported files is, and what it gives: the records that the modules of formats fill in.

Every record of a format has `keys`, the keys of study.yaml that only this format has, and `check`, which looks for
columns at the beginning of each of its `files` before a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from longtail.imports.lines import AUTO, ENCLOSING, PLAIN, clean
from longtail.imports.records import Check
from longtail.imports.results import ImportedAnswer, Questions
from longtail.storage.lake import QuarantinedRow
from longtail.study.datasets import Dataset
from longtail.study.imports import EXACT_MATCH, Import, Results
from longtail.study.parts import Part
from longtail.study.values import Text, fail, need_mapping, one_of, read_text, value_of

SOURCE = "imported"
LONGEST_QUESTION = 2_000


@dataclass(frozen=True)
class ImportedEntity:
    """An entity as a file names it. `popularity` is what the file gives: one number without a month; None = missing."""

    entity_id: str
    label: str
    aliases: tuple[str, ...] = ()
    article_title: str | None = None
    popularity: float | None = None


@dataclass(frozen=True)
class ImportedPattern:
    """A cloze pattern of a relation: a sentence with [X] for the subject and [Y] for the object; None = not said."""

    text: str
    lemma: str | None = None
    extended_lemma: str | None = None
    tense: str | None = None


@dataclass
class LinkingCounts:
    """How many questions a file has, how many of them are linked to an entity, and why the others are not.

    `n_most_popular`: those linked to the most popular of several entities of the name.
    """

    n_questions: int = 0
    n_linked: int = 0
    n_no_entity: int = 0
    n_several_entities: int = 0
    n_put_aside: int = 0
    n_most_popular: int = 0

    def link(self, ids: Iterable[str], popularity: Mapping[str, float]) -> str | None:
        """Count a question whose subject's name the entities `ids` bear; return the entity that it is linked to.

        Of several, that is the one of the highest `popularity`. If none has more than the others, they are left out.
        """
        ranked = sorted((-popularity.get(entity_id, -1.0), entity_id) for entity_id in set(ids))
        is_chosen = len(ranked) > 1 and ranked[0][0] < ranked[1][0]
        self.n_linked += len(ranked) == 1 or is_chosen
        self.n_no_entity += not ranked
        self.n_several_entities += len(ranked) > 1 and not is_chosen
        self.n_most_popular += is_chosen
        return ranked[0][1] if len(ranked) == 1 or is_chosen else None


def reasons(rejected: Sequence[QuarantinedRow]) -> dict[str, int]:
    """How many rows were put aside for each reason: its words up to the first colon."""
    return dict(Counter(row.reason.split(":")[0] for row in rejected).most_common(10))


@dataclass
class ImportedDataset:
    """A file's content. `questions` are rows of lake table questions without `dataset`, by the file's own ids.

    `facts` are (subject_id, property_id, object_id, relation). `rejected`: the rows that could not be used. `linking`
    counts, by relation, how many subjects were linked by their names; it is empty if the file names entities.
    `patterns` and `candidates` are those of each relation, in the order in which they are numbered and scored. `changes`:
    (relation, pattern, other pattern) → what changes between them.
    `passages` are title and text about an entity. `says` are lines that a person should read. `rows`: number of a row →
    id of its question, where the format invents ids.
    """

    questions: dict[str, dict[str, Any]] = field(default_factory=dict)
    entities: dict[str, ImportedEntity] = field(default_factory=dict)
    facts: list[tuple[str, str, str, str]] = field(default_factory=list)
    rejected: list[QuarantinedRow] = field(default_factory=list)
    linking: dict[str, LinkingCounts] = field(default_factory=dict)
    patterns: dict[str, list[ImportedPattern]] = field(default_factory=dict)
    candidates: dict[str, list[str]] = field(default_factory=dict)
    changes: dict[tuple[str, str, str], str] = field(default_factory=dict)
    passages: dict[str, tuple[str, str]] = field(default_factory=dict)
    says: list[str] = field(default_factory=list)
    rows: dict[int, str] = field(default_factory=dict)

    @property
    def notes(self) -> dict[str, Any]:
        """What people should know, by name."""
        n_linked, n = (
            sum(getattr(counts, name) for counts in self.linking.values())
            for name in ("n_linked", "n_questions")
        )
        shares = {"linked_share": round(n_linked / n, 4)} if n else {}
        return {
            "put_aside": len(self.rejected),
            "reasons": reasons(self.rejected),
            "says": self.says,
            **shares,
        }


@dataclass
class ImportedParaphrases:
    """Question id → template_id → wording, for the questions of a dataset. `says`: as in `ImportedDataset`; `n_without`:
    the number of questions without a wording."""

    wordings: dict[str, dict[int, str]] = field(default_factory=dict)
    rejected: list[QuarantinedRow] = field(default_factory=list)
    says: list[str] = field(default_factory=list)
    n_without: int = 0

    @property
    def notes(self) -> dict[str, Any]:
        """What people should know, by name."""
        return {
            "paraphrase_rows": sum(map(len, self.wordings.values())),
            "questions_without_paraphrases": self.n_without,
            "put_aside": len(self.rejected),
            "reasons": reasons(self.rejected),
            "says": self.says,
        }


def question_row(question_id: str, question: str, gold_answers: list[str], **known: Any) -> dict[str, Any]:
    """A row of lake table questions without `dataset`. What is not `known` by the name of its column is empty."""
    empty = dict.fromkeys(("relation", "property_id", "subject_id", "subject"))
    lists: dict[str, Any] = {name: [] for name in ("subject_aliases", "object_ids", "objects")}
    row = {"question_id": question_id, "question": question, "gold_answers": gold_answers}
    return {**row, **empty, **lists, **known}


def by_name(entities: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Label or alias → ids of the entities with this name. `entities` are rows with entity_id, label and aliases."""
    names: dict[str, set[str]] = {}
    for entity in entities:
        for name in (entity["label"], *entity["aliases"]):
            if text := clean(name):
                names.setdefault(text, set()).add(entity["entity_id"])
    return names


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
    if any(isinstance(value, Mapping | list) or value is None for value in wanted.values()):
        raise fail("", "columns of the file with one value each were expected, as in {split: test}")
    return tuple((str(column), str(value).strip().casefold()) for column, value in wanted.items())


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


@dataclass(frozen=True, kw_only=True)
class _Format:
    """`files` gives the files that are read at a place, which is one file where a format says nothing else."""

    files: Callable[[Path, Any], list[Path]] = lambda place, _declared: [place]
    keys: type[Part] | None = None
    check: Check = lambda _path, _declared: None


@dataclass(frozen=True)
class QuestionFormat(_Format):
    """Questions of others. Their relations are those of a `relation_set`, or, where that is None, any or none.

    `read` takes the place, the declaration, the dataset (its name, and the relations that are asked about; none:
    all), and names of entities to link subjects to. With `names_entities`, the files bring entities, facts and
    popularity. With `links_subjects`, the subjects that the files name are linked to entities that are known from
    elsewhere. Without either, the questions have no subject. With `invents_ids`, ids are made from the file:
    `ImportedDataset.rows` says which row a question comes from, and no subject of another file is linked to its
    entities. With `has_candidates`, its questions are cloze queries, and the files bring each relation's patterns and
    candidates. `end_task`: the score by which grounded answers are published.
    """

    read: Callable[[Path, Import, Dataset, Names], ImportedDataset]
    relation_set: str | None = None
    names_entities: bool = False
    links_subjects: bool = False
    invents_ids: bool = False
    has_candidates: bool = False
    end_task: str = EXACT_MATCH


@dataclass(frozen=True)
class ParaphraseFormat(_Format):
    """Paraphrases of the questions of format `of`, joined by their ids."""

    of: str
    read: Callable[[Path, Questions], ImportedParaphrases]


@dataclass(frozen=True)
class AnswerFormat(_Format):
    """Answers of models. `read` gives the answers to the given questions, and the rows that it put aside.

    Where files do not say how many demonstrations there were (`tells_shots`), and the study has several prompts, the
    study must name one. Where files do not say the method, key `method` does. With `joins_by_row`, the questions that
    it gets have the number of their row in the dataset's file (`row`), where that is known. `package`: the Python
    module that reads the files, and what pip installs.
    """

    read: Callable[[Path, Results, Questions], tuple[list[ImportedAnswer], list[QuarantinedRow]]]
    tells_shots: bool = False
    joins_by_row: bool = False
    package: tuple[str, str] | None = None


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
class CollectionFormat(_Format):
    """Texts to search. `read` gives the texts in the file's order, and puts rows aside that hold none. It takes the
    place, the rows put aside, and the values of the format's own `keys`, by their names.

    A text is a passage with an id of its own, or, with `gives_articles`, an article (or a part of one) to be cut into
    passages; its id is then its title, which the parts of an article share.
    """

    read: Callable[..., Iterator[CollectedText]]
    gives_articles: bool = False
