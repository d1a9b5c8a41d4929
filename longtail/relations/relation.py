"""The record of a relation, which all sets of relations use."""

from __future__ import annotations

from dataclasses import dataclass

SUBJECT = "[subj]"
OBJECT = "[obj]"
ALL = "all"
"""What the marts call all relations together. No relation may have this name."""


@dataclass(frozen=True)
class Relation:
    """One relation: `name` is the value of column `relation` everywhere, `property_id` is Wikidata's.

    `template` is the question, with `[subj]` once. `statement` holds `[subj]` and `[obj]` once each, `[obj]` last before
    the full stop, so that its beginning is a cloze prompt; it is empty where the set has no statements.
    `published_questions` is how many questions the dataset's paper counts, 0 where it does not say. `subject_kinds` and
    `object_kind` are kinds of the sandbox's entities; relations that the sandbox does not know have none.
    """

    name: str
    property_id: str
    template: str
    statement: str = ""
    published_questions: int = 0
    subject_kinds: tuple[str, ...] = ()
    object_kind: str = ""

    def question(self, subject: str) -> str:
        """The question about `subject` (a label)."""
        return fill(self.template, subject)

    def sentence(self, subject: str, obj: str) -> str:
        """The triple as a sentence, from the labels of its two ends."""
        before, after = self.statement.split(OBJECT)
        return before.replace(SUBJECT, subject) + obj + after.replace(SUBJECT, subject)


def fill(template: str, subject: str) -> str:
    """`template` with `subject` in the place of its one `[subj]`. A label that looks like a template stays as it is."""
    before, after = template.split(SUBJECT)
    return before + subject + after
