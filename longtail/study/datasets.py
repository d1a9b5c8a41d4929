"""Key `datasets` of study.yaml: the sets of questions."""

from __future__ import annotations

from dataclasses import dataclass, field

from longtail.relations.relation import SOURCE_SET, STUDY_SET, Relation, relation_names
from longtail.study.imports import (
    EXACT_MATCH,
    F1,
    PARAPHRASES,
    QUESTIONS,
    ROUGE_L,
    Import,
    Place,
    load_format,
    read_import,
    read_only_place,
)
from longtail.study.reader import Reader
from longtail.study.relation_files import ENDINGS, read_relation_files

SPLITS_BY = ("question", "subject")


@dataclass(frozen=True)
class Dataset:
    """A set of questions about the facts of `relations`.

    With `imported` (key `import`) the questions come from an imported file instead of the study's source; with
    `paraphrases` their other wordings also do. Left out, `relations` are all of the dataset's `relation_set`. A dataset
    without a set then asks all questions of its file, also those that have no relation. `definitions` are the relations
    of the files that key `relations` names.

    The other keys choose a part, in this order: `first_rows` (the first questions of the file), `ids` (those that a
    text file names, one id or JSON object a line; blank lines and lines that begin with # do not count), `relations`,
    then seeded draws of at most `max_questions_per_relation` from each relation and of at most `max_questions` in all.

    `split_by` says what the splits of adaptive retrieval keep together (SPEC §6): every question stands alone, or all
    questions of a subject are on the same side.

    Draws of questions, demonstrations and samples depend on the dataset's name. `drawn_as` names another dataset, whose
    draws this one shares: so two sets of wordings are compared on the same questions.

    `end_task` is the score of a grounded answer (SPEC §9): `exact_match`, `f1` or `rouge_l`; None: its format's.
    """

    name: str
    relations: tuple[str, ...] = field(default_factory=lambda: relation_names(SOURCE_SET))
    max_questions_per_relation: int | None = None
    imported: Import | None = None
    paraphrases: Import | None = None
    max_questions: int | None = None
    first_rows: int | None = None
    ids: Place | None = None
    split_by: str = SPLITS_BY[0]
    drawn_as: str | None = None
    end_task: str | None = None
    definitions: tuple[Relation, ...] = ()

    @property
    def relation_set(self) -> str | None:
        """The set that its relations are of; None where its format has none."""
        return STUDY_SET if self.definitions else relation_set_of(self.imported)


def relation_set_of(imported: Import | None) -> str | None:
    """The set of relations that goes with a dataset's source, or with its import's format; None without one."""
    if imported is None:
        return SOURCE_SET
    relation_set: str | None = load_format(imported.kind, imported.format).relation_set
    return relation_set


def end_task_of(dataset: Dataset) -> str:
    """The score of its grounded answers."""
    if dataset.end_task is not None or dataset.imported is None:
        return dataset.end_task or EXACT_MATCH
    score: str = load_format(dataset.imported.kind, dataset.imported.format).end_task
    return score


def read_dataset(read: Reader) -> Dataset:
    """One entry of `datasets`. Errors: `StudyError`."""
    keys = (
        "import",
        "paraphrases",
        "relations",
        "first_rows",
        "ids",
        "max_questions_per_relation",
        "max_questions",
        "split_by",
        "drawn_as",
        "end_task",
    )
    read.only("name", *keys)
    if "first_rows" in read.raw and "import" not in read.raw:
        raise read.fail("first_rows", "goes with import: a dataset of the source has no rows in a file")
    imported = read.optional("import", lambda key: read_import(read.child(key), QUESTIONS))
    relations, definitions = _relations(read, imported)
    return Dataset(
        name=read.slug("name"),
        relations=relations,
        max_questions_per_relation=read.optional("max_questions_per_relation", read.count),
        imported=imported,
        paraphrases=read.optional("paraphrases", lambda key: read_import(read.child(key), PARAPHRASES)),
        max_questions=read.optional("max_questions", read.count),
        first_rows=read.optional("first_rows", read.count),
        ids=read.optional("ids", lambda key: read_only_place(read.child(key))),
        split_by=read.choice("split_by", SPLITS_BY, SPLITS_BY[0]),
        drawn_as=read.optional("drawn_as", read.text),
        end_task=read.optional("end_task", lambda key: read.choice(key, (EXACT_MATCH, F1, ROUGE_L))),
        definitions=definitions,
    )


def _relations(read: Reader, imported: Import | None) -> tuple[tuple[str, ...], tuple[Relation, ...]]:
    """The names of the relations asked about, and the relations of the files among them.

    A format without a set of relations has names of its own; none means all.
    """
    names, value = relation_names(relation_set_of(imported)), read.raw.get("relations")
    listed = value if isinstance(value, list) else [value]
    try:
        definitions = read_relation_files(listed, read.path.parent)
    except ValueError as error:
        raise read.fail("relations", str(error)) from None
    if definitions and imported is not None:
        raise read.fail(
            "relations", "a file of relations goes with a dataset of the source, not with an import"
        )
    if definitions:
        others = [name for name in listed if not str(name).endswith(ENDINGS)]
        chosen = (
            Reader(read.path, read.where, {"relations": others}).choices("relations", names, ())
            if others
            else ()
        )
        return (*(relation.name for relation in definitions), *chosen), definitions
    if names:
        return read.choices("relations", names, names), ()
    return read.names("relations") if "relations" in read.raw else (), ()
