"""What a dataset's file gives: questions, entities, facts and popularity, ready for the lake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from longtail.parsing.terms import LONGEST_LABEL, clean_term
from longtail.storage.lake import QuarantinedRow

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
        ranked = sorted((-popularity.get(one, -1.0), one) for one in set(ids))
        is_chosen = len(ranked) > 1 and ranked[0][0] < ranked[1][0]
        self.n_linked += len(ranked) == 1 or is_chosen
        self.n_no_entity += not ranked
        self.n_several_entities += len(ranked) > 1 and not is_chosen
        self.n_most_popular += is_chosen
        return ranked[0][1] if len(ranked) == 1 or is_chosen else None

    @property
    def share(self) -> float | None:
        """The share linked; None without questions."""
        return round(self.n_linked / self.n_questions, 4) if self.n_questions else None


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
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass
class ImportedParaphrases:
    """Question id → template_id → wording, for the questions of a dataset. `says`: as in `ImportedDataset`."""

    wordings: dict[str, dict[int, str]] = field(default_factory=dict)
    rejected: list[QuarantinedRow] = field(default_factory=list)
    says: list[str] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)


def clean(text: str, longest: int = LONGEST_LABEL) -> str:
    """The text as it is stored: in one line, without control characters, cut at `longest`."""
    return clean_term(text, longest).text


def reasons(rejected: Sequence[QuarantinedRow]) -> dict[str, int]:
    """How many rows were put aside for each reason: its words up to the first colon."""
    return dict(Counter(row.reason.split(":")[0] for row in rejected).most_common(10))


def by_name(entities: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Label or alias → ids of the entities with this name. `entities` are rows with entity_id, label and aliases."""
    names: dict[str, set[str]] = {}
    for entity in entities:
        for name in (entity["label"], *entity["aliases"]):
            if text := clean(name):
                names.setdefault(text, set()).add(entity["entity_id"])
    return names
